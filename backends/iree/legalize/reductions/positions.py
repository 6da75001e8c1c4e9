"""Positions of extrema: by two reductions that are vectorized, in place of one that is not.

IREE computes an element and its position together, by a reduction with two results, and vectorizes
no such reduction. So the extremum is taken first, and then the smallest position of an element that
equals it, or that is not a number: an extremum of elements of which one is nan is nan, and equals
none. Both reductions read the operand, which costs less than scalar code: ``argmin(x, -1)`` of
f32[4096,16] takes 55 us instead of 440, that of f32[1000,1000] 0.45 ms instead of 3.4.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets, always
from gnomon.dialects.combinators import highest
from gnomon.dialects.contract import Instance, Rule
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import BOOL, is_floating

__all__ = ["LEGALIZATIONS"]


def _position_by(reduction: str) -> Rule:
    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        (type_,), x = inst.operand_types, inst.operand
        axis, index_dtype = inst.params["axis"], inst.params["index_dtype"]
        if type_.dtype == BOOL:
            return None
        extremum = getattr(ops, reduction)(x, axes=(axis,))
        others = tuple(d for d in range(type_.rank) if d != axis)
        chosen = ops.eq(x, ops.broadcast_in_dim(extremum, shape=type_.shape, dims=others))
        if is_floating(type_.dtype):
            chosen = ops.or_(chosen, ops.ne(x, x))
        index = ops.iota(dtype=index_dtype, shape=type_.shape, dimension=axis)
        index = ops.select(chosen, index, full_like(index, highest(index_dtype)))
        return [ops.reduce_min(index, axes=(axis,))]

    return rule


LEGALIZATIONS = (
    Legalization(
        name="positions-of-extrema",
        stage=Stage.DECOMPOSE,
        kind=Kind.SLOW,
        doc="take the position of an extremum as the first position of an equal element",
        upstream="IREE 3.13 vectorizes no reduction with two results, which makes `argmin` of rows "
        "two to ten times as long",
        reproducer="`argmin(x, 1)` of f32[1000,1000] takes over twice the processor time",
        targets=Targets.where(host_memory=True),
        rules=always(
            {
                "gnomon.argmax": _position_by("reduce_max"),
                "gnomon.argmin": _position_by("reduce_min"),
            }
        ),
    ),
)
