"""Copies of values: buffers of their own, which no simplification takes away again."""

from __future__ import annotations

import numpy as np

from gnomon.dialects.mlir import ir

__all__ = ["copy_of"]


def copy_of(value: ir.Value, number: int) -> ir.Value:
    """A tensor in a buffer of its own, at the current insertion point.

    The copy is a select between the value and another one, by a condition that the compiler cannot
    foresee. The condition is in memory, like the value: instead of copying the result of a kernel
    that reads no memory, IREE runs the kernel again, and then takes both results for one.

    Args:
      value: what to copy.
      number: another one for each copy of a program: two that look alike become one.
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
    # One condition for each element, because the host would read a single one and decide.
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
