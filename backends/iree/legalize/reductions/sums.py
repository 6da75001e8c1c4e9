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
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from gnomon.backends.iree.legalize.aliases import name_of
from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.fusion.wide_fusions import is_fused
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets, always
from gnomon.dialects.body import operands_of
from gnomon.dialects.combinators import accumulator
from gnomon.dialects.contract import Instance, instance_of
from gnomon.dialects.emit import constant, convert, ops, reshape, slice_along
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_floating, is_inexact, type_of

__all__ = ["LEGALIZATIONS", "STAGE", "sum_along"]

# The most elements of the last dimension that a stage adds up; they are added in lanes.
STAGE = 4096
_PIECE = 1024
_MIN_PIECE = 32
# The most rows that are added up one after another. In a sum of equal numbers, the error is up to a
# quarter of that in roundings.
ROWS = 256
_PIECE_ROWS = 64
_MIN_PIECE_ROWS = 16
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


# The sum along axes in one stage.
_Reduce: TypeAlias = "Callable[[ir.Value, Sequence[int]], ir.Value]"


def _whole(x: ir.Value, axes: Sequence[int]) -> ir.Value:
    return ops.reduce_sum(x, axes=tuple(axes))


def _sum(inst: Instance) -> Sequence[ir.Value] | None:
    type_, axes = inst.operand_types[0], inst.params["axes"]
    if not is_inexact(type_.dtype) or _is_short(type_, axes, STAGE):
        return None
    return _widened(inst, lambda x: _in_stages(x, axes))


def _sum_on_cores(inst: Instance) -> Sequence[ir.Value] | None:
    type_, axes = inst.operand_types[0], sorted(inst.params["axes"])
    if not is_floating(type_.dtype):
        return _sum(inst)
    last = type_.rank - 1
    if last in axes and type_.shape[last] > ROWS and _is_transposed(inst.operand):
        # IREE reads the operand in its order, without lanes.
        return _widened(inst, lambda x: _in_few_stages(_sum_rows(x, last, _whole), axes, _whole))
    reduce = _in_vectors if _is_ragged(type_, axes) else _whole
    if _is_strided(type_, axes):
        return _widened(inst, lambda x: _by_rows(x, *axes, reduce))
    if not _is_short(type_, axes, _VECTOR * STAGE):
        return _widened(inst, lambda x: _in_few_stages(*_in_lanes(x, axes), reduce))
    return None if reduce is _whole else _widened(inst, lambda x: reduce(x, axes))


def _widened(inst: Instance, rule: Callable[[ir.Value], ir.Value]) -> list[ir.Value]:
    dtype = inst.type.dtype
    wide = accumulator(dtype)
    total = rule(convert(inst.operand, wide))
    return [total if wide == dtype else rounded(total, dtype)]


def _is_short(type_: TensorType, axes: Sequence[int], stage: int) -> bool:
    """Whether one stage is enough, of at most so many elements along the last dimension."""
    rows = math.prod(type_.shape[d] for d in axes if d != type_.rank - 1)
    last = type_.shape[-1] if type_.rank - 1 in axes else 1
    return rows <= ROWS and rows * last <= stage


def _in_stages(x: ir.Value, axes: Sequence[int], reduce: _Reduce = _whole) -> ir.Value:
    for group in _groups(type_of(x), sorted(axes)):
        x = reduce(x, group) if len(group) > 1 else sum_along(x, *group, reduce)
    return x


def _groups(type_: TensorType, axes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The axes in groups, last ones first, each of which is short if it has several axes."""
    group: tuple[int, ...] = ()
    for axis in reversed(axes):
        if group and not _is_short(type_, (axis, *group), STAGE):
            yield group
            group = ()
        group = (axis, *group)
    yield group


def _piece(size: int, most: int, least: int) -> int | None:
    """The number of elements that a stage adds up: a divisor of ``size``, or None.

    With a divisor, the operand can be computed in the stage's kernel. Padding would have to store
    it.
    """
    return next((n for n in range(most, least - 1, -1) if size % n == 0), None)


def sum_along(x: ir.Value, axis: int, reduce: _Reduce = _whole) -> ir.Value:
    """The sum along one axis, in stages."""
    type_ = type_of(x)
    size = type_.shape[axis]
    if _is_short(type_, (axis,), STAGE):
        return reduce(x, (axis,))
    if axis == type_.rank - 1:
        piece = _piece(size, 2 * _PIECE, _MIN_PIECE)
        x, piece = (x, piece) if piece else (_padded(x, axis, -size % _PIECE), _PIECE)
        return sum_along(_sum_pieces(x, axis, piece, reduce), axis, reduce)
    return sum_along(_sum_rows(x, axis, reduce), axis, reduce)


def _sum_rows(x: ir.Value, axis: int, reduce: _Reduce) -> ir.Value:
    """The sums of a few rows each."""
    size = type_of(x).shape[axis]
    piece = _piece(size, _PIECE_ROWS, _MIN_PIECE_ROWS) or _PIECE_ROWS
    whole = size - size % piece
    sums = _sum_pieces(slice_along(x, axis, 0, whole), axis, piece, reduce)
    if whole < size:
        rest = _sum_pieces(slice_along(x, axis, whole, size), axis, size - whole, reduce)
        sums = ops.concatenate(sums, rest, dimension=axis)
    return sums


def _padded(x: ir.Value, axis: int, missing: int) -> ir.Value:
    nothing = (0,) * type_of(x).rank
    high = (*nothing[:axis], missing, *nothing[axis + 1 :])
    zero = constant(np.zeros((), type_of(x).dtype))
    return ops.pad(x, zero, low=nothing, high=high, interior=nothing)


def _sum_pieces(x: ir.Value, axis: int, piece: int, reduce: _Reduce) -> ir.Value:
    """The sums of pieces of ``piece`` elements, which divides the size of the axis."""
    shape = type_of(x).shape
    split = reshape(x, (*shape[:axis], shape[axis] // piece, piece, *shape[axis + 1 :]))
    return reduce(split, (axis + 1,))


# -------------------------------------------------------------------------------------- on a CPU


def _in_few_stages(x: ir.Value, axes: Sequence[int], reduce: _Reduce) -> ir.Value:
    is_short = _is_short(type_of(x), axes, _VECTOR * STAGE)
    return reduce(x, axes) if is_short else _in_stages(x, axes, reduce)


def _is_transposed(value: ir.Value) -> bool:
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


def _by_vectors(x: ir.Value, axes: Sequence[int], reduce: _Reduce) -> ir.Value:
    last, columns = type_of(x).rank - 1, type_of(x).shape[-1]
    left = columns % _LANES
    whole = reduce(slice_along(x, last, 0, columns - left), axes)
    others = reduce(slice_along(x, last, columns - _LANES, columns), axes)
    dimension = type_of(whole).rank - 1
    others = slice_along(others, dimension, _LANES - left, _LANES)
    return ops.concatenate(whole, others, dimension=dimension)


def _in_vectors(x: ir.Value, axes: Sequence[int]) -> ir.Value:
    return _by_vectors(x, axes, _whole)


def _is_strided(type_: TensorType, axes: Sequence[int]) -> bool:
    """Whether the rows of one column leave the cache before the next columns are read."""
    if len(axes) != 1 or axes[0] == type_.rank - 1:
        return False
    rows = type_.shape[axes[0]]
    return rows >= 4 * _STAGE_ROWS and math.prod(type_.shape[axes[0] :]) >= _LARGE


def _by_rows(x: ir.Value, axis: int, reduce: _Reduce) -> ir.Value:
    piece = _piece(type_of(x).shape[axis], 3 * _STAGE_ROWS // 2, _STAGE_ROWS // 2)
    return sum_along(_sum_pieces(x, axis, piece, reduce) if piece else x, axis, reduce)


def _in_lanes(x: ir.Value, axes: Sequence[int]) -> tuple[ir.Value, Sequence[int]]:
    """Add the last dimension in lanes; the operand and axes of the remaining sum."""
    type_ = type_of(x)
    shape, last = type_.shape, type_.rank - 1
    piece = _piece(shape[last] // _LANES, _PIECE_ROWS, _MIN_PIECE_ROWS)
    if last not in axes or type_.size < _LARGE or shape[last] % _LANES or not piece:
        return x, axes
    x = _sum_pieces(reshape(x, (*shape[:last], shape[last] // _LANES, _LANES)), last, piece, _whole)
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
