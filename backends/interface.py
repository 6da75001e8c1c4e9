"""The interface of a backend, which is everything that the frontend knows about it.

The backends for IREE (`backends/iree`) and PJRT (`backends/pjrt`) implement it; `platforms` finds
them by name. All errors are those of `backends.errors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gnomon.backends.compilation import Artifact, Observer
from gnomon.dialects.functions import Program

__all__ = ["Backend", "Buffer", "Device", "Executable", "lower_to_run"]


@runtime_checkable
class Device(Protocol):
    """A device that holds arrays and runs programs: one object each, compared by identity.

    Optional: ``is_addressable``, whether it belongs to this process (see `shards.is_addressable`).
    """

    @property
    def id(self) -> int:
        """Its number among the devices of its platform."""

    @property
    def platform(self) -> str:
        """``"cpu"``, ``"cuda"``, ``"vulkan"``, ``"tpu"``, ..."""

    @property
    def device_kind(self) -> str:
        """The model, as the driver names it."""

    @property
    def process_index(self) -> int:
        """The index of the process to which it belongs."""

    @property
    def backend(self) -> Backend:
        """The backend of the device."""

    def __hash__(self) -> int:
        """By identity."""

    def memory_stats(self) -> dict[str, int] | None:
        """Statistics such as ``bytes_in_use`` and ``bytes_limit``, or None if there are none."""


class Buffer(Protocol):
    """An array on a device, which may not have been computed yet."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""

    @property
    def device(self) -> Any:
        """The `Device` that holds it."""

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Wait for the value; return a read-only array, without a copy if memory is shared."""

    def wait(self) -> None:
        """Wait for the value; raise the error of its computation, if any."""

    def is_ready(self) -> bool:
        """Whether reading the value would not wait for its computation."""

    def delete(self, reason: str = ...) -> None:
        """Free the memory; any later use raises an error that states ``reason``."""

    def is_deleted(self) -> bool:
        """Whether the buffer was deleted or donated."""

    def is_lost(self) -> bool:
        """Whether the value is lost because its device is gone or belongs to another process."""

    def copy_to_host_async(self) -> None:
        """Start the transfer to the host, so that `to_numpy` waits less."""


class Executable(Protocol):
    """A compiled program, loaded on a device.

    Optional methods: ``serialize() -> bytes``, ``memory_analysis()``, ``cost_analysis()``,
    ``as_text()``. Optional attribute: ``launcher``, a `gnomon._native.Launcher` that makes common
    calls without Python code.
    """

    @property
    def input_types(self) -> Sequence[tuple[tuple[int, ...], Any]]:
        """The shape and dtype of each argument."""

    @property
    def output_types(self) -> Sequence[tuple[tuple[int, ...], Any]]:
        """The shape and dtype of each result."""

    def run(self, buffers: Sequence[Any]) -> Sequence[Any]:
        """Run or start the program on buffers of its types and device, without checks."""

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run or start the program on buffers or NumPy arrays; check their types."""


class Backend(Protocol):
    """One platform: its devices, and compilation of programs for them.

    Optional method: ``lower_to_run``, see the function of that name.
    """

    @property
    def platform(self) -> str:
        """Its name."""

    def devices(self) -> Sequence[Any]:
        """Its devices, at least one and always the same objects; starts the driver.

        Raises:
          BackendUnavailable: there is no device; the message says what to install.
        """

    def lower(
        self, program: Program, *, keep_stages: bool = ..., observe: Observer | None = ...
    ) -> Artifact:
        """Lower a program whose public function is ``main``; the module is consumed.

        Raises:
          UnsupportedOnTarget: the platform does not support an op or a dtype in it.
        """

    def compile(
        self, artifact: Artifact, *, device: Any = ..., donate: tuple[int, ...] = ...
    ) -> Executable:
        """Compile a program that this backend has lowered.

        Args:
          artifact: the program.
          device: the device to run on; the first one by default.
          donate: positions of the arguments whose memory a call may reuse.

        Raises:
          CompilationError: the compiler rejected it, crashed, or is not installed.
        """

    def put(self, array: np.ndarray[Any, Any], device: Any = ..., *, copy: bool = ...) -> Any:
        """Transfer an array to a `Buffer`; without ``copy``, it must not be modified afterwards.

        Raises:
          OutOfMemory: the device does not have enough free memory.
        """


def lower_to_run(backend: Backend, program: Program) -> Artifact:
    """Lower a program only to compile it, with the same backend.

    A backend that recognizes the program may leave out the lowering.

    Args:
      backend: the backend.
      program: the program, whose module is consumed.

    Raises:
      UnsupportedOnTarget: see `Backend.lower`.
    """
    artifact: Artifact = getattr(backend, "lower_to_run", backend.lower)(program)
    return artifact
