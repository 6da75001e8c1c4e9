"""The base class of functions that have state of their own, such as compiled programs or rules.

`functools.wraps` copies the ``__dict__`` of a function to its wrapper. So does every
transformation, to pass on the attributes that users set. A wrapper must not take over state: with
the compiled programs of the wrapped function, it would run these instead of its own. So the classes
here keep their state in slots, and ``__dict__`` holds only what users and `functools.wraps` put
there.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from types import MethodType
from typing import Any

from gnomon._tracing.function import with_metadata

__all__ = ["StatefulFunction"]


class StatefulFunction:
    """A function with state in slots, which no copy, wrapper or pickle shares.

    A subclass lists its state, ``"__dict__"`` and ``"__weakref__"`` in ``__slots__``.
    """

    __slots__ = ()

    __call__: Callable[..., Any]

    def _describe_as(self, fun: Callable[..., Any]) -> None:
        """Take over the name, the docstring and the attributes of ``fun``, and refer to it."""
        attributes = vars(self)
        kept = set(attributes)
        with_metadata(self, fun)
        # An attribute of a user's function must not replace a method, such as `lower`.
        for name in [n for n in attributes if n not in kept and _is_own(type(self), n)]:
            del attributes[name]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A decorated function of a module is pickled by its name, as the undecorated one would be.
        return _global_name(self) or object.__reduce_ex__(self, protocol)

    def __copy__(self) -> Any:
        return _rebuilt(self, lambda part: part, {})

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _rebuilt(self, lambda part: copy.deepcopy(part, memo), memo)

    def _own_attributes(self, fun: Callable[..., Any]) -> dict[str, Any]:
        """The attributes that are not those of ``fun``."""
        theirs = getattr(fun, "__dict__", {})
        metadata = (*functools.WRAPPER_ASSIGNMENTS, "__wrapped__")
        return {
            name: value
            for name, value in vars(self).items()
            if name not in metadata and not (name in theirs and theirs[name] is value)
        }


def _is_own(cls: type, name: str) -> bool:
    """Whether a class defines the attribute, unless it is a function's metadata."""
    return name not in (*functools.WRAPPER_ASSIGNMENTS, "__wrapped__") and hasattr(cls, name)


def _global_name(function: Any) -> str | None:
    """The qualified name under which the module of a function has it; None if there is none."""
    found: Any = sys.modules.get(getattr(function, "__module__", None) or "")
    name = getattr(function, "__qualname__", None)
    for part in str(name).split("."):
        found = getattr(found, part, None)
    return name if found is function else None


def _rebuilt(function: Any, copied: Callable[[Any], Any], memo: dict[int, Any]) -> Any:
    """A new function of the copied state."""
    parts: Any = object.__reduce_ex__(function, 4)
    make, arguments, state = parts[:3]
    memo[id(function)] = result = make(*copied(arguments))
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    vars(result).update(copied(attributes) or {})
    for name, value in copied(slots or {}).items():
        setattr(result, name, value)
    return result
