"""The kernels that call NumPy's BLAS, and their dispatches, in IREE's dialects.

A kernel passes its two operands, its result, and integers to a native function
(`backends/native/products.cpp`), which computes the share of one of several workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gnomon.backends.iree.blas import SYMBOL
from gnomon.backends.iree.legalize import text_kernels
from gnomon.dialects.mlir import ir

__all__ = ["Kernel", "as_text", "dispatch", "element_of"]

_PREFIX = "products_"


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
    given = [_converted(x, kernel.operand) for x in operands]
    return text_kernels.dispatch(_PREFIX + kernel.name, [*given, *numbers], workers, [type_])[0]


def _converted(value: ir.Value, element: str) -> ir.Value:
    if element_of(value) == element:
        return value
    shape = ir.RankedTensorType(value.type).shape
    type_ = ir.RankedTensorType.get(shape, ir.Type.parse(element))
    return ir.Operation.create("stablehlo.convert", results=[type_], operands=[value]).results[0]


def as_text(kernel: Kernel) -> str:
    """A kernel as an executable in MLIR's generic form."""
    return text_kernels.kernel_as_text(_PREFIX + kernel.name, _code(kernel))


def _code(kernel: Kernel) -> str:
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
      -> (), sym_name = "{_PREFIX}{name}"}}> ({{
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
