"""The numbers of a kernel of rows: narrow floats are computed in f32, and stored as bits.

Each op's result is rounded, as in eager code. So a narrow number is an f32 with few digits, which
is stored and read again exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gnomon.backends.iree.legalize.array_kernels.code import Kernel
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    ELEMENTWISE,
    like,
    number,
    scalar,
)
from gnomon.dialects.mlir import ir

__all__ = ["NARROW", "computed", "from_bits", "in_memory", "to_bits", "wide"]

NARROW = frozenset({"bf16", "f16"})
"""The dtypes that are computed in f32, and rounded after each op."""

# Ops whose result is exact if their operands are.
_EXACT = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("negate", "abs", "sign", "maximum", "minimum", "select", "clamp", "floor", "ceil"),
        *("round_nearest_even", "round_nearest_afz"),
    )
)
_UNORDERED = 14  # the predicate of ``arith.cmpf`` that is true of nan


def wide(element: ir.Type) -> ir.Type:
    """The type in which numbers of a type are computed."""
    return ir.F32Type.get() if str(element) in NARROW else element


def in_memory(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type of an array in a kernel of rows: narrow floats are read and written as bits."""
    if str(type_.element_type) not in NARROW:
        return type_
    return ir.RankedTensorType.get(type_.shape, ir.IntegerType.get_signless(16))


class _Typed(NamedTuple):
    """A value of which only the type is known."""

    type: Any


class _Widened(NamedTuple):
    """An elementwise op on narrow floats, as an op on f32."""

    name: str
    operands: Sequence[_Typed]
    results: Sequence[_Typed]
    attributes: Any


def _widened(op: ir.Operation) -> Any:
    """An op with f32 instead of narrow floats, as far as `ELEMENTWISE` looks at it."""
    values = (*op.operands, *op.results)
    if NARROW.isdisjoint(str(v.type.element_type) for v in values):
        return op

    def typed(value: ir.Value) -> _Typed:
        type_ = value.type
        return _Typed(ir.RankedTensorType.get(type_.shape, wide(type_.element_type)))

    return _Widened(
        op.name, [typed(v) for v in op.operands], [typed(v) for v in op.results], op.attributes
    )


def from_bits(kernel: Kernel, element: ir.Type, value: ir.Value) -> ir.Value:
    """A number of a type as it is computed, from the number in memory."""
    if str(element) not in NARROW:
        return value
    f32 = like(value.type, ir.F32Type.get())
    kernel.spend(2)
    if str(element) == "f16":
        half = scalar("arith.bitcast", [value], like(value.type, element))
        return scalar("arith.extf", [half], f32)
    i32 = like(value.type, ir.IntegerType.get_signless(32))
    long = scalar("arith.extui", [value], i32)
    return scalar("arith.bitcast", [scalar("arith.shli", [long, number(i32, 16)], i32)], f32)


def to_bits(kernel: Kernel, element: ir.Type, value: ir.Value) -> ir.Value:
    """A number of a type as it is stored, from the number as it is computed."""
    if str(element) not in NARROW:
        return value
    i16 = like(value.type, ir.IntegerType.get_signless(16))
    kernel.spend(2)
    if str(element) == "f16":
        half = scalar("arith.truncf", [value], like(value.type, element))
        return scalar("arith.bitcast", [half], i16)
    i32 = like(value.type, ir.IntegerType.get_signless(32))
    long = scalar("arith.bitcast", [value], i32)
    return scalar("arith.trunci", [scalar("arith.shrui", [long, number(i32, 16)], i32)], i16)


def _rounded(element: ir.Type, value: ir.Value) -> ir.Value:
    """An f32 rounded to the digits of a narrow float."""
    f32 = value.type
    if str(element) == "f16":
        half = scalar("arith.truncf", [value], like(f32, element))
        return scalar("arith.extf", [half], f32)
    # On bits, since LLVM calls a missing function for some conversions to bf16.
    i32, i1 = (like(f32, ir.IntegerType.get_signless(n)) for n in (32, 1))
    bits = scalar("arith.bitcast", [value], i32)
    last = scalar("arith.shrui", [bits, number(i32, 16)], i32)
    last = scalar("arith.andi", [last, number(i32, 1)], i32)
    half = scalar("arith.addi", [last, number(i32, 0x7FFF)], i32)
    carried = scalar("arith.addi", [bits, half], i32)
    is_nan = scalar("arith.cmpf", [value, value], i1, predicate=_UNORDERED)
    quiet = scalar("arith.ori", [bits, number(i32, 0x00400000)], i32)
    chosen = scalar("arith.select", [is_nan, quiet, carried], i32)
    cut = scalar("arith.andi", [chosen, number(i32, -(1 << 16))], i32)
    return scalar("arith.bitcast", [cut], f32)


def computed(kernel: Kernel, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    """An elementwise op on numbers or vectors, rounded to its dtype."""
    kernel.spend(1)
    value = ELEMENTWISE[op.name](_widened(op), operands)
    element = op.results[0].type.element_type
    if str(element) not in NARROW or op.name in _EXACT:
        return value
    kernel.spend(8)
    return _rounded(element, value)
