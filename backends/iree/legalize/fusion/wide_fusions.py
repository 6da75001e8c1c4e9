"""Wide expressions, split because their kernel would have more buffers than IREE can bind.

IREE fuses an elementwise expression with its producers and with reductions of it, and gives the
kernel a binding for each separate buffer that it reads or writes. It allows 32, on GPUs of NVIDIA
and AMD 16, but checks that only when the program is loaded (``binding count 49 > 32`` for the sum
of 60 arguments). A barrier after a part of the expression makes that part a kernel of its own.

The *leaves* of a value are the buffers that a kernel computing it would read or write if all ops
that can be fused were fused. They are an upper bound of its bindings, since IREE fuses less, and
packs intermediate values into shared buffers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TypeAlias

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.barrier import optimization_barrier
from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.contract import bodies_of, lookup
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, form_of

__all__ = ["LEGALIZATIONS", "is_fused", "split_wide_fusions"]

_FUSED = (Form.ELEMENTWISE, Form.VIEW, Form.REINTERPRETATION, Form.REDUCTION)
# Calls of the elementwise functions that rules outline.
_CALL = "func.call"

Leaves: TypeAlias = "frozenset[ir.Value]"
_NO_LEAVES: Leaves = frozenset()


def split_wide_fusions(program: Program, target: Target) -> None:
    """Put barriers into the expressions of a program that have too many leaves, in place."""
    for function in program.functions:
        _split(program.body(symbol_name(function)), target.capabilities.max_buffers)


def _split(body: Body, limit: int) -> None:
    leaves: dict[ir.Value, Leaves] = {x: frozenset({x}) for x in body.arguments}
    for op in body.operations:
        definition = lookup(op)
        if definition.is_control_flow:
            for inner in bodies_of(op):
                _split(inner, limit)
        operands, results = operands_of(op), results_of(op)
        if is_fused(op.name):
            read = _NO_LEAVES.union(*(leaves[x] for x in operands))
            while len(read) > limit:
                operands = _narrow(op, operands, leaves)
                read = _NO_LEAVES.union(*(leaves[x] for x in operands))
            # If a result is also needed in memory, the kernel that computes it writes it.
            leaves |= {r: read | {r} if _is_stored(r) else read for r in results}
        else:
            leaves |= {r: _leaves_of_unfused(op, operands, r) for r in results}


@functools.cache
def is_fused(name: str) -> bool:
    """Whether the compiler fuses an op with the ops whose results it reads."""
    return name == _CALL or form_of(name) in _FUSED


def _is_stored(value: ir.Value) -> bool:
    return not all(is_fused(use.owner.name) for use in value.uses)


def _leaves_of_unfused(op: ir.Operation, operands: Sequence[ir.Value], result: ir.Value) -> Leaves:
    """The leaves of the result of an op that reads its operands from memory."""
    if op.name == "gnomon.dot_general":
        # Users of the result can become a part of the product's kernel.
        return frozenset(operands)
    if op.name == "gnomon.iota" or is_splat(op):
        return _NO_LEAVES
    return frozenset({result})


def is_splat(op: ir.Operation) -> bool:
    return op.name == "gnomon.constant" and ir.DenseElementsAttr(op.attributes["value"]).is_splat


def _narrow(
    op: ir.Operation, operands: Sequence[ir.Value], leaves: dict[ir.Value, Leaves]
) -> list[ir.Value]:
    """Put a barrier after the widest operand of ``op``, and return the new operands."""
    widest = max(operands, key=lambda x: len(leaves[x]))
    maker = widest.owner.operation
    with ir.InsertionPoint.after(maker), maker.location:
        (stored,) = optimization_barrier.build([widest], {})
    widest.replace_all_uses_except(stored, stored.owner.operation)
    leaves[stored] = frozenset({stored})
    return operands_of(op)


LEGALIZATIONS = (
    Legalization(
        name="wide-fusions",
        stage=Stage.FUSE,
        kind=Kind.REFUSED,
        doc="put barriers into an expression that reads or writes many buffers",
        upstream="IREE 3.13 binds 32 buffers to a kernel, for CUDA and ROCm 16, makes kernels with "
        "more, and fails when they are loaded (``binding count 49 > 32``)",
        issue="https://github.com/iree-org/iree/issues/5152",
        texts=("kernels_with_many_buffers",),
        reproducer="a sum of sixty arguments does not load",
        run=split_wide_fusions,
    ),
)
