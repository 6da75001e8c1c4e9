"""Transfer guards, which report values that move between host and devices implicitly.

Guards cost nothing while none is on: callers test `Config.guards_somewhere` first.
"""

from __future__ import annotations

import inspect
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon._config.current import config
from gnomon._diagnostics.source_location import is_internal
from gnomon._trees.flatten import tree_leaves
from gnomon.backends.errors import GnomonRuntimeError

__all__ = ["described", "explicit_transfers", "guard_host_value", "guard_transfer", "is_user_value"]

# The names of the parameters in which operators, elementwise functions and compiled functions get
# numbers.
_ELEMENTS = ("x", "y", "other", "x1", "x2", "a", "b", "args", "kwargs", "object", "leaves")
_NONE = object()
_log = logging.getLogger("gnomon.transfer_guard")


class _State(threading.local):
    """Whether the transfers that this thread makes now are explicit."""

    def __init__(self) -> None:
        self.explicit = False


_state = _State()


@contextmanager
def explicit_transfers() -> Iterator[None]:
    """Make the transfers in a block explicit, like those of `device_put`."""
    before, _state.explicit = _state.explicit, True
    try:
        yield
    finally:
        _state.explicit = before


def guard_host_value(x: Any) -> None:
    """Apply the guard to a host value that becomes an array."""
    if _level("host_to_device") == "allow" or not is_user_value(x):
        return
    if isinstance(x, (bool, int, float, complex)):
        guard_transfer("host_to_device", f"the Python number {x!r}")
    elif isinstance(x, (np.ndarray, np.generic)):
        guard_transfer("host_to_device", described(x))
    elif isinstance(x, (list, tuple)) and any(not isinstance(v, Array) for v in tree_leaves(x)):
        guard_transfer("host_to_device", f"a {type(x).__name__}")


def is_user_value(x: Any) -> bool:
    """Whether the user passed this value to the function of gnomon that was called.

    Numbers that gnomon's own functions compute with, and the defaults of parameters, are constants,
    which no guard forbids.
    """
    callee = frame = sys._getframe(1)
    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        callee, frame = frame, frame.f_back
    code = callee.f_code
    variadic = sum(bool(code.co_flags & f) for f in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS))
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + variadic]
    if isinstance(x, int):
        # Python shares small ints, so the same object may be an axis and an element.
        names = tuple(name for name in names if name in _ELEMENTS)
    defaults = _defaults(callee)
    arguments = [callee.f_locals.get(name) for name in names]
    arguments = [
        a for n, a in zip(names, arguments, strict=True) if a is not defaults.get(n, _NONE)
    ]
    return any(_holds(argument, x) for argument in arguments)


def _holds(argument: Any, x: Any) -> bool:
    """Whether a value is an argument or a leaf of it."""
    try:
        return any(leaf is x for leaf in tree_leaves(argument, is_leaf=lambda value: value is x))
    except Exception:
        return False  # A user's object that cannot be flattened yet: its constructor is running.


def _defaults(frame: FrameType) -> dict[str, Any]:
    """The defaults of the parameters of the function or method that runs in a frame."""
    name, first = frame.f_code.co_name, frame.f_code.co_varnames[:1]
    method = getattr(type(frame.f_locals.get(*first)), name, None) if first else None
    function = inspect.unwrap(frame.f_globals.get(name, method) or method or _defaults)
    if getattr(function, "__code__", None) is not frame.f_code:
        return {}
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def described(x: Any) -> str:
    """The description of a NumPy array in messages."""
    return f"a NumPy array {x.dtype.name}[{','.join(map(str, x.shape))}]"


def _level(kind: str) -> str:
    level: str = getattr(config, f"transfer_guard_{kind}") or config.transfer_guard or "allow"
    return level


def guard_transfer(kind: str, what: Any, where: Any = None) -> None:
    """Apply the guard of one direction, before a value is moved.

    Args:
      kind: ``"host_to_device"``, ``"device_to_device"`` or ``"device_to_host"``.
      what: a description of the value.
      where: the device that the value is moved to or from, or None for the host.
    Raises:
      GnomonRuntimeError: the configuration does not allow it.
    """
    level = _level(kind)
    explicit = _state.explicit
    if level == "allow" or (explicit and not level.endswith("_explicit")):
        return
    direction = kind.replace("_", "-")
    place = "" if where is None else f" ({where!r})"
    if level.startswith("log"):
        _log.warning("%s transfer: %s%s", direction, what, place)
        return
    advice = (
        "transfer_guard is 'disallow_explicit', which forbids explicit transfers, too"
        if explicit
        else "If the transfer is intended, make it explicit with gnomon.device_put or "
        f"gnomon.device_get, or allow it: with gnomon.transfer_guard_{kind}('allow')"
    )
    raise GnomonRuntimeError(f"Disallowed {direction} transfer: {what}{place}. {advice}")
