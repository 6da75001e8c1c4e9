"""The decorator `jit`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from gnomon._arrays.annotations import DeviceLike
from gnomon._compilation.jit_function import JitFunction
from gnomon._compilation.lowered import no_compiler_options
from gnomon._compilation.shardings import RequestedShardings
from gnomon._sharding.device import Device, as_device
from gnomon._sharding.sharding import SingleDeviceSharding
from gnomon._tracing.function import check_callable

__all__ = ["jit"]

P = ParamSpec("P")
R = TypeVar("R")


@overload
def jit(
    fun: Callable[P, R],
    *,
    in_shardings: Any = ...,
    out_shardings: Any = ...,
    static_argnums: int | Sequence[int] | None = ...,
    static_argnames: str | Iterable[str] | None = ...,
    donate_argnums: int | Sequence[int] | None = ...,
    donate_argnames: str | Iterable[str] | None = ...,
    keep_unused: bool = ...,
    device: DeviceLike | None = ...,
    backend: str | None = ...,
    inline: bool = ...,
    compiler_options: dict[str, Any] | None = ...,
    tiered: bool | None = ...,
) -> JitFunction[P, R]: ...


@overload
def jit(
    fun: None = ...,
    *,
    in_shardings: Any = ...,
    out_shardings: Any = ...,
    static_argnums: int | Sequence[int] | None = ...,
    static_argnames: str | Iterable[str] | None = ...,
    donate_argnums: int | Sequence[int] | None = ...,
    donate_argnames: str | Iterable[str] | None = ...,
    keep_unused: bool = ...,
    device: DeviceLike | None = ...,
    backend: str | None = ...,
    inline: bool = ...,
    compiler_options: dict[str, Any] | None = ...,
    tiered: bool | None = ...,
) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...


def jit(
    fun: Callable[..., Any] | None = None,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: DeviceLike | None = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
    tiered: bool | None = None,
) -> Any:
    """A compiled version of ``fun``.

    The first call with arguments of given structure, shapes, dtypes and static values traces
    ``fun`` and compiles the program; later calls run the compiled program.

    Args:
      fun: a pure function of arrays and pytrees of them. Without it, a decorator is returned.
      in_shardings: the shardings of the positional arguments: a `gnomon.sharding.Sharding`, a
        `gnomon.P` of the mesh that is set, a `gnomon.experimental.layout.Format`, or a pytree of
        those and of None that is a prefix of the tuple of the arguments. None: the sharding that
        the argument has. An array committed to another sharding is an error; it is not moved. With
        one `SingleDeviceSharding` the program runs on its device, and arguments are copied there.
      out_shardings: the shardings of the result, in the same forms. None: they are propagated from
        the arguments.
      static_argnums: positions of arguments that are Python values known at tracing; they must be
        hashable, and each new value compiles again.
      static_argnames: their names. If only one of the two is given, the other is inferred from
        the signature.
      donate_argnums, donate_argnames: arguments whose memory the call may take over; they must not
        be used afterwards.
      keep_unused: without effect, accepted for compatibility: unused arguments of ``fun`` always
        stay arguments of the program.
      device: the device that the program runs on; arguments elsewhere are copied there. By default,
        the program runs on the device that arguments are committed to (`device_put`), or else on
        the default device. A call inside another traced function runs on that function's device.
      backend: the name of a platform, whose first device the program runs on.
      inline: without effect, accepted for compatibility: calls inside another traced function are
        always inlined.
      compiler_options: must be None or empty: XLA's options do not apply here.
      tiered: whether the first calls run without waiting for the compiler: NumPy evaluates the
        program while it is compiled in the background, and the compiled program takes over when it
        is ready. None: as the option ``gnomon_tiered`` says. Without effect on devices other than
        the CPU. The next call raises an error of the compiler. See
        `JitFunction.wait_for_compilation`.
    Returns:
      A `JitFunction`: call it like ``fun``, or ``.lower(*args).compile()`` it ahead of time.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> f = gn.jit(lambda x: gnp.sin(x) ** 2)
      >>> f(gnp.zeros(3))
      Array([0., 0., 0.], dtype=float32)
    """
    if fun is None:
        return functools.partial(
            jit,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            keep_unused=keep_unused,
            device=device,
            backend=backend,
            inline=inline,
            compiler_options=compiler_options,
            tiered=tiered,
        )
    check_callable(fun, "jit")
    no_compiler_options("jit", compiler_options)
    if not (tiered is None or isinstance(tiered, (bool, np.bool_))):
        raise TypeError(f"jit: tiered must be True, False or None, got {tiered!r}")
    requested = RequestedShardings(in_shardings, out_shardings)
    if requested:
        if device is not None or backend is not None:
            raise ValueError("jit: pass only one of shardings, a device and a backend")
        device = _device_of_shardings(requested)
        requested = requested.without_shardings() if device is not None else requested
    if device is not None and backend is not None:
        raise ValueError(
            f"jit: pass a device or a backend, not both; got device={device!r}, backend={backend!r}"
        )
    if device is not None:
        device = as_device(device)
    elif not (backend is None or isinstance(backend, str)):
        raise TypeError(f"jit: backend must be the name of a platform, got {backend!r}")
    return JitFunction(
        fun,
        static_argnums,
        static_argnames,
        donate_argnums,
        donate_argnames,
        device or backend,
        requested,
        None if tiered is None else bool(tiered),
    )


def _device_of_shardings(requested: RequestedShardings) -> Device | None:
    """The device of the shardings if all are `SingleDeviceSharding`, otherwise None."""
    common = None
    shardings = requested.shardings
    if not all(isinstance(sharding, SingleDeviceSharding) for sharding in shardings):
        return None
    for sharding in shardings:
        (device,) = sharding.device_set
        if common not in (None, device):
            raise ValueError(
                f"jit: in_shardings and out_shardings name {common!r} and {device!r}, but a "
                "program runs on one device"
            )
        common = device
    return common
