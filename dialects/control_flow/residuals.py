"""The residuals that a differentiated loop saves per iteration, and those that it recomputes.

A saved value is written and read once per iteration, and this memory traffic dominates the backward
pass of a loop. A value is therefore recomputed if a few elementwise ops give it from values that
are available in any case: the loop's constants and inputs, its stacked results, and other saved
values. For example, ``1 - h * h`` is recomputed from ``h``, and ``s * (1 - s)`` from ``s``. A value
that is a broadcast of a smaller one is saved as the smaller one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gnomon.dialects.body import Body, clone_into, operands_of, results_of
from gnomon.dialects.contract import is_literal
from gnomon.dialects.mlir import ir

__all__ = ["Remade", "remake"]

_REPEATS = "gnomon.broadcast_in_dim"
# Elementwise ops that are cheaper than writing a value to memory and reading it back.
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
    """How the backward pass obtains a value.

    Attributes:
      value: the value.
      operations: the ops that recompute it, in order; empty if the value itself is saved.
      leaves: the values on which those ops depend.
    """

    value: ir.Value
    operations: list[ir.Operation]
    leaves: list[ir.Value]

    def emit(self, env: dict[ir.Value, ir.Value]) -> ir.Value:
        """Recompute the value at the current insertion point; ``env`` maps the leaves."""
        env = dict(env)
        for op in self.operations:
            clone_into(op, env)
        return env[self.value]


def remake(body: Body, values: Sequence[ir.Value], free: Iterable[ir.Value]) -> list[Remade]:
    """Choose how to obtain values of a body while saving as few as possible.

    Args:
      body: the body that computes the values.
      values: the values.
      free: values that are available at no cost.
    """
    place: dict[ir.Value, int] = dict.fromkeys(body.arguments, -1)
    maker: dict[ir.Value, ir.Operation] = {}
    for i, op in enumerate(body.operations):
        for result in results_of(op):
            place[result], maker[result] = i, op
    there = set(free)
    made: dict[ir.Value, Remade] = {}
    # In program order, so that a value's operands are decided before the value.
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
    """The cheap ops that compute a value from available ones; None if it takes others or many."""
    found: dict[ir.Operation, None] = {}
    is_cheap = _collect_chain(value, there, maker, found)
    return list(found) if is_cheap and len(found) <= _MOST_OPS else None


def _collect_chain(
    value: ir.Value,
    there: set[ir.Value],
    maker: dict[ir.Value, ir.Operation],
    found: dict[ir.Operation, None],
) -> bool:
    if value in there:
        return True
    op = maker.get(value)
    if op is None or not (op.name in _CHEAP or is_literal(op)) or len(found) > _MOST_OPS:
        return False
    if all(_collect_chain(operand, there, maker, found) for operand in operands_of(op)):
        found[op] = None
        return True
    return False


def _repetition(value: ir.Value, maker: dict[ir.Value, ir.Operation]) -> list[ir.Operation]:
    """The ops, in order, that broadcast a smaller value to a value."""
    found: list[ir.Operation] = []
    while (op := maker.get(value)) is not None and op.name == _REPEATS:
        found.append(op)
        (value,) = op.operands
    return found[::-1]
