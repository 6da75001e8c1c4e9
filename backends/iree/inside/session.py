"""The start of the compiler, and the handles of its sessions.

`iree.compiler.api` has neither of these in its interface.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any

__all__ = ["handles", "start"]


def start(flags: Sequence[str]) -> None:
    """Import the compiler, and give it the flags that hold for the whole process."""
    _leave_out_bindings()
    from iree.compiler import api  # noqa: PLC0415 - after the step before

    if flags:
        api._initializeGlobalCL("gnomon", *flags)


def _leave_out_bindings() -> None:
    """Let ``iree.compiler.api`` be imported without the packages that contain it.

    They import MLIR's bindings and NumPy, which `compiler_ir` replaces. With them the import takes
    130 ms of processor time, and without them 47.
    """
    for name in ("iree.compiler", "iree.compiler._mlir_libs"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            package = types.ModuleType(name)
            package.__spec__ = spec
            package.__path__ = list(spec.submodule_search_locations)
            sys.modules[name] = package


def handles(session: Any) -> tuple[Any, int]:
    """The compiler's library, as ctypes loads it, and its handle of a session."""
    from iree.compiler.api import ctypes_dl  # noqa: PLC0415 - `start` comes first

    return ctypes_dl._dylib, session._session_p
