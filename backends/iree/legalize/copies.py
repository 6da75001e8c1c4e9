"""Copies of values: buffers of their own, which no simplification takes away again."""

from __future__ import annotations

from gnomon.backends.iree.legalize.host_scalars import I1, PREDICATES, arith, literal, to_device
from gnomon.dialects.mlir import ir

__all__ = ["copy_of"]


def copy_of(value: ir.Value, number: int) -> ir.Value:
    """A tensor in a buffer of its own, at the current insertion point.

    It is a choice between the value and another one that the compiler cannot foresee.

    Args:
      value: what to copy.
      number: another one for each copy of a program: two that look alike become one.
    """
    type_ = ir.RankedTensorType(value.type)
    i32 = ir.IntegerType.get_signless(32)
    known = literal(i32, number)
    hidden = ir.Operation.create(
        "util.optimization_barrier", results=[i32], operands=[known]
    ).results[0]
    chosen = to_device(
        arith("cmpi", [hidden, known], ir.Type.parse(I1), predicate=PREDICATES["EQ"])
    )
    integral = isinstance(type_.element_type, ir.IntegerType)
    other = ir.Operation.create(
        "stablehlo.not" if integral else "stablehlo.negate", results=[type_], operands=[value]
    ).results[0]
    return ir.Operation.create(
        "stablehlo.select", results=[type_], operands=[chosen, value, other]
    ).results[0]
