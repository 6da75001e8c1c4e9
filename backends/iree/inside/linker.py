"""The linker in the compiler's package, which has no name in its interface."""

from __future__ import annotations

import importlib.util
from pathlib import Path

__all__ = ["bundled_linker"]


def bundled_linker() -> Path | None:
    """The path of the linker; None without the compiler."""
    specification = importlib.util.find_spec("iree.compiler")
    for folder in (specification and specification.submodule_search_locations) or ():
        path = Path(folder) / "_mlir_libs" / "iree-lld"
        if path.exists():
            return path
    return None
