"""Drop ``gnomon.pvary`` casts from a body whose operands are already varying.

Members of a mesh axis may take different branches of a switch. Such a branch must contain no cast,
because the transpose of a cast sums over all members, some of which take another branch. The
operands of the switch are cast before it instead, and the casts in its branches are dropped.
"""

from __future__ import annotations

from collections.abc import Collection

from gnomon.dialects.attributes import STRINGS, SYMBOL
from gnomon.dialects.body import Body, erase
from gnomon.dialects.collectives import pvary
from gnomon.dialects.contract import bodies_of, lookup
from gnomon.dialects.functions import Program, callee, symbol_users


def drop_casts(program: Program, body: Body, axes: Collection[str]) -> None:
    """Drop the casts over some axes in a body, and in copies of the functions that it calls."""
    _drop(body, axes)
    for op in symbol_users(body):
        if _has_casts(program, program.body(callee(op)), axes):
            copy = program.body(callee(op)).clone()
            drop_casts(program, copy, axes)
            name = program.add(callee(op), copy, like=callee(op))
            op.attributes["callee"] = SYMBOL.encode(name)


def _drop(body: Body, axes: Collection[str]) -> None:
    for op in body.operations:
        if lookup(op) is pvary:
            remaining = [name for name in STRINGS.decode(op.attributes["axes"]) if name not in axes]
            if remaining:
                op.attributes["axes"] = STRINGS.encode(remaining)
            else:
                op.results[0].replace_all_uses_with(op.operands[0])
                erase(op)
        elif lookup(op).is_control_flow:
            for inner in bodies_of(op):
                _drop(inner, axes)


def _has_casts(program: Program, body: Body, axes: Collection[str]) -> bool:
    for op in body.operations:
        definition = lookup(op)
        if definition is pvary and set(STRINGS.decode(op.attributes["axes"])) & set(axes):
            return True
        if definition.is_control_flow and any(
            _has_casts(program, inner, axes) for inner in bodies_of(op)
        ):
            return True
    return any(_has_casts(program, program.body(callee(op)), axes) for op in symbol_users(body))


__all__ = ["drop_casts"]
