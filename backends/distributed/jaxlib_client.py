"""The parts of jaxlib that this package uses: its modules, its array classes and its errors.

jaxlib calls back into Python for objects that JAX supplies: the sharding and the type of an array.
The classes `OneDevice`, `Parts` and `_Type` have only the members that it reads.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gnomon.backends.errors import BackendUnavailable, ExecutionError, OutOfMemory

__all__ = [
    "Jaxlib",
    "assemble_argument",
    "compile_program",
    "execution_error",
    "jaxlib",
    "put_on_device",
]

_INSTALL = "python -m pip install 'gnomon[distributed]'"


class Jaxlib(NamedTuple):
    """The modules of jaxlib, and the classes that are derived from its own.

    Attributes:
      xla: ``jaxlib.xla_client``.
      native: ``jaxlib._jax``.
      one_device: the sharding of an array on one device.
      parts: the sharding of an array on several devices.
    """

    xla: Any
    native: Any
    one_device: Any
    parts: Any


@functools.cache
def jaxlib() -> Jaxlib:
    """Import jaxlib.

    Raises:
      BackendUnavailable: it is not installed, or lacks functions that are used here.
    """
    # jaxlib reads this at import. Without it, jaxlib logs a line for each client.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    try:
        xla = importlib.import_module("jaxlib.xla_client")
        native = importlib.import_module("jaxlib._jax")
        replicated = xla.HloSharding.replicate()

        class OneDevice(xla.SingleDeviceSharding):  # type: ignore[name-defined]
            """The sharding of an array on one device."""

            memory_kind = None

            def _to_xla_hlo_sharding(self, ndim: int) -> Any:
                return replicated

        class Parts(xla.GSPMDSharding):  # type: ignore[name-defined]
            """The sharding of an array on several devices; only the program knows its partition."""

            memory_kind = None

            def _to_xla_hlo_sharding(self, ndim: int) -> Any:
                return replicated

        return Jaxlib(xla, native, OneDevice, Parts)
    except ImportError as error:
        raise BackendUnavailable(
            f"several processes need jaxlib, which cannot be imported ({error}); install it: "
            f"{_INSTALL}"
        ) from error
    except AttributeError as error:
        raise BackendUnavailable(
            f"the installed jaxlib is of a version that gnomon does not support ({error}); install "
            f"another: {_INSTALL}"
        ) from error


class _Type:
    """The type of an array, with the attributes that jaxlib reads."""

    __slots__ = ("dtype", "shape", "weak_type")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype, self.weak_type = shape, dtype, False


def put_on_device(array: np.ndarray[Any, Any], device: Any, *, copy: bool) -> Any:
    """Put an array on a device of jaxlib; without ``copy``, the device may read it in place."""
    xla = jaxlib().xla
    semantics = xla.HostBufferSemantics
    return xla.batched_device_put(
        _Type(array.shape, array.dtype),
        _one_device(device),
        [array],
        [device],
        committed=True,
        force_copy=False,
        enable_x64=True,
        host_buffer_semantics=semantics.IMMUTABLE_ONLY_DURING_CALL if copy else semantics.ZERO_COPY,
    )


@functools.cache
def _one_device(device: Any) -> Any:
    return jaxlib().one_device(device)


@functools.lru_cache(maxsize=64)
def _parts(devices: tuple[Any, ...]) -> Any:
    xla = jaxlib().xla
    return jaxlib().parts(xla.DeviceList(devices), xla.HloSharding.replicate())


def assemble_argument(
    shape: tuple[int, ...], dtype: np.dtype[Any], devices: tuple[Any, ...], parts: Sequence[Any]
) -> Any:
    """Make an argument for several devices from its parts on the devices of this process."""
    return jaxlib().xla.ArrayImpl(
        _Type(shape, dtype), _parts(devices), list(parts), committed=True, _skip_checks=True
    )


def compile_program(
    client: Any,
    code: bytes,
    devices: Sequence[Any],
    options: Any,
    functions: Sequence[Callable[..., Any]],
) -> Any:
    """Compile a program.

    Args:
      client: jaxlib's client.
      code: a portable artifact of StableHLO.
      devices: the devices that run it.
      options: jaxlib's options.
      functions: the Python functions that it calls, by index.
    """
    if not functions:
        return client.compile_and_load(code, devices, options)
    # A program that calls functions must be a module of jaxlib's own MLIR.
    ir = importlib.import_module("jaxlib.mlir.ir")
    stablehlo = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    module = stablehlo.deserialize_portable_artifact(ir.Context(), code)
    where = jaxlib().xla.DeviceList(tuple(devices))
    return client.compile_and_load(module, where, options, list(functions))


def execution_error(error: Exception, what: str) -> ExecutionError | OutOfMemory:
    """Convert an error of jaxlib; ``what`` says what failed."""
    message = str(error)
    kind = OutOfMemory if message.startswith("RESOURCE_EXHAUSTED") else ExecutionError
    return kind(f"{what}: {message}")
