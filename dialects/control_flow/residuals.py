"""What a differentiated loop keeps of each iteration, and what it makes again of that.

A value kept is written and read once for each iteration, which is what the backward pass of a loop
takes most of its time for. So a value is not kept where a few elementwise ops make it of others
that are there in any case: the loop's constants and inputs, its stacked results, and what must be
kept. ``1 - h * h`` is made of ``h``, ``s * (1 - s)`` of ``s``. What repeats a smaller value is kept
as that value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gnomon.dialects.body import Body, clone_into, operands_of, results_of
from gnomon.dialects.contract import is_literal
from gnomon.dialects.mlir import ir

__all__ = ["Remade", "remake"]

_REPEATS = "gnomon.broadcast_in_dim"
# Ops that cost less than a number's way to memory and back.
_CHEAP = frozenset(
    f"gnomon.{name}"
    for name in (
        *("add", "sub", "mul", "div", "neg", "abs", "sign", "square", "integer_pow", "max", "min"),
        *("eq", "ne", "lt", "le", "gt", "ge", "select", "clamp", "and", "or", "xor", "not"),
        *("convert", "real", "imag", "conj", "complex", "stop_gradient", "reshape"),
        "broadcast_in_dim",
    )
)
_MOST_OPS = 8


class Remade(NamedTuple):
    """How a value is made again.

    Attributes:
      value: the value.
      operations: the ops that make it, in order; none where the value itself is kept.
      leaves: the values that those start from.
    """

    value: ir.Value
    operations: list[ir.Operation]
    leaves: list[ir.Value]

    def emit(self, env: dict[ir.Value, ir.Value]) -> ir.Value:
        """Make the value at the current insertion point; ``env`` has the leaves."""
        env = dict(env)
        for op in self.operations:
            clone_into(op, env)
        return env[self.value]


def remake(body: Body, values: Sequence[ir.Value], free: Iterable[ir.Value]) -> list[Remade]:
    """How values of a body are made again of as few as possible.

    Args:
      body: what the values are computed in.
      values: the values.
      free: values that are there in any case.
    """
    place: dict[ir.Value, int] = dict.fromkeys(body.arguments, -1)
    maker: dict[ir.Value, ir.Operation] = {}
    for i, op in enumerate(body.operations):
        for result in results_of(op):
            place[result], maker[result] = i, op
    there = set(free)
    made: dict[ir.Value, Remade] = {}
    # What a value is made of comes before it, so that is decided by then.
    for value in sorted(dict.fromkeys(values), key=place.__getitem__):
        chain = _chain(value, there, maker)
        if chain is None:
            chain = _repetition(value, maker)
            there.add(chain[0].operands[0] if chain else value)
        inside = {r for op in chain for r in results_of(op)}
        used = dict.fromkeys(v for op in chain for v in operands_of(op) if v not in inside)
        made[value] = Remade(value, chain, list(used) if chain else [value])
    return [made[value] for value in values]


def _chain(
    value: ir.Value, there: set[ir.Value], maker: dict[ir.Value, ir.Operation]
) -> list[ir.Operation] | None:
    """The cheap ops that make a value of what is there; None where there are none, or too many."""
    found: dict[ir.Operation, None] = {}

    def visit(value: ir.Value) -> bool:
        if value in there:
            return True
        op = maker.get(value)
        if op is None or not (op.name in _CHEAP or is_literal(op)) or len(found) > _MOST_OPS:
            return False
        if all(visit(operand) for operand in operands_of(op)):
            found[op] = None
            return True
        return False

    return list(found) if visit(value) and len(found) <= _MOST_OPS else None


def _repetition(value: ir.Value, maker: dict[ir.Value, ir.Operation]) -> list[ir.Operation]:
    """The ops that repeat a smaller value, in order."""
    found: list[ir.Operation] = []
    while (op := maker.get(value)) is not None and op.name == _REPEATS:
        found.append(op)
        (value,) = op.operands
    return found[::-1]
