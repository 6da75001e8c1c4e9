"""Long sums and cumulative sums, written as sums of a few terms, in stages.

The error of a sum that adds its terms one after another grows with their number. In stages it grows
with the number of stages. These forms are ops of the gnomon dialect, for backends whose compiler
adds the terms of a sum in order.

Cumulative sums are computed block by block: blocks of about `_BLOCK` elements are accumulated, and
the totals of the blocks before are added to each element. The totals are accumulated in the same
way. Milliseconds of processor time in IREE's kernels, and roundings in the largest error for equal
numbers of f32:

  shape and axis      one scan          blocks of 32    64            128
  10^6                3.7  160783       3.1  18         2.7  17       3.5  40
  2 10^7              58   2689928      54   18         52   18       58   54
  10^6 x 2, 0         5.9  160783       5.3  18         5.2  17       10.5 40
  1000 x 1000, 0      1.3  160          2.9  6          3.7  11       2.9  18
  1000 x 1000, 1      2.8  160          3.1  6          4.7  11       5.9  18
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from gnomon.backends.rewriting import Rule
from gnomon.dialects.combinators import accumulator
from gnomon.dialects.contract import Instance
from gnomon.dialects.cumulative import logaddexp
from gnomon.dialects.elementwise.expansion import emitted
from gnomon.dialects.emit import constant, convert, ops, reshape, slice_along
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import any_symbolic, is_symbolic_dim
from gnomon.dialects.types import TensorType, is_complex, is_inexact, type_of

__all__ = [
    "MIN_PIECE_ROWS",
    "PIECE_ROWS",
    "ROWS",
    "STAGE",
    "Reduce",
    "cumulative_rules",
    "in_one_stage",
    "is_short",
    "piece_of",
    "product_in_pieces",
    "sum_along",
    "sum_in_stages",
    "sum_pieces",
    "sum_rows",
    "terms_of",
]

# The most elements of the last dimension that a stage adds up; they are added in lanes.
STAGE = 4096
_PIECE = 1024
_MIN_PIECE = 32
# The most rows that are added up one after another. In a sum of equal numbers, the error is up to a
# quarter of that in roundings.
ROWS = 256
PIECE_ROWS = 64
MIN_PIECE_ROWS = 16
# The terms of a piece of a product of matrices.
_TERMS = 2048
# The terms of a piece of a product with a vector, or with fewer rows or columns than this: the
# library does not compute it, and IREE adds the terms one by one. A product of two vectors is a sum
# along the last dimension, which is added in lanes, in pieces of `_PIECE` terms.
_NARROW_TERMS = 256
_NARROW = 8
# The pieces of a result have at most this many elements, or as many as the operands.
_MAX_ELEMENTS = 1 << 20
# The elements of a block that are accumulated one after another.
_BLOCK = 64
_SMALLEST_BLOCK = 32
# Up to this many elements are accumulated without blocks.
_FEW = 128

# The sum along axes in one stage.
Reduce: TypeAlias = "Callable[[ir.Value, Sequence[int]], ir.Value]"


def in_one_stage(x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """The sum along axes, as one op."""
    return ops.reduce_sum(x, axes=tuple(axes))


def is_short(type_: TensorType, axes: Sequence[int], stage: int) -> bool:
    """Whether one stage is enough, of at most so many elements along the last dimension."""
    rows = math.prod(type_.shape[d] for d in axes if d != type_.rank - 1)
    last = type_.shape[-1] if type_.rank - 1 in axes else 1
    return rows <= ROWS and rows * last <= stage


def sum_in_stages(
    x: ir.Value, axes: Sequence[int], reduce: Reduce = in_one_stage, stage: int = STAGE
) -> ir.Value:
    """The sum along axes, each stage of which is computed by ``reduce``.

    A stage along several axes has at most ``stage`` terms, if the last dimension is one of them.
    """
    for group in _groups(type_of(x), sorted(axes), stage):
        x = reduce(x, group) if len(group) > 1 else sum_along(x, group[0], reduce)
    return x


def _groups(type_: TensorType, axes: Sequence[int], stage: int) -> Iterator[tuple[int, ...]]:
    """The axes in groups, last ones first, each of which is short if it has several axes."""
    group: tuple[int, ...] = ()
    for axis in reversed(axes):
        if group and not is_short(type_, (axis, *group), stage):
            yield group
            group = ()
        group = (axis, *group)
    yield group


def piece_of(size: int, most: int, least: int) -> int | None:
    """The number of elements that a stage adds up: a divisor of ``size``, or None.

    With a divisor, the operand can be computed in the stage's kernel. Padding would have to store
    it.
    """
    return next((n for n in range(most, least - 1, -1) if size % n == 0), None)


def sum_along(x: ir.Value, axis: int, reduce: Reduce = in_one_stage) -> ir.Value:
    """The sum along one axis, in stages."""
    type_ = type_of(x)
    size = type_.shape[axis]
    if is_short(type_, (axis,), STAGE):
        return reduce(x, (axis,))
    if axis == type_.rank - 1:
        piece = piece_of(size, 2 * _PIECE, _MIN_PIECE)
        x, piece = (x, piece) if piece else (_padded(x, axis, -size % _PIECE), _PIECE)
        return sum_along(sum_pieces(x, axis, piece, reduce), axis, reduce)
    return sum_along(sum_rows(x, axis, reduce), axis, reduce)


def sum_rows(x: ir.Value, axis: int, reduce: Reduce) -> ir.Value:
    """The sums of a few rows each."""
    size = type_of(x).shape[axis]
    piece = piece_of(size, PIECE_ROWS, MIN_PIECE_ROWS) or PIECE_ROWS
    whole = size - size % piece
    sums = sum_pieces(slice_along(x, axis, 0, whole), axis, piece, reduce)
    if whole < size:
        rest = sum_pieces(slice_along(x, axis, whole, size), axis, size - whole, reduce)
        sums = ops.concatenate(sums, rest, dimension=axis)
    return sums


def _padded(x: ir.Value, axis: int, missing: int) -> ir.Value:
    nothing = (0,) * type_of(x).rank
    high = (*nothing[:axis], missing, *nothing[axis + 1 :])
    zero = constant(np.zeros((), type_of(x).dtype))
    return ops.pad(x, zero, low=nothing, high=high, interior=nothing)


def sum_pieces(x: ir.Value, axis: int, piece: int, reduce: Reduce) -> ir.Value:
    """The sums of pieces of ``piece`` elements, which divides the size of the axis."""
    shape = type_of(x).shape
    split = reshape(x, (*shape[:axis], shape[axis] // piece, piece, *shape[axis + 1 :]))
    return reduce(split, (axis + 1,))


# ----------------------------------------------------------------------------------- products


def terms_of(inst: Instance) -> int:
    """The number of products in each sum."""
    return math.prod(inst.operand_types[0].shape[d] for d in inst.params["lhs_contracting"])


def _pieces(inst: Instance) -> tuple[int, int, int]:
    """The pieces, their terms, and the index of the contracted pair to split, the longest one."""
    (lhs, rhs), dims = inst.operand_types, inst.params["lhs_contracting"]
    sizes = [lhs.shape[d] for d in dims]
    longest = max(sizes, default=1)
    if longest <= 2 * _NARROW_TERMS:
        return 1, longest, 0
    if any_symbolic((*lhs.shape, *rhs.shape)):
        # How many results there are is known at the call.
        return _split_longest(_TERMS, longest, sizes) if longest > 2 * _TERMS else (1, longest, 0)
    batch = math.prod(lhs.shape[d] for d in inst.params["lhs_batch"])
    terms = max(terms_of(inst), 1) * max(batch, 1)
    fewest, largest = min(lhs.size, rhs.size), max(lhs.size, rhs.size)
    if largest == terms:
        most = _PIECE
    else:
        most = _NARROW_TERMS if fewest < _NARROW * terms else _TERMS
    fit = max(_MAX_ELEMENTS, lhs.size + rhs.size) // max(inst.type.size, 1)
    if longest <= 2 * most or fit < 2:
        return 1, longest, 0
    return _split_longest(max(most, -(-longest // fit)), longest, sizes)


def _split_longest(most: int, longest: int, sizes: list[int]) -> tuple[int, int, int]:
    """As `_pieces`, for pieces of at most so many terms."""
    # With a divisor, nothing is padded.
    piece = next((n for n in range(most, most // 2, -1) if longest % n == 0), most)
    return -(-longest // piece), piece, sizes.index(longest)


def product_in_pieces(inst: Instance, dtype: np.dtype) -> ir.Value | None:
    """A long contraction as the sum of contractions in a dtype; None if it is short."""
    pieces, piece, pair = _pieces(inst)
    if pieces == 1:
        return None
    params = {**inst.params, "dtype": dtype}
    operands = []
    for side, x in zip(("lhs", "rhs"), inst.operands, strict=True):
        contracted, batch = inst.params[f"{side}_contracting"], inst.params[f"{side}_batch"]
        at = contracted[pair]
        operands.append(_split(x, at, pieces, piece))
        params[f"{side}_contracting"] = tuple(d + (d >= at) for d in contracted)
        params[f"{side}_batch"] = (at, *(d + (d >= at) for d in batch))
    return sum_along(ops.dot_general(*operands, **params), 0)


def _split(x: ir.Value, axis: int, pieces: int, piece: int) -> ir.Value:
    """``x`` with an axis split in two, pieces first, after padding it with zeros."""
    shape = type_of(x).shape
    missing = pieces * piece - shape[axis]
    if missing:
        nothing = (0,) * len(shape)
        high = tuple(missing if d == axis else 0 for d in range(len(shape)))
        zero = constant(type_of(x).dtype.type(0))
        x = ops.pad(x, zero, low=nothing, high=high, interior=nothing)
    return reshape(x, (*shape[:axis], pieces, piece, *shape[axis + 1 :]))


# ------------------------------------------------------------------------------ cumulative sums


Round: TypeAlias = "Callable[[ir.Value, np.dtype], ir.Value]"


def cumulative_rules(rounded: Round) -> dict[str, Rule]:
    """The rules that write long cumulative sums block by block.

    Args:
      rounded: converts a value to a narrower dtype.
    """
    return {
        "gnomon.cumsum": _in_blocks(ops.add, 0.0, rounded, of_complex=True),
        # Complex numbers are scanned in pairs.
        "gnomon.cumlogsumexp": _in_blocks(
            lambda x, y: logaddexp(emitted, x, y), -np.inf, rounded, of_complex=False
        ),
    }


_Combine: TypeAlias = "Callable[[ir.Value, ir.Value], ir.Value]"


def _in_blocks(combine: _Combine, identity: float, rounded: Round, *, of_complex: bool) -> Rule:
    """The rule of a cumulative op: ``combine`` is the elementwise op that it repeats."""

    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        type_ = inst.type
        dtype, wide = type_.dtype, accumulator(type_.dtype)
        size = type_.shape[inst.params["axis"]]
        if not is_inexact(dtype) or is_symbolic_dim(size) or type_.size == 0 or size <= _FEW:
            return None  # Along a symbolic axis, elements are scanned in pairs.
        if is_complex(dtype) and not of_complex:
            return None
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
