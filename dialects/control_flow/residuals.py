"""Rematerialization: which residuals a differentiated loop saves, and which it recomputes.

A saved value is written and read once per iteration, and this memory traffic dominates the backward
pass of a loop. A value is therefore recomputed if a few elementwise ops compute it from values that
are available anyway: the loop's constants and inputs, its stacked results, and other saved values.
For example, ``1 - h * h`` is recomputed from ``h``, and ``s * (1 - s)`` from ``s``. If a value is a
broadcast of a smaller one, the smaller one is saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gnomon.dialects.body import Body, clone_into, operands_of, results_of
from gnomon.dialects.contract import is_literal
from gnomon.dialects.mlir import ir

__all__ = ["Rematerialized", "rematerialize"]

_BROADCAST = "gnomon.broadcast_in_dim"
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
_MAX_OPS = 8


class Rematerialized(NamedTuple):
    """The way in which the backward pass obtains a residual.

    Attributes:
      value: the residual.
      operations: the ops that recompute it, in order; empty if the residual itself is saved.
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


def rematerialize(
    body: Body, values: Sequence[ir.Value], free: Iterable[ir.Value]
) -> list[Rematerialized]:
    """Choose which residuals to save and which to recompute.

    Args:
      body: the body that computes the residuals.
      values: the residuals.
      free: values that are available at no cost.
    """
    place: dict[ir.Value, int] = dict.fromkeys(body.arguments, -1)
    maker: dict[ir.Value, ir.Operation] = {}
    for i, op in enumerate(body.operations):
        for result in results_of(op):
            place[result], maker[result] = i, op
    available = set(free)
    made: dict[ir.Value, Rematerialized] = {}
    # In program order, so that a value's operands are decided before the value.
    for value in sorted(dict.fromkeys(values), key=place.__getitem__):
        chain = _chain(value, available, maker)
        if chain is None:
            chain = _broadcasts(value, maker)
            available.add(chain[0].operands[0] if chain else value)
        inside = {r for op in chain for r in results_of(op)}
        used = dict.fromkeys(v for op in chain for v in operands_of(op) if v not in inside)
        made[value] = Rematerialized(value, chain, list(used) if chain else [value])
    return [made[value] for value in values]


def _chain(
    value: ir.Value, available: set[ir.Value], maker: dict[ir.Value, ir.Operation]
) -> list[ir.Operation] | None:
    """The cheap ops that compute a value from available ones; None if a few do not suffice."""
    found: dict[ir.Operation, None] = {}
    is_cheap = _collect_chain(value, available, maker, found)
    return list(found) if is_cheap and len(found) <= _MAX_OPS else None


def _collect_chain(
    value: ir.Value,
    available: set[ir.Value],
    maker: dict[ir.Value, ir.Operation],
    found: dict[ir.Operation, None],
) -> bool:
    if value in available:
        return True
    op = maker.get(value)
    if op is None or not (op.name in _CHEAP or is_literal(op)) or len(found) > _MAX_OPS:
        return False
    if all(_collect_chain(operand, available, maker, found) for operand in operands_of(op)):
        found[op] = None
        return True
    return False


def _broadcasts(value: ir.Value, maker: dict[ir.Value, ir.Operation]) -> list[ir.Operation]:
    """The chain of broadcasts, in order, that makes a value from a smaller one."""
    found: list[ir.Operation] = []
    while (op := maker.get(value)) is not None and op.name == _BROADCAST:
        found.append(op)
        (value,) = op.operands
    return found[::-1]
