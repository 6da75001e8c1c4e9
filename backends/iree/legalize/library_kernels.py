"""The kernels that call NumPy's BLAS, and their dispatches, in IREE's dialects.

A kernel passes its two operands, its result, and integers to a native function
(`backends/native/products.cpp`), which computes the share of one of several workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gnomon.backends.iree.blas import SYMBOL
from gnomon.dialects.mlir import ir

__all__ = ["Kernel", "dispatch", "element_of", "kernels_as_text"]

# The start of the names of executables. Each has one kernel, as the compiler's own do, since only
# those are compiled apart from their program.
_EXECUTABLE = "gnomon_products_"


class Kernel(NamedTuple):
    """A kernel.

    Attributes:
      name: its name.
      operand, result: the dtypes of its arrays.
      numbers: how many numbers it takes.
    """

    name: str
    operand: str
    result: str
    numbers: int


def element_of(value: ir.Value) -> str:
    """The name of an array's dtype."""
    return str(ir.RankedTensorType(value.type).element_type)


def dispatch(
    kernel: Kernel,
    operands: Sequence[ir.Value],
    numbers: Sequence[int],
    workers: int,
    type_: ir.Type,
) -> ir.Value:
    """Dispatch a kernel on arrays, which are converted to its dtype; return its result."""
    index = ir.IndexType.get()

    def constant(value: int) -> ir.Value:
        attribute = ir.IntegerAttr.get(index, value)
        return ir.Operation.create(
            "arith.constant", results=[index], attributes={"value": attribute}
        ).results[0]

    given = [_converted(x, kernel.operand) for x in operands]
    given += [constant(n) for n in numbers]
    entry = ir.SymbolRefAttr.get([_EXECUTABLE + kernel.name, kernel.name])
    return ir.Operation.create(
        "flow.dispatch",
        results=[type_],
        operands=[constant(workers), *given],
        attributes={
            "entry_points": ir.ArrayAttr.get([entry]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(given), 0, 0]),
            "tied_operands": ir.ArrayAttr.get([ir.IntegerAttr.get(index, -1)]),
        },
    ).results[0]


def _converted(value: ir.Value, element: str) -> ir.Value:
    if element_of(value) == element:
        return value
    shape = ir.RankedTensorType(value.type).shape
    type_ = ir.RankedTensorType.get(shape, ir.Type.parse(element))
    return ir.Operation.create("stablehlo.convert", results=[type_], operands=[value]).results[0]


def kernels_as_text(kernels: Sequence[Kernel]) -> str:
    """A module with an executable for each of some kernels, in MLIR's generic form."""
    return "\n".join(map(_executable, kernels))


def _executable(kernel: Kernel) -> str:
    name = kernel.name
    return f"""
"stream.executable"() <{{sym_name = "{_EXECUTABLE}{name}", sym_visibility = "private"}}> ({{
  "stream.executable.export"() <{{function_ref = @{name}, sym_name = "{name}",
      sym_visibility = "public"}}> ({{
  ^bb0(%workers: index):
    %one = "arith.constant"() <{{value = 1 : index}}> : () -> index
    "stream.return"(%workers, %one, %one) : (index, index, index) -> ()
  }}) : () -> ()
  "builtin.module"() ({{{_kernel(kernel)}
  }}) : () -> ()
  "stream.executable.end"() : () -> ()
}}) : () -> ()
"""


def _kernel(kernel: Kernel) -> str:
    name, operand, result, count = kernel
    # Upstream rewrites functions of bf16, but not their declarations. The buffers have no dtype.
    stored = {"bf16": "i16"}.get(operand, operand)
    elements = {"a": stored, "b": stored, "c": result}
    given = ", ".join(f"%n{i}" for i in range(count))
    indices = ", ".join(["index"] * count)
    bases = ", ".join(f"memref<{element}>, index" for element in elements.values())
    called = f"({bases}, {indices}, index, index) -> ()"
    arguments = ", ".join(f"%n{i}: index" for i in range(count))
    layout = "strided<[1], offset: ?>"
    views = "\n".join(
        f"""
    %{x}_view = "stream.binding.subspan"(%{x}, %zero, %one)
        : (!stream.binding, index, index) -> memref<?x{element}, {layout}>
    %{x}_parts:4 = "memref.extract_strided_metadata"(%{x}_view)
        : (memref<?x{element}, {layout}>) -> (memref<{element}>, index, index, index)"""
        for x, element in elements.items()
    )
    arrays = ", ".join(f"%{x}_parts#0, %{x}_parts#1" for x in elements)
    return f"""
  "func.func"() <{{function_type = {called}, sym_name = "{SYMBOL}{name}",
      sym_visibility = "private"}}> ({{
  }}) {{hal.import.static, llvm.bareptr = [true]}} : () -> ()
  "func.func"() <{{function_type = (!stream.binding, !stream.binding, {indices}, !stream.binding)
      -> (), sym_name = "{name}"}}> ({{
  ^bb0(%a: !stream.binding, %b: !stream.binding, {arguments}, %c: !stream.binding):
    %zero = "arith.constant"() <{{value = 0 : index}}> : () -> index
    %one = "arith.constant"() <{{value = 1 : index}}> : () -> index
    %worker = "stream.dispatch.workgroup.id"() <{{dimension = 0 : index}}> : () -> index
    %workers = "stream.dispatch.workgroup.count"() <{{dimension = 0 : index}}> : () -> index
{views}
    "func.call"({arrays}, {given}, %worker, %workers)
        <{{callee = @{SYMBOL}{name}}}> : {called}
    "func.return"() : () -> ()
  }}) : () -> ()"""
