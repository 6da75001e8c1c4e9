"""The public modules of the package and their public names."""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterator
from pathlib import Path

import gnomon

# The layers below the API. Pages of their own describe them.
INNER = ("dialects", "passes", "backends", "tools")


def public_modules(package: types.ModuleType = gnomon) -> Iterator[types.ModuleType]:
    """The package and every public module below it."""
    yield package
    # `__path__` may hold further folders in an editable installation.
    folder = Path(str(package.__file__)).parent
    for path in sorted(folder.iterdir()):
        is_package = (path / "__init__.py").exists()
        if path.name.startswith("_") or not (is_package or path.suffix == ".py"):
            continue
        if package is gnomon and path.name in INNER:
            continue
        module = importlib.import_module(f"{package.__name__}.{path.stem}")
        if is_package:
            yield from public_modules(module)
        else:
            yield module


def public_names(module: types.ModuleType) -> list[str]:
    """The names that a module exports, without modules.

    A module without ``__all__`` exports the functions and classes that it defines.
    """
    if hasattr(module, "__all__"):
        names = [n for n in module.__all__ if not isinstance(getattr(module, n), types.ModuleType)]
    else:
        names = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        ]
    return sorted(names)
