"""Functions with several names: each name is bound to a function whose ``__name__`` it is."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

__all__ = ["name_aliases"]


def name_aliases(namespace: dict[str, Any], names: Iterable[str], module: str) -> None:
    """Replace functions that are exported under another name by copies with that name.

    Args:
      namespace: functions by name; changed in place.
      names: the names to examine.
      module: the module of the copies.
    """
    for name in names:
        function = namespace[name]
        if isinstance(function, FunctionType) and function.__name__ != name:
            namespace[name] = _named(function, name, module)


def _named(function: FunctionType, name: str, module: str) -> FunctionType:
    copy = FunctionType(
        function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
    )
    copy.__dict__.update(function.__dict__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = function.__annotations__
    copy.__doc__ = function.__doc__
    copy.__module__, copy.__qualname__ = module, name
    return copy
