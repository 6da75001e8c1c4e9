"""Long sums, in stages: accurate, and as fast as memory allows.

IREE adds the elements of a sum one after another. Where a flag lets it choose the order (on CPUs),
it adds along the last dimension in the lanes of a vector. In f32 this loses terms that are small
compared with the partial sum: a sum of 25 million squares came out 6 % too small. In stages, the
error stays near that of a pairwise sum, and the first stage runs on all cores. Sums of 16-bit
floats, which are accumulated in f32, and sums of f64 lose digits in the same way.

The form of a stage determines its speed (25 million f32, one core):

- Along the last dimension, IREE takes several rows at once, and adds up each vector across its
  lanes: 25 ms for two operands of 5000 rows. Here each row becomes a matrix of `_LANES` columns,
  whose columns are added first: memory is read in order, into a vector of sums, in 9.5 ms, which is
  the speed of memory.
- Along another dimension, IREE takes a few columns from the first row to the last: 73 ms for one
  operand of 5000 rows. Stages of about `_STAGE_ROWS` rows, which stay in the cache, take 28 ms.
- Columns that do not fill a vector IREE takes one by one, in every tile: 1.4 ms for 1001 columns of
  1000 rows, and 2.9 ms for their maxima. With the last `_LANES` columns computed separately, as a
  vector that may overlap the others, this takes 0.21 ms and 0.29 ms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gnomon.backends.iree.legalize.aliases import name_of
from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.fusion.wide_fusions import is_fused
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets, always
from gnomon.backends.long_sums import (
    MIN_PIECE_ROWS,
    PIECE_ROWS,
    ROWS,
    STAGE,
    Reduce,
    in_one_stage,
    is_short,
    piece_of,
    sum_along,
    sum_in_stages,
    sum_pieces,
    sum_rows,
)
from gnomon.dialects.body import operands_of
from gnomon.dialects.combinators import accumulator
from gnomon.dialects.contract import Instance, instance_of
from gnomon.dialects.emit import convert, ops, reshape, slice_along
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_floating, is_inexact, type_of

__all__ = ["LEGALIZATIONS", "is_transposed"]

# The fewest f32 lanes of a CPU's vectors, and the number of lanes that a stage uses.
_VECTOR = 4
_LANES = 8
# Operands with this many elements or more do not fit in a core's cache.
_LARGE = 1 << 20
_STAGE_ROWS = 32
# The most ops that are searched for a transposed operand.
_SEARCHED = 64
# IREE puts fewer columns than this into one tile.
_SEVERAL_TILES = 512


def _sum(inst: Instance) -> Sequence[ir.Value] | None:
    type_, axes = inst.operand_types[0], inst.params["axes"]
    if not is_inexact(type_.dtype) or is_short(type_, axes, STAGE):
        return None
    return _widened(inst, lambda x: sum_in_stages(x, axes))


def _sum_on_cores(inst: Instance) -> Sequence[ir.Value] | None:
    type_, axes = inst.operand_types[0], sorted(inst.params["axes"])
    if not is_floating(type_.dtype):
        return _sum(inst)
    last = type_.rank - 1
    # IREE reads a transposed operand in its order, without lanes.
    if last in axes and type_.shape[last] > ROWS and is_transposed(inst.operand):
        return _widened(
            inst, lambda x: _in_few_stages(sum_rows(x, last, in_one_stage), axes, in_one_stage)
        )
    if last in axes and not _are_last(type_, axes) and is_transposed(inst.operand):
        return _widened(inst, lambda x: sum_in_stages(x, axes, in_one_stage, ROWS))
    reduce = _in_vectors if _is_ragged(type_, axes) else in_one_stage
    if _is_strided(type_, axes):
        return _widened(inst, lambda x: _by_rows(x, axes[0], reduce))
    if not is_short(type_, axes, _longest_stage(type_, axes)):
        return _widened(inst, lambda x: _in_few_stages(*_in_lanes(x, axes), reduce))
    return None if reduce is in_one_stage else _widened(inst, lambda x: reduce(x, axes))


def _widened(inst: Instance, rule: Callable[[ir.Value], ir.Value]) -> list[ir.Value]:
    dtype = inst.type.dtype
    wide = accumulator(dtype)
    total = rule(convert(inst.operand, wide))
    return [total if wide == dtype else rounded(total, dtype)]


# -------------------------------------------------------------------------------------- on a CPU


def _in_few_stages(x: ir.Value, axes: Sequence[int], reduce: Reduce) -> ir.Value:
    longest = _longest_stage(type_of(x), axes)
    if is_short(type_of(x), axes, longest):
        return reduce(x, axes)
    return sum_in_stages(x, axes, reduce, min(longest, STAGE))


def _longest_stage(type_: TensorType, axes: Sequence[int]) -> int:
    """The most terms of one stage, if the last dimension is one of its axes."""
    # Long rows are added by kernels of rows; other terms by IREE, in as few as four lanes.
    return _VECTOR * (STAGE if _are_last(type_, axes) else ROWS)


def _are_last(type_: TensorType, axes: Sequence[int]) -> bool:
    """Whether the axes are the last ones, whose terms are next to each other."""
    return tuple(sorted(axes)) == tuple(range(type_.rank - len(axes), type_.rank))


def is_transposed(value: ir.Value) -> bool:
    """Whether a kernel that computes a value reads a transposed array for its last dimension."""
    waiting, seen = [value], 0
    while waiting and seen < _SEARCHED:
        value = waiting.pop()
        seen += 1
        if isinstance(value.owner, ir.Block) or type_of(value).rank < 2:
            continue
        op = value.owner.operation
        if name_of(op) == "transpose":
            moved = instance_of(op).params["permutation"]
            if moved[-1] != len(moved) - 1:
                return True
        if is_fused(op.name) or name_of(op) in ("pad", "concatenate"):
            waiting += operands_of(op)
    return False


def _is_ragged(type_: TensorType, axes: Sequence[int]) -> bool:
    """Whether the rows to be added have columns left after their last whole vector."""
    if not axes or type_.rank - 1 in axes:
        return False
    columns = type_.shape[-1]
    return columns >= _SEVERAL_TILES and columns % _LANES != 0


def _by_vectors(x: ir.Value, axes: Sequence[int], reduce: Reduce) -> ir.Value:
    last, columns = type_of(x).rank - 1, type_of(x).shape[-1]
    left = columns % _LANES
    whole = reduce(slice_along(x, last, 0, columns - left), axes)
    others = reduce(slice_along(x, last, columns - _LANES, columns), axes)
    dimension = type_of(whole).rank - 1
    others = slice_along(others, dimension, _LANES - left, _LANES)
    return ops.concatenate(whole, others, dimension=dimension)


def _in_vectors(x: ir.Value, axes: Sequence[int]) -> ir.Value:
    return _by_vectors(x, axes, in_one_stage)


def _is_strided(type_: TensorType, axes: Sequence[int]) -> bool:
    """Whether the rows of one column leave the cache before the next columns are read."""
    if len(axes) != 1 or axes[0] == type_.rank - 1:
        return False
    rows = type_.shape[axes[0]]
    return rows >= 4 * _STAGE_ROWS and math.prod(type_.shape[axes[0] :]) >= _LARGE


def _by_rows(x: ir.Value, axis: int, reduce: Reduce) -> ir.Value:
    piece = piece_of(type_of(x).shape[axis], 3 * _STAGE_ROWS // 2, _STAGE_ROWS // 2)
    return sum_along(sum_pieces(x, axis, piece, reduce) if piece else x, axis, reduce)


def _in_lanes(x: ir.Value, axes: Sequence[int]) -> tuple[ir.Value, Sequence[int]]:
    """Add the last dimension in lanes; the operand and axes of the remaining sum."""
    type_ = type_of(x)
    shape, last = type_.shape, type_.rank - 1
    piece = piece_of(shape[last] // _LANES, PIECE_ROWS, MIN_PIECE_ROWS)
    if last not in axes or type_.size < _LARGE or shape[last] % _LANES or not piece:
        return x, axes
    x = sum_pieces(
        reshape(x, (*shape[:last], shape[last] // _LANES, _LANES)), last, piece, in_one_stage
    )
    # The partial sums are stored, so joining dimensions costs nothing.
    kept = next((d for d in range(last, 0, -1) if d - 1 not in axes), 0)
    joined = math.prod(type_of(x).shape[kept:])
    return reshape(x, (*shape[:kept], joined)), [*(d for d in axes if d < kept), kept]


def _extremum_on_cores(inst: Instance) -> Sequence[ir.Value] | None:
    """A maximum or minimum of ragged columns, which are as slow as sums of such columns."""
    type_, axes = inst.operand_types[0], sorted(inst.params["axes"])
    if not is_floating(type_.dtype) or not _is_ragged(type_, axes):
        return None

    def reduce(x: ir.Value, axes: Sequence[int]) -> ir.Value:
        (found,) = inst.op.build([x], {"axes": tuple(axes)})
        return found

    return [_by_vectors(inst.operand, axes, reduce)]


_ONE_BY_ONE = "IREE 3.13 adds elements one after another: a sum of 25 million f32 is 6 % too small"

LEGALIZATIONS = (
    Legalization(
        name="sums",
        stage=Stage.REWRITE,
        kind=Kind.INACCURATE,
        doc="add long sums in stages",
        upstream=_ONE_BY_ONE,
        texts=("long_sums",),
        reproducer="4 million times 0.1 are 6558 on `vulkan:portable`: lavapipe, which runs it, "
        "leaves a loop after 65,535 steps",
        targets=Targets.where(host_memory=False),
        rules=always({"gnomon.reduce_sum": _sum}),
    ),
    Legalization(
        name="sums-on-cores",
        stage=Stage.REWRITE,
        kind=Kind.INACCURATE,
        doc="add long sums in stages, in the order of memory and in whole vectors",
        upstream=_ONE_BY_ONE,
        texts=("long_sums",),
        reproducer="a sum of 4 million squares of 0.1 is off by more than one",
        targets=Targets.where(host_memory=True),
        rules=always({"gnomon.reduce_sum": _sum_on_cores}),
    ),
    Legalization(
        name="ragged-extrema",
        stage=Stage.REWRITE,
        kind=Kind.SLOW,
        doc="take maxima and minima of columns in whole vectors",
        upstream="IREE 3.13 takes columns that do not fill a vector one by one, which takes two to "
        "five times as long",
        reproducer="maxima of exponentials in the columns of f32[2001,1023] take over twice the "
        "processor time",
        targets=Targets.where(host_memory=True),
        rules=always(dict.fromkeys(("gnomon.reduce_max", "gnomon.reduce_min"), _extremum_on_cores)),
    ),
)
