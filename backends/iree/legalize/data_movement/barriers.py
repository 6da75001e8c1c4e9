"""Barriers that a program brings along, from `lax.optimization_barrier` and `checkpoint`.

A barrier that a buffer is passed on through, into a loop, an update or out of the function, makes
IREE lose track of it: it was seen updated in place while others still read it, which gave wrong
numbers. Such a barrier is dropped. One in front of what computes with its value stays.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.aliases import SAME_BUFFER, UPDATES, name_of
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.barrier import optimization_barrier
from gnomon.dialects.body import PACK, TERMINATORS, Body, erase, operands_of, results_of
from gnomon.dialects.contract import all_operations, lookup
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir

__all__ = ["LEGALIZATIONS", "drop_barriers_of_buffers"]


def _passes_on(user: ir.Operation) -> bool:
    """Whether an op may give an operand's buffer on, whole, in part or written to."""
    if user.name == PACK:
        return any(_passes_on(use.owner.operation) for use in user.results[0].uses)
    if user.name in TERMINATORS or name_of(user) in SAME_BUFFER | UPDATES:
        return True
    return lookup(user).is_control_flow


def drop_barriers_of_buffers(program: Program, target: Target) -> None:
    """Drop the barriers of a program that pass a buffer on; in place."""
    for function in program.functions:
        _drop(program.body(symbol_name(function)))


def _drop(body: Body) -> None:
    barriers = [op for op in all_operations(body) if op.name == optimization_barrier.full_name]
    for op in barriers:
        with ir.InsertionPoint(op), op.location:
            for value, result in zip(operands_of(op), results_of(op), strict=True):
                if not any(_passes_on(use.owner.operation) for use in result.uses):
                    (value,) = optimization_barrier.build([value], {})
                result.replace_all_uses_with(value)
        erase(op)


LEGALIZATIONS = (
    Legalization(
        name="barriers-of-buffers",
        stage=Stage.PREPARE,
        kind=Kind.MISCOMPILED,
        doc="drop optimization barriers through which a buffer is passed on",
        upstream="IREE 3.13 updates a buffer in place while others still read it, where a barrier "
        "passes it on into a loop, an update or a result",
        run=drop_barriers_of_buffers,
    ),
)
