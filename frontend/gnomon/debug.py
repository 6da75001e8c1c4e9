"""Inspection of running programs: `print`, `callback`, `breakpoint`, and pictures of shardings.

In traced functions, they see the values and shardings that the program has when it runs. They do
not change results or derivatives.
"""

from __future__ import annotations

import builtins
import functools
import logging
import string
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._api.callbacks import call_for_effects
from gnomon._arrays.array import Array
from gnomon._sharding.pictures import visualize_sharding
from gnomon._sharding.sharding import Sharding
from gnomon._tracing.bind import as_operand
from gnomon._tracing.function import check_callable
from gnomon._tracing.inspections import inspect

__all__ = [
    "breakpoint",
    "callback",
    "inspect_array_sharding",
    "log",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]


def callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function with values of a program when it runs.

    Under `vmap`, the function is called for each element in turn; under `jvp` and `grad`, with the
    primal values.

    Args:
      callback: a function of ``args`` and ``kwargs``, whose arrays it gets as concrete `Array`s;
        its result is dropped. Without it, a decorator of such functions is returned.
      args, kwargs: pytrees; leaves that are not arrays are passed unchanged.
      ordered: keep the order of ordered calls. Programs make all calls in order anyway.
      partitioned: accepted for compatibility: the function always gets whole arrays.

    Example:
      >>> import gnomon as gn
      >>> seen = []
      >>> @gn.jit
      ... def f(x):
      ...     gn.debug.callback(lambda v: seen.append(int(v)), x)
      ...     return x + 1
      >>> _ = f(3), f(4)
      >>> seen
      [3, 4]
    """
    if callback is None:
        return functools.partial(_decorated, *args, ordered=ordered, **kwargs)
    check_callable(callback, "debug.callback")
    call_for_effects(callback, args, kwargs, ordered, "debug.callback")
    return None


def _decorated(
    function: Callable[..., Any], *args: Any, ordered: bool, **kwargs: Any
) -> Callable[..., None] | None:
    """The decorator that ``callback(ordered=True)`` returns; with arguments, it calls ``f``."""
    check_callable(function, "debug.callback")
    if args or kwargs:
        call_for_effects(function, args, kwargs, ordered, "debug.callback")
        return None

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> None:
        call_for_effects(function, args, kwargs, ordered, "debug.callback")

    return call


class _Checking(string.Formatter):
    """A formatter that checks, before values are known, that the format uses all arguments."""

    def check_unused_args(self, used: Any, args: Any, kwargs: Any) -> None:
        unused = [arg for i, arg in enumerate(args) if i not in used]
        if unused:
            raise ValueError(
                f"Unused positional arguments to `gnomon.debug.print`: {unused}; give each one its "
                "{} in the format string"
            )
        names = [name for name in kwargs if name not in used]
        if names:
            raise ValueError(
                f"Unused keyword arguments to `gnomon.debug.print`: {names}; give each one its "
                "{name} in the format string"
            )

    def format_field(self, value: Any, spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return value

    def get_field(self, name: str, args: Any, kwargs: Any) -> Any:
        first, _ = string._string.formatter_field_name_split(name)  # type: ignore[attr-defined]
        return self.get_value(first, args, kwargs), first


_checking = _Checking()


def print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Print values of a program when it runs.

    Args:
      fmt: a format string for ``str.format`` (an f-string would format the tracers). Without it, a
        function of only ``fmt``, ``args`` and ``kwargs`` is returned, so that ``kwargs`` may have
        the names of options.
      args, kwargs: the values to format: pytrees of arrays and of anything else.
      ordered: see `callback`.
      partitioned: see `callback`.
      skip_format_check: do not check during tracing that ``fmt`` uses all arguments.
    Raises:
      ValueError: ``fmt`` does not use an argument.
      KeyError, IndexError: ``fmt`` uses an argument that is not given.
      TypeError: ``fmt`` is not a string, or values are given without ``fmt``.

    Example:
      >>> import gnomon as gn
      >>> @gn.jit
      ... def f(x):
      ...     gn.debug.print("x = {x}, {}", 2 * x, x=x)
      ...     gn.debug.print(ordered=True)("ordered = {ordered}", ordered=x[0])
      ...     return x
      >>> _ = f(gn.numpy.arange(3))
      x = [0 1 2], [0 2 4]
      ordered = 0
    """
    return _show("debug.print", _print_line, ordered, skip_format_check, fmt, args, kwargs)


def _print_line(text: str) -> None:
    # In one piece: several devices may print at once.
    builtins.print(text + "\n", end="", flush=True)


def log(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Log values of a program when it runs, as messages of level INFO of ``gnomon.debug``.

    Arguments, results and errors are those of `print`.

    Args:
      fmt: the message, in which ``{}`` and ``{name}`` are replaced as by `str.format`; None uses a
        default.
      args: pytrees of arrays.
      ordered, partitioned, skip_format_check: see `print`.
      kwargs: pytrees of arrays by name.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import debug
      >>> import logging
      >>> messages = []
      >>> handler = logging.Handler()
      >>> handler.emit = lambda record: messages.append(record.getMessage())
      >>> logger = logging.getLogger("gnomon.debug")
      >>> level = logger.level
      >>> logger.setLevel(logging.INFO)
      >>> logger.addHandler(handler)
      >>> debug.log("x = {}", gnp.array(3))
      >>> logger.removeHandler(handler)
      >>> logger.setLevel(level)
      >>> messages
      ['x = 3']

    See also:
      `print`, `callback`
    """
    show = logging.getLogger("gnomon.debug").info
    return _show("debug.log", show, ordered, skip_format_check, fmt, args, kwargs)


def _show(
    what: str,
    show: Callable[[str], Any],
    ordered: bool,
    skip_format_check: bool,
    fmt: Any,
    args: Any,
    kwargs: Any,
) -> Callable[..., None] | None:
    def formatted(fmt: str, /, *args: Any, **kwargs: Any) -> None:
        _check_format(what, fmt, args, kwargs, skip_format_check)
        _format_later(show, fmt, args, kwargs, ordered)

    if fmt is None:
        if args or kwargs:
            raise TypeError(f"{what} without a format string takes options only, got values")
        return formatted
    formatted(fmt, *args, **kwargs)
    return None


def _check_format(what: str, fmt: Any, args: Any, kwargs: Any, skip_format_check: bool) -> None:
    if not isinstance(fmt, str):
        raise TypeError(f"{what}: expected str, got {type(fmt).__name__}")
    if not skip_format_check:
        _checking.vformat(fmt, args, kwargs)


def _format_later(
    show: Callable[[str], Any], fmt: str, args: Any, kwargs: Any, ordered: bool
) -> None:
    options: Any = np.get_printoptions()

    def run(*args: Any, **kwargs: Any) -> None:
        # The options of the call, which may be long over when a compiled program prints.
        with np.printoptions(**options):
            text = fmt.format(*args, **kwargs)
        show(text)

    call_for_effects(run, args, kwargs, ordered, "debug.print")


def breakpoint(*, ordered: bool = False, **kwargs: Any) -> None:
    """Stop in the debugger when the program reaches this call, with the caller's local variables.

    The debugger is ``sys.breakpointhook`` (`pdb`, or the one that ``PYTHONBREAKPOINT`` names). When
    a compiled program runs, the frame of the caller no longer exists. So the debugger stops in a
    function of gnomon with one local variable, ``variables``: a dict with those of the caller's
    local variables that are arrays or pytrees of arrays, with concrete arrays instead of tracers.

    Args:
      ordered: see `callback`.
      kwargs: ``backend``, ``filter_frames``, ``num_frames`` and ``token``, which are ignored.

    Example:
      >>> from gnomon import debug
      >>> import sys
      >>> hook = sys.breakpointhook
      >>> sys.breakpointhook = lambda: print("The debugger would stop here.")
      >>> debug.breakpoint()
      The debugger would stop here.
      >>> sys.breakpointhook = hook
    """
    unknown = kwargs.keys() - {"backend", "filter_frames", "num_frames", "token"}
    if unknown:
        raise TypeError(f"debug.breakpoint: unknown arguments {sorted(unknown)}")
    variables = {
        name: value
        for name, value in sys._getframe(1).f_locals.items()
        if all(isinstance(leaf, Array) for leaf in tree_util.tree_leaves(value))
    }
    call_for_effects(_stop, (variables,), {}, ordered, "debug.breakpoint")


def _stop(variables: dict[str, Any]) -> None:
    sys.breakpointhook()  # noqa: T100 - this is what it is for


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], Any]) -> None:
    """Call a function with the sharding of each array of a pytree.

    The sharding of a concrete array is known at once. That of a value in a jitted function is known
    when the function is compiled, so ``callback`` is called then, and not when the program runs.
    Inside of `shard_map`, each device has its own array, and the sharding splits no dimension.
    Under `vmap`, the sharding is that of the whole batch.

    Args:
      value: a pytree of arrays.
      callback: a function of a `gnomon.sharding.Sharding`; its result is dropped.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> mesh = gn.make_mesh((1,), ("x",), axis_types=(gn.sharding.AxisType.Auto,))
      >>> seen = []
      >>> @gn.jit
      ... def f(x):
      ...     gn.debug.inspect_array_sharding(x.T, callback=seen.append)
      ...     return x
      >>> _ = f(gn.device_put(gnp.zeros((4, 2)), gn.NamedSharding(mesh, gn.P("x"))))
      >>> seen[0].spec
      P(None, 'x')
    """
    check_callable(callback, "debug.inspect_array_sharding")
    for leaf in tree_util.tree_leaves(value):
        inspect(as_operand(leaf), callback)


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print a picture of how an array is distributed over devices.

    In a jitted function, this happens when it is compiled; see `inspect_array_sharding`.

    Args:
      arr: an array of one or two dimensions.
      kwargs: the options of `visualize_sharding`.
    Raises:
      ValueError: the array does not have one or two dimensions.

    Example:
      >>> import gnomon as gn
      >>> gn.debug.visualize_array_sharding(gn.numpy.zeros((4, 8)), use_color=False, scale=0.2)
      ┌────────┐
      │ CPU 0  │
      └────────┘
    """
    array = as_operand(arr)
    inspect(array, lambda sharding: visualize_sharding(array.shape, sharding, **kwargs))
