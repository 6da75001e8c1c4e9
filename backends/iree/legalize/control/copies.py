"""Copies of values in separate buffers, which the compiler's simplifications keep."""

from __future__ import annotations

import numpy as np

from gnomon.dialects.mlir import ir

__all__ = ["copy_of"]


def copy_of(value: ir.Value, number: int) -> ir.Value:
    """A tensor in a separate buffer, at the current insertion point.

    The copy is a select between the value and another one, by a condition that the compiler cannot
    fold. The condition is read from memory: if the kernel that makes the value read no memory, IREE
    would run it again instead of copying its result, and then merge the two results.

    Args:
      value: the value to copy.
      number: a different number for each copy in a program, since equal copies would be merged.
    """
    type_ = ir.RankedTensorType(value.type)
    scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    known = _create(
        "stablehlo.constant",
        scalar,
        value=ir.DenseElementsAttr.get(np.array(number, np.int32), type=scalar.element_type),
    )
    hidden = _create("util.optimization_barrier", scalar, known)
    boolean = ir.IntegerType.get_signless(1)
    chosen = _create(
        "stablehlo.compare",
        ir.RankedTensorType.get([], boolean),
        hidden,
        known,
        comparison_direction=ir.Attribute.parse("#stablehlo<comparison_direction EQ>"),
        compare_type=ir.Attribute.parse("#stablehlo<comparison_type SIGNED>"),
    )
    # One condition for each element, since the host would read a single one and branch on it.
    each = _create(
        "stablehlo.broadcast_in_dim",
        ir.RankedTensorType.get(type_.shape, boolean),
        chosen,
        broadcast_dimensions=ir.DenseI64ArrayAttr.get([]),
    )
    integral = isinstance(type_.element_type, ir.IntegerType)
    other = _create("stablehlo.not" if integral else "stablehlo.negate", type_, value)
    return _create("stablehlo.select", type_, each, value, other)


def _create(name: str, type_: ir.Type, *operands: ir.Value, **attributes: ir.Attribute) -> ir.Value:
    return ir.Operation.create(name, [type_], operands, attributes).results[0]
