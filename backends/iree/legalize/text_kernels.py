"""Kernels whose code is written as text: their executables and dispatches in IREE's dialects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gnomon.backends.iree.legalize.loop_kernels.scalar_code import index, number
from gnomon.dialects.mlir import ir

__all__ = ["EXECUTABLE", "add_kernels", "dispatch", "kernel_as_text", "run_kernel"]

EXECUTABLE = "stream.executable"
"""The compiler's op for kernels."""

# The start of the names of executables. Each has one kernel, as the compiler's own do, since only
# those are compiled apart from their program.
_PREFIX = "gnomon_"


def kernel_as_text(name: str, code: str) -> str:
    """An executable with one kernel.

    Args:
      name: the name of the kernel.
      code: its function, and the declarations of the functions that it calls.
    """
    return f"""
"{EXECUTABLE}"() <{{sym_name = "{_PREFIX}{name}", sym_visibility = "private"}}> ({{
  "stream.executable.export"() <{{function_ref = @{name}, sym_name = "{name}",
      sym_visibility = "public"}}> ({{
  ^bb0(%workers: index):
    %one = "arith.constant"() <{{value = 1 : index}}> : () -> index
    "stream.return"(%workers, %one, %one) : (index, index, index) -> ()
  }}) : () -> ()
  "builtin.module"() ({{{code}
  }}) : () -> ()
  "stream.executable.end"() : () -> ()
}}) : () -> ()
"""


def add_kernels(texts: Iterable[str], module: ir.Module) -> None:
    """Add kernels from `kernel_as_text` to a module."""
    parsed = ir.Module.parse("\n".join(texts), module.context)
    for executable in parsed.body.operations:
        executable.operation.clone(ip=ir.InsertionPoint(module.body))


def dispatch(
    name: str,
    operands: Sequence[ir.Value | int],
    workers: int,
    types: Sequence[ir.Type],
) -> list[ir.Value]:
    """Dispatch a kernel.

    Args:
      name: its name.
      operands: its arguments: arrays, and numbers of the program.
      workers: how many workgroups it has.
      types: the types of its results.

    Returns:
      The results.
    """
    given = [number(index(), x) if isinstance(x, int) else x for x in operands]
    return run_kernel(_PREFIX + name, name, [number(index(), workers)], given, types)


def run_kernel(
    executable: str,
    name: str,
    workload: Sequence[ir.Value],
    operands: Sequence[ir.Value],
    types: Sequence[ir.Type],
) -> list[ir.Value]:
    """Dispatch a kernel of an executable, which computes its workgroups from a workload."""
    untied = ir.IntegerAttr.get(index(), -1)
    return list(
        ir.Operation.create(
            "flow.dispatch",
            results=list(types),
            operands=[*workload, *operands],
            attributes={
                "entry_points": ir.ArrayAttr.get([ir.SymbolRefAttr.get([executable, name])]),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get(
                    [len(workload), len(operands), 0, 0]
                ),
                "tied_operands": ir.ArrayAttr.get([untied] * len(types)),
            },
        ).results
    )
