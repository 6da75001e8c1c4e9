"""Rows of the op table: reductions, positions of extrema, cumulative ops.

The references go through Python numbers and exact or wide arithmetic, one line at a time.
"""

from __future__ import annotations

import cmath
import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from gnomon.dialects.types import SUB_BYTE
from tests.ops.row import Operand, Row

INTEGER = "i2 i4 i8 i16 i32 i64 u2 u4 u8 u16 u32 u64"
FLOATING = (
    "f16 bf16 f32 f64 f8_e3m4 f8_e4m3 f8_e4m3fn f8_e5m2 f8_e4m3b11fnuz f8_e4m3fnuz f8_e5m2fnuz"
)
NUMERIC = f"{INTEGER} {FLOATING} c64 c128"
SPECIAL = (math.inf, -math.inf, math.nan, -0.0)

# A reference of one line: Python numbers to a Python number.
Line = Callable[[Sequence[Any]], Any]


def _numbers(line: np.ndarray) -> list[Any]:
    kind = line.dtype.kind
    if line.dtype == np.bool_:
        return [bool(v) for v in line]
    if kind in "iu" or line.dtype in SUB_BYTE:
        return [int(v) for v in line]
    return [complex(v) for v in line] if kind == "c" else [float(v) for v in line]


def _cast(value: Any, dtype: np.dtype) -> Any:
    """A Python number in a dtype; integers of any size wrap."""
    if isinstance(value, int) and not isinstance(value, bool):
        width = 4 if dtype in (ml_dtypes.int4, ml_dtypes.uint4) else 8 * dtype.itemsize
        wrapped = value % 2**width
        signed = dtype.kind == "i" or dtype == ml_dtypes.int4
        if signed and wrapped >= 2 ** (width - 1):
            wrapped -= 2**width
        return np.array(wrapped).astype(dtype)
    return np.array(value).astype(dtype)


def _lines(x: np.ndarray, axes: tuple[int, ...], line: Line) -> np.ndarray:
    kept = tuple(d for d in range(x.ndim) if d not in axes)
    moved = np.transpose(x, (*kept, *axes))
    shape = tuple(x.shape[d] for d in kept)
    rows = moved.reshape(*shape, math.prod(x.shape[d] for d in axes))
    result = np.zeros(shape, x.dtype)
    for index in np.ndindex(*shape):
        result[index] = _cast(line(_numbers(rows[index])), x.dtype)
    return result


def _sum(values: Sequence[Any]) -> Any:
    if values and isinstance(values[0], float):
        finite = all(map(math.isfinite, values))
        return math.fsum(values) if finite else functools.reduce(operator.add, values)
    return sum(values)


def _key(value: Any) -> Any:
    return (value.real, value.imag) if isinstance(value, complex) else value


def _extremum(choose: Callable[..., Any]) -> Line:
    def line(values: Sequence[Any]) -> Any:
        nans = [v for v in values if v != v]
        return nans[0] if nans else choose(values, key=_key)

    return line


_REDUCTIONS: dict[str, tuple[Line, str, float]] = {
    "reduce_sum": (_sum, NUMERIC, 8.0),
    "reduce_prod": (math.prod, NUMERIC, 16.0),
    "reduce_max": (_extremum(max), f"bool {NUMERIC}", 0.0),
    "reduce_min": (_extremum(min), f"bool {NUMERIC}", 0.0),
    "reduce_and": (functools.partial(functools.reduce, operator.and_), f"bool {INTEGER}", 0.0),
    "reduce_or": (functools.partial(functools.reduce, operator.or_), f"bool {INTEGER}", 0.0),
    "reduce_xor": (functools.partial(functools.reduce, operator.xor), f"bool {INTEGER}", 0.0),
}

_SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3, 5), (1,)),
    ((), ()),
    ((4,), (0,)),
    ((4,), ()),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), (2, 1)),
    ((2, 1, 3, 1, 2), (0, 1, 2, 3, 4)),
    ((0, 3), (1,)),
)


def _reduction_rows(name: str) -> list[Row]:
    line, dtypes, ulps = _REDUCTIONS[name]
    differentiable = (
        (0,) if name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min") else ()
    )
    first = dtypes.split()[0] if not differentiable else "f32 f64"
    rows = []
    for shape, axes in _SHAPES:
        every = (shape, axes) == ((3, 5), (1,))
        rows.append(
            Row(
                name,
                (Operand(shape, low=-8, high=8),),
                functools.partial(_lines, axes=axes, line=line),
                {"axes": axes},
                dtypes=dtypes if every else first,
                differentiable=differentiable,
                ulps=ulps,
                label=f"{shape}-{axes}",
            )
        )
    if differentiable:
        rows.append(
            Row(
                name,
                (Operand((6, 2), values=SPECIAL),),
                functools.partial(_lines, axes=(0,), line=line),
                {"axes": (0,)},
                dtypes="f16 bf16 f32 f64",
                ulps=ulps,
                label="special values",
            )
        )
    rows.append(_identity_row(name))
    return rows


_IDENTITIES: dict[str, Callable[[np.dtype], Any]] = {
    "reduce_sum": lambda dtype: 0,
    "reduce_prod": lambda dtype: 1,
    "reduce_max": lambda dtype: _limit(dtype, -1),
    "reduce_min": lambda dtype: _limit(dtype, 1),
    "reduce_and": lambda dtype: True if dtype == np.bool_ else -1,
    "reduce_or": lambda dtype: 0,
    "reduce_xor": lambda dtype: 0,
}


def _limit(dtype: np.dtype, sign: int) -> Any:
    if dtype == np.bool_:
        return sign > 0
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min
    return sign * math.inf


def _identity_row(name: str) -> Row:
    """A reduction of no elements, whose result is the identity."""

    def reference(x: np.ndarray) -> np.ndarray:
        return np.full((3,), _cast(_IDENTITIES[name](x.dtype), x.dtype))

    floating = "" if name in ("reduce_and", "reduce_or", "reduce_xor") else "f32 bf16 "
    boolean = "" if name in ("reduce_sum", "reduce_prod") else "bool "
    return Row(
        name,
        (Operand((0, 3)),),
        reference,
        {"axes": (0,)},
        dtypes=f"{floating}{boolean}i32 u8",
        label="no elements",
    )


# ------------------------------------------------------------------------- small dtypes, wide sums


def _exactly_rounded_sum(x: np.ndarray) -> np.ndarray:
    return _lines(x, (0,), lambda values: math.fsum(values))


def _about_one(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    # Added one by one in a 16-bit dtype, the sum would stop growing at a few hundred.
    return rng.uniform(1.0, 1.1, shape).astype(dtype)


_WIDE_SUM = Row(
    "reduce_sum",
    (Operand((3000,), draw=_about_one),),
    _exactly_rounded_sum,
    {"axes": (0,)},
    dtypes="f16 bf16",
    ulps=1.0,
    label="many small",
)


# ---------------------------------------------------------------------------------- argmax, argmin


def _place(x: np.ndarray, axis: int, choose: Callable[..., Any]) -> np.ndarray:
    moved = np.moveaxis(x, axis, -1)
    result = np.zeros(moved.shape[:-1], np.int64)
    for index in np.ndindex(*result.shape):
        values = _numbers(moved[index])
        nans = [i for i, v in enumerate(values) if v != v]
        result[index] = nans[0] if nans else values.index(choose(values))
    return result


def _place_rows(name: str, choose: Callable[..., Any]) -> list[Row]:
    def row(
        shape: tuple[int, ...], axis: int, index: Any, dtypes: str, label: str, **operand: Any
    ) -> Row:
        return Row(
            name,
            (Operand(shape, **operand),),
            lambda x: _place(x, axis, choose).astype(index),
            {"axis": axis, "index_dtype": np.dtype(index)},
            dtypes=dtypes,
            label=label,
        )

    return [
        row((3, 5), 1, np.int32, f"bool {INTEGER} {FLOATING}", "matrix", low=-8, high=8),
        row((4, 3, 2), 0, np.int64, "f32 i32", "rank 3"),
        row((5,), 0, np.uint8, "f32", "u8 index"),
        row((1,), 0, np.int32, "f32", "one element"),
        row((3, 0), 0, np.int32, "f32", "no results"),
        row((9,), 0, np.int32, "i32 u8 f32", "ties", low=0, high=1.5),
        row((7, 2), 0, np.int32, "f16 bf16 f32 f64", "special values", values=SPECIAL),
        row((5,), 0, np.int32, "f32 f64", "infinities", values=(math.inf, -math.inf)),
    ]


# ---------------------------------------------------------------------------------- cumulative ops


def _accumulated(values: Sequence[Any], line: Line) -> list[Any]:
    return [line(values[: i + 1]) for i in range(len(values))]


def _log_sum_exp(values: Sequence[float]) -> float:
    top = max(values)
    if any(v != v for v in values):
        return math.nan
    if math.isinf(top):
        return top
    return top + math.log(math.fsum(math.exp(v - top) for v in values))


def _complex_log_sum_exp(values: Sequence[complex]) -> complex:
    if len(values) == 1:
        return values[0]
    top = max(v.real for v in values)
    return top + cmath.log(sum(cmath.exp(v - top) for v in values))


def _cumulative(x: np.ndarray, axis: int, reverse: bool, line: Line) -> np.ndarray:
    moved = np.moveaxis(x[...] if not reverse else np.flip(x, axis), axis, -1)
    result = np.zeros(moved.shape, x.dtype)
    for index in np.ndindex(*moved.shape[:-1]):
        for i, value in enumerate(_accumulated(_numbers(moved[index]), line)):
            result[(*index, i)] = _cast(value, x.dtype)
    result = np.moveaxis(result, -1, axis)
    return np.flip(result, axis) if reverse else result


_CUMULATIVE: dict[str, tuple[Line, str, float]] = {
    "cumsum": (_sum, NUMERIC, 8.0),
    "cumprod": (math.prod, NUMERIC, 16.0),
    "cummax": (_extremum(max), NUMERIC, 0.0),
    "cummin": (_extremum(min), NUMERIC, 0.0),
    "cumlogsumexp": (_log_sum_exp, FLOATING, 16.0),
}


def _cumulative_rows(name: str) -> list[Row]:
    line, dtypes, ulps = _CUMULATIVE[name]

    def row(
        shape: tuple[int, ...],
        axis: int,
        reverse: bool,
        dtypes: str = "f32 f64",
        label: str = "",
        **operand: Any,
    ) -> Row:
        special = "values" in operand
        return Row(
            name,
            (Operand(shape, **operand),),
            functools.partial(_cumulative, axis=axis, reverse=reverse, line=line),
            {"axis": axis, "reverse": reverse},
            dtypes=dtypes,
            differentiable=() if special else (0,),
            ulps=ulps,
            label=label or f"{shape}-{axis}-{'reverse' if reverse else 'forward'}",
        )

    return [
        row((2, 5), 1, False, dtypes),
        row((7,), 0, True, dtypes),
        *itertools.starmap(
            row,
            (
                ((1,), 0, False),
                ((2,), 0, False),
                ((3, 2), 0, False),
                ((8,), 0, False),
                ((2, 6, 2), 1, True),
                ((0, 2), 0, False),
                ((3, 0), 0, True),
            ),
        ),
        row((6, 2), 0, False, "f16 bf16 f32 f64", "special values", values=SPECIAL),
        row((6,), 0, True, "f32 f64", "infinities", values=(-math.inf, -math.inf)),
    ]


def _with_zeros(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    x = rng.uniform(-2.0, 2.0, shape)
    x[1] = 0.0
    x[3] = 0.0
    return x.astype(dtype)


_COMPLEX_ROWS = [
    Row(
        "cumlogsumexp",
        (Operand(shape),),
        functools.partial(_cumulative, axis=0, reverse=reverse, line=_complex_log_sum_exp),
        {"axis": 0, "reverse": reverse},
        dtypes="c64 c128",
        differentiable=(0,),
        ulps=32.0,
        label=f"complex {shape}",
    )
    for shape, reverse in (((5, 2), False), ((4,), True), ((0,), False))
]

# Products with one and two zeros: a rule that divides by the operand fails here.
_ZERO_ROWS = [
    Row(
        name,
        (Operand(shape, draw=_with_zeros),),
        reference,
        params,
        dtypes="f32 f64 c128",
        differentiable=(0,),
        ulps=16.0,
        label=f"zeros {shape}",
    )
    for shape in ((5,), (7, 2))
    for name, reference, params in (
        ("reduce_prod", functools.partial(_lines, axes=(0,), line=math.prod), {"axes": (0,)}),
        (
            "cumprod",
            functools.partial(_cumulative, axis=0, reverse=False, line=math.prod),
            {"axis": 0, "reverse": False},
        ),
    )
]


ROWS: list[Row] = [
    *(row for name in _REDUCTIONS for row in _reduction_rows(name)),
    _WIDE_SUM,
    *_place_rows("argmax", max),
    *_place_rows("argmin", min),
    *(row for name in _CUMULATIVE for row in _cumulative_rows(name)),
    *_COMPLEX_ROWS,
    *_ZERO_ROWS,
]
