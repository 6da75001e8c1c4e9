"""Sorting: ``gnomon.sort`` orders several arrays by the first of them, ``gnomon.top_k`` selects.

Several keys are compared lexicographically. The order of one key is:

- real numbers by value; -0 and 0 are equal, as are all nans, which come last;
- complex numbers by real part, then by imaginary part, each as above;
- False before True.

``top_k`` uses the total order of IEEE 754 instead, as XLA does: nan above infinity, 0 above -0.

Both are differentiated through their permutation, which is found by sorting the positions along
with the operands.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import BOOL as FLAG
from gnomon.dialects.attributes import INT
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    describe,
    lowered,
    parse,
    require,
    require_dtype,
    stablehlo,
    stablehlo_region,
)
from gnomon.dialects.contract import NOT_LINEAR, Instance, MappedAxis, Op
from gnomon.dialects.emit import at_dim, move_dim, ops, take
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import (
    ANY,
    BOOL,
    FLOATING,
    INTEGER,
    SIGNED,
    TensorType,
    is_complex,
    is_floating,
    is_of_numpy,
    mlir_type,
    type_of,
)
from gnomon.dialects.work_rules import Types, Work

__all__ = ["ordered_integers", "sort", "take_along", "top_k"]

_I32 = np.dtype(np.int32)
_F32 = np.dtype(np.float32)


# ------------------------------------------------------------------------------------ permutations


def take_along(x: ir.Value, positions: ir.Value, dimension: int, *, unique: bool) -> ir.Value:
    """Take the elements of ``x`` at positions along a dimension, like ``np.take_along_axis``."""
    others = [d for d in range(type_of(x).rank) if d != dimension]
    return take(x, positions, dimension, others, unique=unique)


def _permuted(
    tangents: Tangents, positions: ir.Value, dimension: int, size: int
) -> list[ir.Value | None]:
    return [
        None if t is None else take_along(t, positions, dimension, unique=True) if size else t
        for t in tangents
    ]


# -------------------------------------------------------------------------------------- evaluation


def ordered_integers(x: np.ndarray, *, total: bool) -> np.ndarray:
    """Map real numbers or bools to integers with the same order.

    The bits of a float are a sign followed by a magnitude; with the magnitude bits flipped where
    the sign is set, they are in order. In the ``total`` order -0 comes before 0, and nans are
    ordered by their bits.
    """
    if not is_floating(x.dtype):
        return x.astype(np.int8) if x.dtype.itemsize == 1 and x.dtype.kind not in "iu" else x
    if x.dtype.itemsize < _F32.itemsize:
        x = x.astype(_F32)
    if not total:
        x = np.where(np.isnan(x), x.dtype.type(np.nan), x + x.dtype.type(0))
    signed = np.dtype(f"i{x.dtype.itemsize}")
    bits = x.view(signed)
    return bits ^ ((bits >> (8 * signed.itemsize - 1)) & np.iinfo(signed).max)


def _packed(keys: np.ndarray, dimension: int) -> np.ndarray:
    """Pack keys of at most 32 bits above their positions, so that any sort of them is stable."""
    shape = tuple(-1 if d == dimension else 1 for d in range(keys.ndim))
    numbers = keys.astype(np.int64)
    # Shift unsigned 32-bit keys into the range of signed ones.
    packed = (numbers - 2**31 if keys.dtype == np.uint32 else numbers) << 32
    packed |= np.arange(keys.shape[dimension]).reshape(shape)
    return packed


def _columns(keys: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Split complex keys into real ones with the same order, most significant first."""
    return [part for k in keys for part in ((k.real, k.imag) if is_complex(k.dtype) else (k,))]


def _permutation(keys: Sequence[np.ndarray], dimension: int) -> np.ndarray:
    """The stable order of rows of keys."""
    columns = _columns(keys)
    if len(columns) == 1 and columns[0].dtype.itemsize <= 4:
        packed = _packed(ordered_integers(columns[0], total=False), dimension)
        packed.sort(dimension)
        packed &= 0xFFFFFFFF
        return packed
    whole = [c if is_of_numpy(c.dtype) else _widened(c) for c in columns]
    return np.lexsort(whole[::-1], dimension)


def _widened(x: np.ndarray) -> np.ndarray:
    return x.astype(_F32 if is_floating(x.dtype) else _I32)


def _evaluate(
    *operands: np.ndarray, dimension: int, num_keys: int, is_stable: bool
) -> tuple[np.ndarray, ...]:
    first = operands[0]
    if len(operands) == 1 and not is_complex(first.dtype):
        keys = first if is_of_numpy(first.dtype) else _widened(first)
        values = np.sort(keys, dimension)
        # Equal keys are indistinguishable except zeros of either sign, which keep their order.
        zeros = values[values == 0] if is_floating(first.dtype) else values[:0]
        if np.signbit(zeros).any() and not np.signbit(zeros).all():
            values = np.sort(keys, dimension, kind="stable")
        return (values.astype(first.dtype, copy=False),)
    order = _permutation(operands[:num_keys], dimension)
    return tuple(np.take_along_axis(x, order, dimension) for x in operands)


# Rows at least this long are partitioned one by one, which does not sort the other elements.
_LONG_ROW = 1 << 12


def _evaluate_top_k(x: np.ndarray, *, k: int, axis: int) -> tuple[np.ndarray, np.ndarray]:
    n = x.shape[axis]
    descending = np.moveaxis(~ordered_integers(x, total=True), axis, -1)
    if 0 < k < n // 4 and n >= _LONG_ROW:
        order = np.empty((*descending.shape[:-1], k), np.intp)
        for row in np.ndindex(*descending.shape[:-1]):
            order[row] = _first_of_row(descending[row], k)
    elif descending.dtype.itemsize <= 4:
        order = np.sort(_packed(descending, descending.ndim - 1), -1)[..., :k] & 0xFFFFFFFF
    else:
        order = np.argsort(descending, -1, kind="stable")[..., :k]
    order = np.moveaxis(order, -1, axis)
    return np.take_along_axis(x, order, axis), order.astype(_I32)


def _first_of_row(row: np.ndarray, k: int) -> np.ndarray:
    """The positions of the k smallest elements in order; equal elements keep their order."""
    limit = np.partition(row, k - 1)[k - 1]
    candidates = np.flatnonzero(row <= limit)
    return candidates[np.argsort(row[candidates], kind="stable")][:k]


# ------------------------------------------------------------------------------------------- sort


def _infer(
    *types: TensorType, dimension: int, num_keys: int, is_stable: bool
) -> tuple[TensorType, ...]:
    require(len(types) > 0, "sort", "at least one operand is needed, got none")
    first = types[0]
    for type_ in types:
        require_dtype("sort", type_, ANY)
        require(
            type_.shape == first.shape,
            "sort",
            f"all operands must have one shape, got {describe(types)}",
        )
    require(
        0 <= dimension < first.rank,
        "sort",
        f"dimension {dimension} is out of range for {describe(types)}",
    )
    require(
        1 <= num_keys <= len(types),
        "sort",
        f"num_keys must be between 1 and the number of operands {len(types)}, got {num_keys}",
    )
    return types


def _jvp(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    """Sort the positions as well: they are the permutation to apply to the tangents."""
    type_, dimension = inst.operand_types[0], inst.params["dimension"]
    position = ops.iota(dtype=_I32, shape=type_.shape, dimension=dimension)
    *outs, order = inst.op.build([*inst.operands, position], inst.params)
    return outs, _permuted(tangents, order, dimension, type_.size)


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    at = next(d for d in dims if d is not None)
    aligned = [at_dim(x, d, axis.size, at) for x, d in zip(operands, dims, strict=True)]
    dimension = inst.params["dimension"]
    results = inst.op.build(aligned, {**inst.params, "dimension": dimension + (dimension >= at)})
    return results, [at] * len(results)


@functools.cache
def _attribute(kind: str, value: str) -> ir.Attribute:
    return parse(f"#stablehlo<comparison_{kind} {value}>")


def _compare(direction: str, x: ir.Value, y: ir.Value) -> ir.Value:
    dtype = type_of(x).dtype
    kind = "SIGNED" if dtype in SIGNED else "TOTALORDER" if is_floating(dtype) else "UNSIGNED"
    return stablehlo(
        "compare",
        [x, y],
        [type_of(x).with_dtype(BOOL)],
        comparison_direction=_attribute("direction", direction),
        compare_type=_attribute("type", kind),
    )[0]


def _canonical(x: ir.Value) -> list[ir.Value]:
    """Real keys whose IEEE total order is the sorting order."""
    dtype = type_of(x).dtype
    if is_complex(dtype):
        return [key for part in (lowered.real(x), lowered.imag(x)) for key in _canonical(part)]
    if not is_floating(dtype):
        return [x]
    zero, nan = lowered.full_like(x, 0), lowered.full_like(x, np.nan)
    x = lowered.select(lowered.eq(x, zero), zero, x)
    return [lowered.select(lowered.ne(x, x), nan, x)]


def _comes_before(left: Values, right: Values) -> ir.Value:
    """Whether one tuple of keys sorts before another."""
    x_keys = [k for x in left for k in _canonical(x)]
    y_keys = [k for y in right for k in _canonical(y)]
    result: ir.Value | None = None
    for x, y in reversed(list(zip(x_keys, y_keys, strict=True))):
        less = _compare("LT", x, y)
        if result is not None:
            less = lowered.or_(less, lowered.and_(_compare("EQ", x, y), result))
        result = less
    assert result is not None
    return result


def _stablehlo_sort(
    operands: Values, dimension: int, is_stable: bool, before: object
) -> list[ir.Value]:
    types = [type_of(x) for x in operands]
    created = ir.Operation.create(
        "stablehlo.sort",
        results=[mlir_type(t) for t in types],
        operands=list(operands),
        attributes={"dimension": INT.encode(dimension), "is_stable": FLAG.encode(is_stable)},
        regions=1,
    )
    scalars = [t.with_shape(()) for t in types for _ in range(2)]
    stablehlo_region(created.regions[0], scalars, before)  # type: ignore[arg-type]
    return list(created.results)


def _lower(inst: Instance) -> list[ir.Value]:
    params, operands = inst.params, list(inst.operands)
    count = params["num_keys"]
    if inst.operand_types[0].size == 0:
        return operands

    def before(*pairs: ir.Value) -> list[ir.Value]:
        return [_comes_before(pairs[0 : 2 * count : 2], pairs[1 : 2 * count : 2])]

    return _stablehlo_sort(operands, params["dimension"], params["is_stable"], before)


def _work(operands: Types, results: Types, *, dimension: int, **params: Any) -> Work:
    """Of a sort by merging: log2 of the length comparisons for each element."""
    length = operands[0].shape[dimension]
    return Work(flops=operands[0].size * math.ceil(math.log2(max(length, 1))))


sort = Op(
    name="sort",
    doc="arrays sorted together along a dimension by the first num_keys of them, "
    "compared lexicographically",
    example='%r = "gnomon.sort"(%x) {dimension = 0 : i64, num_keys = 1 : i64, is_stable = true} '
    ": (tensor<4xf32>) -> tensor<4xf32>",
    attributes={"dimension": INT, "num_keys": INT, "is_stable": FLAG},
    results=None,
    form=Form.SORT,
    stablehlo=("sort",),
    work=_work,
    infer=_infer,
    evaluate=_evaluate,
    jvp=_jvp,
    linearize=_jvp,
    transpose=NOT_LINEAR,
    batch=_batch,
    sharding=sharding_rules.along_axis("dimension"),
    lower=_lower,
)


# ------------------------------------------------------------------------------------------ top_k


def _infer_top_k(x: TensorType, *, k: int, axis: int) -> tuple[TensorType, TensorType]:
    require_dtype("top_k", x, (BOOL, *INTEGER, *FLOATING))
    require(0 <= axis < x.rank, "top_k", f"axis {axis} is not a dimension of {x}")
    require(
        0 <= k <= x.shape[axis],
        "top_k",
        f"k must be between 0 and the size {x.shape[axis]} of axis {axis} of {x}, got {k}",
    )
    shape = tuple(k if d == axis else n for d, n in enumerate(x.shape))
    return x.with_shape(shape), TensorType(shape, _I32)


def _jvp_top_k(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    size = inst.result_types[0].size
    (t,) = tangents
    assert t is not None
    if not size:
        return [None, None]
    return [take_along(t, outs[1], inst.params["axis"], unique=True), None]


def _batch_top_k(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    (x,), (dim,) = operands, dims
    assert dim is not None
    along = inst.params["axis"]
    results = inst.op.build([move_dim(x, dim, 0)], {**inst.params, "axis": along + 1})
    return results, [0, 0]


def _lower_top_k(inst: Instance) -> list[ir.Value]:
    (type_,), axis, k = inst.operand_types, inst.params["axis"], inst.params["k"]
    operands = [inst.operand, lowered.iota(dtype=_I32, shape=type_.shape, dimension=axis)]
    if type_.size:

        def before(x: ir.Value, y: ir.Value, *positions: ir.Value) -> list[ir.Value]:
            return [_compare("GT", x, y)]

        operands = _stablehlo_sort(operands, axis, True, before)
    limit = tuple(k if d == axis else n for d, n in enumerate(type_.shape))
    start, strides = (0,) * type_.rank, (1,) * type_.rank
    return [lowered.slice(x, start=start, limit=limit, strides=strides) for x in operands]


def _work_top_k(operands: Types, results: Types, *, k: int, axis: int) -> Work:
    return _work(operands, results, dimension=axis)


top_k = Op(
    name="top_k",
    doc="the k largest elements along an axis in descending order, and their positions; "
    "equal elements keep their order",
    example='%v, %i = "gnomon.top_k"(%x) {k = 2 : i64, axis = 0 : i64} '
    ": (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)",
    attributes={"k": INT, "axis": INT},
    operands=("x",),
    results=2,
    form=Form.SORT,
    work=_work_top_k,
    infer=_infer_top_k,
    evaluate=_evaluate_top_k,
    jvp=_jvp_top_k,
    transpose=NOT_LINEAR,
    batch=_batch_top_k,
    sharding=sharding_rules.along_axis("axis"),
    lower=_lower_top_k,
)
