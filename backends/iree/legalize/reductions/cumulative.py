"""Cumulative sums of many elements, block by block.

IREE adds the elements one after another. In f32 the error of a cumulative sum then grows with its
length: a million times 1e-6 became 1.009, and twenty million ones stopped at 2^24. Here, blocks of
about `_BLOCK` elements are accumulated, and the totals of the blocks before are added to each
element. The totals are accumulated in the same way.

Milliseconds of processor time, and roundings in the largest error for equal numbers of f32:
  shape and axis      one scan          blocks of 32    64            128
  10^6                3.7  160783       3.1  18         2.7  17       3.5  40
  2 10^7              58   2689928      54   18         52   18       58   54
  10^6 x 2, 0         5.9  160783       5.3  18         5.2  17       10.5 40
  1000 x 1000, 0      1.3  160          2.9  6          3.7  11       2.9  18
  1000 x 1000, 1      2.8  160          3.1  6          4.7  11       5.9  18
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, always
from gnomon.backends.rewriting import Rule
from gnomon.dialects.combinators import accumulator
from gnomon.dialects.contract import Instance
from gnomon.dialects.cumulative import logaddexp
from gnomon.dialects.elementwise.expansion import emitted
from gnomon.dialects.emit import constant, convert, ops, reshape, slice_along
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_complex, is_inexact, type_of

__all__ = ["LEGALIZATIONS"]

_BLOCK = 64
_SMALLEST_BLOCK = 32
# Up to this many elements are accumulated one after another.
_FEW = 128

_Combine = Callable[[ir.Value, ir.Value], ir.Value]


def _in_blocks(combine: _Combine, identity: float, of_complex: bool) -> Rule:
    """The rule of a cumulative op: ``combine`` is the elementwise op that it repeats."""

    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        type_ = inst.type
        dtype, wide = type_.dtype, accumulator(type_.dtype)
        if not is_inexact(dtype) or type_.size == 0 or type_.shape[inst.params["axis"]] <= _FEW:
            return None
        if is_complex(dtype) and not of_complex:
            return None  # These are scanned in pairs.
        x = _accumulated(inst, convert(inst.operand, wide), combine, identity)
        return [x if wide == dtype else rounded(x, dtype)]

    return rule


def _accumulated(inst: Instance, x: ir.Value, combine: _Combine, identity: float) -> ir.Value:
    axis, reverse = inst.params["axis"], inst.params["reverse"]
    shape = type_of(x).shape
    n, before, after = shape[axis], shape[:axis], shape[axis + 1 :]

    def cumulative(y: ir.Value, along: int) -> ir.Value:
        (result,) = inst.op.build([y], {"axis": along, "reverse": reverse})
        return result

    if n <= _FEW:
        return cumulative(x, axis)
    # With a divisor, no element is added.
    sizes = range(_BLOCK, _SMALLEST_BLOCK - 1, -1)
    block = next((b for b in sizes if n % b == 0), _BLOCK)
    blocks = -(-n // block)
    nothing = constant(np.asarray(identity, type_of(x).dtype))
    padded = _extended(x, axis, 0, blocks * block - n, nothing)
    within = cumulative(reshape(padded, (*before, blocks, block, *after)), axis + 1)
    last = 0 if reverse else block - 1
    totals = reshape(slice_along(within, axis + 1, last, last + 1), (*before, blocks, *after))
    totals = _accumulated(inst, totals, combine, identity)
    if reverse:
        others = _extended(slice_along(totals, axis, 1, blocks), axis, 0, 1, nothing)
    else:
        others = _extended(slice_along(totals, axis, 0, blocks - 1), axis, 1, 0, nothing)
    kept = tuple(d + (d > axis) for d in range(len(shape)))
    spread = ops.broadcast_in_dim(others, shape=type_of(within).shape, dims=kept)
    pair = (within, spread) if reverse else (spread, within)
    return slice_along(reshape(combine(*pair), (*before, blocks * block, *after)), axis, 0, n)


def _extended(x: ir.Value, axis: int, low: int, high: int, value: ir.Value) -> ir.Value:
    if not (low or high):
        return x
    none = (0,) * type_of(x).rank

    def along(n: int) -> tuple[int, ...]:
        return (*none[:axis], n, *none[axis + 1 :])

    return ops.pad(x, value, low=along(low), high=along(high), interior=none)


LEGALIZATIONS = (
    Legalization(
        name="cumulative-sums",
        stage=Stage.DECOMPOSE,
        kind=Kind.INACCURATE,
        doc="accumulate many elements block by block",
        upstream="IREE 3.13 adds elements one after another: a cumulative sum of 20 million ones "
        "ends with 16777216",
        texts=("long_sums",),
        reproducer="a cumulative sum of a million times 1e-6 ends with 1.009",
        rules=always(
            {
                "gnomon.cumsum": _in_blocks(ops.add, 0.0, of_complex=True),
                "gnomon.cumlogsumexp": _in_blocks(
                    lambda x, y: logaddexp(emitted, x, y), -np.inf, of_complex=False
                ),
            }
        ),
    ),
)
