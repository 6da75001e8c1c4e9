"""Modules that are imported at their first use."""

from __future__ import annotations

import importlib
import types
from typing import Any

__all__ = ["Deferred"]


class Deferred(types.ModuleType):
    """A placeholder for a module that is expensive to import; imports it at the first use.

    After that it has the module's attributes, and attribute access is as fast as a module's.

    Args:
      name: the name of the module.
    """

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # `inspect` and others probe these; that is not a use
            raise AttributeError(attribute)
        module = importlib.import_module(self.__name__)
        vars(self).update(vars(module))
        # The interpreter reads attributes of a plain module fastest.
        object.__setattr__(self, "__class__", types.ModuleType)
        return getattr(module, attribute)
