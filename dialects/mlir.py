"""The one module that names the package of the MLIR Python bindings.

Everything else imports ``ir``, ``func``, ``ext``, ``PassManager`` and ``stablehlo`` from here, so
that another build of the same bindings can take the place of this one by a change of this file.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _mlir
from torch_mlir._mlir_libs import _stablehlo as stablehlo
from torch_mlir.dialects import ext, func, irdl
from torch_mlir.passmanager import PassManager

__all__ = [
    "PassManager",
    "context",
    "ensure_context",
    "ext",
    "func",
    "ir",
    "irdl",
    "register",
    "stablehlo",
]

_BINDINGS = "torch_mlir"


def register_dialect_module(namespace: str) -> None:
    """Tell the bindings that a dialect has no generated Python module.

    Without this every look at an op of the dialect as an ``OpView`` retries an import that fails,
    at about fifty microseconds an op.
    """
    name = f"{_BINDINGS}.dialects.{namespace}"
    sys.modules.setdefault(name, types.ModuleType(name))


for _namespace in ("gnomon", "stablehlo", "chlo"):
    register_dialect_module(_namespace)

context = ir.Context()
# Verifiers and passes written in Python need the interpreter's lock, which a thread that waits for
# MLIR's worker threads would hold.
context.enable_multithreading(False)
stablehlo.register_dialect(context)

_thread = threading.local()


def ensure_context() -> None:
    """Make the process's one MLIR context current on this thread, for the thread's lifetime."""
    if not getattr(_thread, "entered", False):
        context.__enter__()
        ir.Location.unknown(context).__enter__()
        _thread.entered = True


def register(dialect: Any, operations: Sequence[Any]) -> None:
    """Register the Python classes of a dialect that was loaded from IRDL."""
    _mlir.globals._register_dialect_impl(dialect.DIALECT_NAMESPACE, dialect, replace=True)
    for operation in operations:
        _mlir.register_operation(dialect, replace=True)(operation)
        _mlir.register_op_adaptor(operation, replace=True)(operation.Adaptor)
