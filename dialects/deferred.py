"""Modules that are imported when they are first used."""

from __future__ import annotations

import importlib
import types
from typing import Any

__all__ = ["Deferred"]


class Deferred(types.ModuleType):
    """Stands for a module that costs much to import, and is imported at its first use.

    From then on it holds what the module holds, at a module's speed.

    Args:
      name: the module.
    """

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # asked for by `inspect` and the like: no use of it
            raise AttributeError(attribute)
        module = importlib.import_module(self.__name__)
        vars(self).update(vars(module))
        # A plain module is what the interpreter reads fastest.
        object.__setattr__(self, "__class__", types.ModuleType)
        return getattr(module, attribute)
