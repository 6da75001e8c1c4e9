"""Reductions of windows: pooling, and the positions of extrema for its derivatives.

A window slides over an operand that is dilated (``base_dilation``), then padded with the
reduction's identity. The window itself may be dilated as well (``window_dilation``).

The sum is linear. The tangent of an extremum is the tangent at its position, which
``window_argmax`` and ``window_argmin`` compute. All derivatives of the extrema are therefore reads
and additions at those positions. Of equal elements, the first is the extremum, as in XLA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gnomon.dialects import extrema, sharding_rules
from gnomon.dialects.attributes import INTS, Kind
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    accumulator,
    combiner,
    highest,
    jvp_linear,
    larger,
    lowered,
    lowest,
    padded,
    require,
    require_dtype,
    smaller,
    stablehlo,
    stablehlo_constant,
    stablehlo_full,
    stablehlo_region,
)
from gnomon.dialects.contract import NOT_LINEAR, ZERO_TANGENT, Facet, Instance, MappedAxis, Op, Rule
from gnomon.dialects.emit import full, move_dim, ops, reshape, take
from gnomon.dialects.mlir import ir
from gnomon.dialects.sized_forms import require_numbers
from gnomon.dialects.symbolic.dimension import any_symbolic, surely_at_most
from gnomon.dialects.traits import Form, linear
from gnomon.dialects.types import (
    BOOL,
    FLOATING,
    INTEGER,
    NUMERIC,
    TensorType,
    is_floating,
    mlir_type,
    type_of,
)
from gnomon.dialects.window_folds import (
    dilate_and_pad,
    dilated,
    fold_windows,
    take_strided,
    window_shape,
)
from gnomon.dialects.work_rules import Types, Work

__all__ = [
    "WINDOW_ATTRIBUTES",
    "first_of_two",
    "reduce_window_max",
    "reduce_window_min",
    "reduce_window_sum",
    "window_argmax",
    "window_argmin",
]

_I32 = np.dtype(np.int32)

WINDOW_ATTRIBUTES: Mapping[str, Kind] = {
    "window_dimensions": INTS,
    "window_strides": INTS,
    "padding_low": INTS,
    "padding_high": INTS,
    "base_dilation": INTS,
    "window_dilation": INTS,
}


# ----------------------------------------------------------------------------------- common facets


def _infer_windows(name: str, x: TensorType, params: Mapping[str, Any]) -> tuple[int, ...]:
    for key, values in params.items():
        require(
            len(values) == x.rank,
            name,
            f"{key} needs one number for each dimension of {x}, got {tuple(values)}",
        )
        require(
            key.startswith("padding") or not any(surely_at_most(v, 0) for v in values),
            name,
            f"{key} must be positive, got {tuple(values)}",
        )
    return window_shape(x.shape, **params)


def _with_batch_dim(params: Mapping[str, Any], at: int) -> dict[str, Any]:
    """The parameters for one more dimension at ``at``, along which windows have size one."""
    return {
        key: (*values[:at], 0 if key.startswith("padding") else 1, *values[at:])
        for key, values in params.items()
    }


def _stablehlo_reduce_window(
    operands: Values,
    initial: Sequence[np.ndarray],
    shape: tuple[int, ...],
    params: Mapping[str, Any],
    combine: Callable[..., Sequence[ir.Value]],
) -> list[ir.Value]:
    low, high = params["padding_low"], params["padding_high"]
    if any_symbolic((*low, *high)):
        # The op has no form with padding that is an operand.
        values = [stablehlo_constant(v) for v in initial]
        operands = [
            padded(x, value, low, high, params["base_dilation"])
            for x, value in zip(operands, values, strict=True)
        ]
        zeros, ones = (0,) * len(low), (1,) * len(low)
        params = {**params, "padding_low": zeros, "padding_high": zeros, "base_dilation": ones}
    types = [type_of(x) for x in operands]
    padding = np.array([params["padding_low"], params["padding_high"]], np.int64).T
    attributes = {
        "window_dimensions": INTS.encode(params["window_dimensions"]),
        "window_strides": INTS.encode(params["window_strides"]),
        "base_dilations": INTS.encode(params["base_dilation"]),
        "window_dilations": INTS.encode(params["window_dilation"]),
        "padding": ir.DenseElementsAttr.get(np.ascontiguousarray(padding)),
    }
    require_numbers("reduce_window", attributes)
    created = ir.Operation.create(
        "stablehlo.reduce_window",
        results=[mlir_type(t.with_shape(shape)) for t in types],
        operands=[*operands, *(stablehlo_constant(v) for v in initial)],
        attributes=attributes,
        regions=1,
    )
    scalars = [t.with_shape(()) for t in types]
    stablehlo_region(created.regions[0], [*scalars, *scalars], combine)
    return list(created.results)


_EXAMPLE = (
    "{window_dimensions = array<i64: 2>, window_strides = array<i64: 1>, "
    "padding_low = array<i64: 0>, padding_high = array<i64: 0>, base_dilation = array<i64: 1>, "
    "window_dilation = array<i64: 1>}"
)


def _windowed(
    name: str,
    *,
    doc: str,
    dtypes: Sequence[np.dtype],
    ufunc: np.ufunc,
    select: Callable[[Any, np.ndarray], Any] | None = None,
    identity: Callable[[np.dtype], np.ndarray],
    combine: Rule,
    jvp: Facet,
    transpose: Facet = NOT_LINEAR,
    accumulates: bool = False,
) -> Op:
    """Declare a reduction of windows; see `reduction` for the meaning of most arguments.

    Args:
      ufunc: combines two elements.
      select: the function of `extrema` that corrects the zeros, for a ufunc that selects elements.
    """

    def infer(x: TensorType, **params: Any) -> TensorType:
        require_dtype(name, x, dtypes)
        return x.with_shape(_infer_windows(name, x, params))

    def evaluate(x: np.ndarray, **params: Any) -> np.ndarray:
        dtype, shape = x.dtype, window_shape(x.shape, **params)
        if 0 in shape:
            return np.zeros(shape, dtype)
        wide = x.astype(accumulator(dtype)) if accumulates else x
        padded = dilate_and_pad(wide, identity(wide.dtype), params)

        def fold(x: np.ndarray) -> np.ndarray:
            (result,) = fold_windows(
                [x], x.shape, params, take_strided, lambda a, b: [ufunc(a[0], b[0])]
            )
            return result

        return np.array(fold(padded) if select is None else select(fold, padded), dtype)

    def batch(
        inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
    ) -> tuple[list[ir.Value], list[int]]:
        (x,), (at,) = operands, dims
        assert at is not None
        return inst.op.build([x], _with_batch_dim(inst.params, at)), [at]

    def lower(inst: Instance) -> list[ir.Value]:
        x, (type_,), result = inst.operand, inst.operand_types, inst.type
        if result.size == 0:
            return [_empty(result)]
        wide = accumulator(type_.dtype) if accumulates else type_.dtype
        if wide != type_.dtype:
            (x,) = stablehlo("convert", [x], [type_.with_dtype(wide)])
        reduced = _stablehlo_reduce_window(
            [x], [identity(wide)], result.shape, inst.params, lambda a, b: [combine(a, b)]
        )
        return reduced if wide == type_.dtype else stablehlo("convert", reduced, [result])

    return Op(
        name=name,
        doc=doc,
        example=f'%r = "gnomon.{name}"(%x) {_EXAMPLE} : (tensor<4xf32>) -> tensor<3xf32>',
        attributes=WINDOW_ATTRIBUTES,
        operands=("x",),
        form=Form.WINDOW,
        stablehlo=("reduce_window",),
        work=_work,
        infer=infer,
        evaluate=evaluate,
        jvp=jvp,
        linear=linear() if callable(transpose) else None,
        transpose=transpose,
        batch=batch,
        sharding=sharding_rules.resized,
        lower=lower,
    )


def _work(
    operands: Types, results: Types, *, window_dimensions: Sequence[int], **params: Any
) -> Work:
    """One flop for each element of a window after the first."""
    return Work(flops=results[0].size * max(math.prod(window_dimensions) - 1, 0))


def _empty(type_: TensorType) -> ir.Value:
    return stablehlo_full(type_, 0)


# -------------------------------------------------------------------------------------------- sums


def _transpose_sum(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    """Sum the cotangents of the windows that contain each element.

    This is again a sum of windows, with strides and base dilation exchanged.
    """
    (cotangent,), (x,), params = cotangents, inst.operand_types, inst.params
    assert cotangent is not None
    if inst.type.size == 0 or x.size == 0:
        return [full(x, 0)]
    low, high = [], []
    for d, n in enumerate(x.shape):
        reach = dilated(params["window_dimensions"][d], params["window_dilation"][d])
        before = reach - params["padding_low"][d] - 1
        spread = dilated(inst.type.shape[d], params["window_strides"][d])
        low.append(before)
        high.append(dilated(n, params["base_dilation"][d]) + reach - 1 - before - spread)
    exchanged = {
        "window_strides": params["base_dilation"],
        "base_dilation": params["window_strides"],
        "padding_low": tuple(low),
        "padding_high": tuple(high),
    }
    return inst.op.build([cotangent], {**params, **exchanged})


reduce_window_sum = _windowed(
    "reduce_window_sum",
    doc="the sum of each window",
    dtypes=NUMERIC,
    ufunc=np.add,
    identity=lambda dtype: np.zeros((), dtype),
    combine=combiner("add"),
    jvp=jvp_linear,
    transpose=_transpose_sum,
    accumulates=True,
)


# ---------------------------------------------------------------------------------------- extrema


def _jvp_extremum(place: str) -> Rule:
    def rule(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
        (x,), (t,), (type_,) = inst.operands, tangents, inst.operand_types
        assert t is not None
        if type_.size == 0 or inst.type.size == 0:
            return [None]
        places = getattr(ops, place)(x, **inst.params)
        flat, read_at = reshape(t, (type_.size,)), reshape(places, (inst.type.size,))
        read = take(flat, read_at, 0, mode="fill", unique=not _overlap(inst.params))
        return [reshape(read, inst.type.shape)]

    return rule


def _overlap(params: Mapping[str, Any]) -> bool:
    """Whether an element may be in several windows."""
    names = "window_dimensions", "window_strides", "window_dilation"
    windows = zip(*(params[name] for name in names), strict=True)
    return any(stride < (size - 1) * dilation + 1 for size, stride, dilation in windows)


REAL = (BOOL, *INTEGER, *FLOATING)

reduce_window_max = _windowed(
    "reduce_window_max",
    doc="the largest element of each window; nan if there is one",
    dtypes=REAL,
    ufunc=np.maximum,
    select=extrema.largest,
    identity=lowest,
    combine=larger,
    jvp=_jvp_extremum("window_argmax"),
)
reduce_window_min = _windowed(
    "reduce_window_min",
    doc="the smallest element of each window; nan if there is one",
    dtypes=REAL,
    ufunc=np.minimum,
    select=extrema.smallest,
    identity=highest,
    combine=smaller,
    jvp=_jvp_extremum("window_argmin"),
)


def first_of_two(build: Any, beyond: str, a: Values, b: Values) -> list[ir.Value]:
    """Choose the more extreme of two values with their positions; of equal values, the first.

    Args:
      build: `ops`, or `lowered` for StableHLO.
      beyond: the op that tests whether one value is more extreme than another.
      a, b: a value and its position; a nan is the most extreme.
    """
    (x, i), (y, j) = a, b
    first, same = getattr(build, beyond)(x, y), build.eq(x, y)
    if is_floating(type_of(x).dtype):
        x_nan, y_nan = build.ne(x, x), build.ne(y, y)
        first = build.or_(first, build.and_(x_nan, build.not_(y_nan)))
        same = build.or_(same, build.and_(x_nan, y_nan))
    first = build.or_(first, build.and_(same, build.lt(i, j)))
    return [build.select(first, x, y), build.select(first, i, j)]


def _place_of_extremum(
    name: str, *, doc: str, identity: Callable[[np.dtype], np.ndarray], beyond: str
) -> Op:
    """Declare the op that computes the position of the extremum of each window."""
    numpy_beyond = np.greater if beyond == "gt" else np.less

    def infer(x: TensorType, **params: Any) -> TensorType:
        require_dtype(name, x, REAL)
        require(x.size <= np.iinfo(_I32).max, name, f"{x} has more elements than an i32 can number")
        return TensorType(_infer_windows(name, x, params), _I32)

    def combine_arrays(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        (x, i), (y, j) = a, b
        first = numpy_beyond(x, y)
        same = x == y
        if is_floating(x.dtype):
            x_nan, y_nan = x != x, y != y
            first = first | (x_nan & ~y_nan)
            same = same | (x_nan & y_nan)
        first = first | (same & (i < j))
        return np.where(first, x, y), np.where(first, i, j)

    def evaluate(x: np.ndarray, **params: Any) -> np.ndarray:
        shape = window_shape(x.shape, **params)
        if 0 in shape:
            return np.zeros(shape, _I32)
        places = np.arange(x.size, dtype=_I32).reshape(x.shape)
        parts = [
            dilate_and_pad(x, identity(x.dtype), params),
            dilate_and_pad(places, x.size, params),
        ]
        return fold_windows(parts, parts[0].shape, params, take_strided, combine_arrays)[1]

    def batch(
        inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
    ) -> tuple[list[ir.Value], list[int]]:
        (x,), (at,) = operands, dims
        assert at is not None
        params = _with_batch_dim(inst.params, 0)
        places = inst.op(move_dim(x, at, 0), **params)
        # Positions count from the start of each batch element; those of padding are out of bounds.
        size = inst.operand_types[0].size
        type_ = type_of(places)
        member = ops.iota(dtype=_I32, shape=type_.shape, dimension=0)
        own = ops.sub(places, ops.mul(member, full(type_, size)))
        return [ops.min(own, full(type_, size))], [0]

    def combine(x: ir.Value, i: ir.Value, y: ir.Value, j: ir.Value) -> list[ir.Value]:
        return first_of_two(lowered, beyond, (x, i), (y, j))

    def lower(inst: Instance) -> list[ir.Value]:
        (type_,) = inst.operand_types
        if inst.type.size == 0:
            return [_empty(inst.type)]
        flat = lowered.iota(dtype=_I32, shape=(type_.size,), dimension=0)
        places = lowered.reshape(flat, shape=type_.shape)
        initial = [identity(type_.dtype), np.asarray(type_.size, _I32)]
        return _stablehlo_reduce_window(
            [inst.operand, places], initial, inst.type.shape, inst.params, combine
        )[1:]

    return Op(
        name=name,
        doc=doc,
        example=f'%r = "gnomon.{name}"(%x) {_EXAMPLE} : (tensor<4xf32>) -> tensor<3xi32>',
        attributes=WINDOW_ATTRIBUTES,
        operands=("x",),
        form=Form.WINDOW,
        stablehlo=("reduce_window",),
        work=_work,
        infer=infer,
        evaluate=evaluate,
        jvp=ZERO_TANGENT,
        transpose=NOT_LINEAR,
        batch=batch,
        sharding=sharding_rules.resized,
        lower=lower,
    )


window_argmax = _place_of_extremum(
    "window_argmax",
    doc="the position in the flat operand of the first largest element of each window; "
    "the operand's size for a window of padding",
    identity=lowest,
    beyond="gt",
)
window_argmin = _place_of_extremum(
    "window_argmin",
    doc="the position in the flat operand of the first smallest element of each window; "
    "the operand's size for a window of padding",
    identity=highest,
    beyond="lt",
)
