"""Sums of opposite or scaled numbers, which IREE does not compile for devices.

IREE 3.13 fuses a sum with the ops that compute its terms. For ``sum(-x)`` the kernel then subtracts
from the sum, which IREE does not know as a reduction. For CUDA and ROCm, ``sum(x * c)``, where
``c`` does not vary along the sum, becomes a product of a matrix and a vector that is not divided
among threads. Both fail for some sizes, such as f32[128,128].

So each term ``t`` is replaced by ``max(t, min(t, 1))``, which is ``t``. That costs no memory, IREE
does not simplify it, and it keeps the product or the negation out of the sum.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.backends.iree.legalize.aliases import REARRANGES, name_of
from gnomon.backends.iree.legalize.fusion.wide_fusions import is_fused, is_splat
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.targets import Target
from gnomon.dialects.body import operands_of
from gnomon.dialects.contract import all_operations, instance_of
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["LEGALIZATIONS", "keep_products_out_of_sums"]

_PRODUCTS = ("mul", "square", "integer_pow")
# The most ops that are searched for the dependences of a factor; if there are more, it counts as
# constant.
_SEARCHED = 64


def keep_products_out_of_sums(program: Program, target: Target) -> None:
    """Separate the terms of such sums from their computation, in place."""
    for function in program.functions:
        for op in list(all_operations(program.body(symbol_name(function)))):
            if name_of(op) != "reduce_sum":
                continue
            (terms,) = operands_of(op)
            if _are_opposite_or_scaled(terms, instance_of(op).params["axes"]):
                with ir.InsertionPoint(op), op.location:
                    op.operands[0] = ops.max(terms, ops.min(terms, full_like(terms, 1)))


def _are_opposite_or_scaled(terms: ir.Value, axes: Sequence[int]) -> bool:
    moved = False
    while not isinstance(terms.owner, ir.Block) and name_of(terms.owner) in REARRANGES:
        terms, moved = terms.owner.operation.operands[0], True
    if isinstance(terms.owner, ir.Block):
        return False
    if name_of(terms.owner) == "neg":
        return True
    if name_of(terms.owner) not in _PRODUCTS:
        return False
    return moved or any(_is_equal_along(x, axes) for x in operands_of(terms.owner.operation))


def _is_equal_along(value: ir.Value, axes: Sequence[int]) -> bool:
    """Whether the elements along some dimensions are one number that is broadcast."""
    waiting = [(value, frozenset(axes))]
    for _ in range(_SEARCHED):
        if not waiting:
            return True
        value, along = waiting.pop()
        shape = type_of(value).shape
        if not shape or all(shape[d] == 1 for d in along):
            continue
        if isinstance(value.owner, ir.Block):
            return False
        op = value.owner.operation
        if name_of(op) == "broadcast_in_dim":
            dims = instance_of(op).params["dims"]
            inner = frozenset(i for i, d in enumerate(dims) if d in along)
            waiting.append((operands_of(op)[0], inner))
        elif is_splat(op):
            continue
        elif not _keeps_places(op):
            return False
        else:
            waiting += [(x, along) for x in operands_of(op)]
    return True


def _keeps_places(op: ir.Operation) -> bool:
    """Whether an op computes each element from those of its operands at the same place."""
    (result, *_), operands = op.results, operands_of(op)
    shapes = {type_of(x).shape for x in operands} - {()}
    return (
        bool(operands)
        and is_fused(op.name)
        and shapes == {type_of(result).shape}
        and (name_of(op) not in ("transpose", "rev", "slice"))
    )


LEGALIZATIONS = (
    Legalization(
        name="sums-of-products",
        stage=Stage.FUSE,
        kind=Kind.REFUSED,
        doc="keep the computation of opposite and scaled numbers out of their sums",
        upstream="IREE 3.13 fuses it with the sum, and does not divide the kernel among threads",
        texts=("sums_of_opposite_numbers_on_cuda",),
        reproducer="`sum(-x, 1)` of f32[128,128] does not compile for devices",
        targets=Targets.where(memory="device"),
        run=keep_products_out_of_sums,
    ),
)
