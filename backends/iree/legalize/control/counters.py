"""Counted loops: those with a literal step and a bound that is known before the loop."""

from __future__ import annotations

from dataclasses import dataclass

from gnomon.backends.iree.legalize.control.host_scalars import CONSTANT, I1, is_scalar, value_of
from gnomon.dialects.mlir import ir

__all__ = ["Counter", "counter_of"]


@dataclass(frozen=True)
class Counter:
    """A loop's counter.

    Attributes:
      index: the index of its carry.
      step: the literal by which it grows.
      bound: the value below which it stays.
    """

    index: int
    step: int
    bound: ir.Value


def counter_of(cond: ir.Block, body: ir.Block) -> Counter | None:
    """The counter of a loop that runs while it is below a known bound; None for other loops."""
    test = _defined_by(_terminator(cond).operands[0], "stablehlo.compare")
    if test is None or "LT" not in str(test.attributes["comparison_direction"]):
        return None
    value, bound = test.operands
    arguments = list(cond.arguments)
    if value not in arguments or not is_scalar(value) or str(value.type.element_type) == I1:
        return None
    inside = {result for op in cond.operations for result in op.operation.results}
    if bound in arguments or bound in inside:
        return None
    index = arguments.index(value)
    grown = _defined_by(_terminator(body).operands[index], "stablehlo.add")
    growth = _defined_by(grown.operands[1], CONSTANT) if grown is not None else None
    if grown is None or growth is None or grown.operands[0] != body.arguments[index]:
        return None
    step = value_of(growth)
    return Counter(index, step, bound) if step > 0 else None


def _terminator(block: ir.Block) -> ir.Operation:
    return block.operations[len(block.operations) - 1].operation


def _defined_by(value: ir.Value, name: str) -> ir.Operation | None:
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != name else owner.operation
