"""Names of functions: each public name is bound to a function that is pickled by that name."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FunctionType
from typing import Any

__all__ = ["name_aliases"]


def name_aliases(namespace: dict[str, Any], names: Iterable[str], module: str) -> None:
    """Make functions refer to their public names.

    A function that is exported under another name is replaced by a copy with that name. A function
    that a factory made is in the factory's module by its ``__module__``; it gets the public module.

    Args:
      namespace: functions by name; changed in place.
      names: the names to examine.
      module: the module of the copies.
    """
    for name in names:
        function = namespace[name]
        if not isinstance(function, FunctionType):
            continue
        if function.__name__ != name:
            namespace[name] = _named(function, name, module)
        elif getattr(sys.modules[function.__module__], name, None) is not function:
            function.__module__ = module


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
