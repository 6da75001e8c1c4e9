"""Values by the identity of functions."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any, Generic, TypeVar

__all__ = ["IdentityMap"]

V = TypeVar("V")


class IdentityMap(Generic[V]):
    """Values by functions, which are kept only as long as the function exists.

    Functions that are equal but not the same have different values: an object with a ``__call__``
    may define equality so that ``Scale(2) == Scale(2.0)``, or not be hashable. Bound methods of the
    same object and function are the same.
    """

    def __init__(self) -> None:
        self._entries: dict[Any, tuple[weakref.ref[Any], V]] = {}

    def setdefault(self, function: Callable[..., Any], make: Callable[[], V]) -> V:
        """The value of a function; a new one if there is none.

        The value of an object that cannot be weakly referenced is new each time.
        """
        key = _identity(function)
        entry = self._entries.get(key)
        if entry is not None and entry[0]() is not None:
            return entry[1]
        entries = self._entries

        def forget(reference: weakref.ref[Any]) -> None:
            current = entries.get(key)
            if current is not None and current[0] is reference:
                del entries[key]

        try:
            reference = weakref.ref(function, forget)
        except TypeError:
            return make()
        value = make()
        entries[key] = reference, value
        return value

    def clear(self) -> None:
        """Forget all values."""
        self._entries.clear()


def _identity(function: Any) -> Any:
    if type(function) is MethodType:
        return id(function.__self__), id(function.__func__)
    return id(function)
