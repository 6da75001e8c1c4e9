"""Rows of the op table: reductions of windows. The references visit each element of each window."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.ops.row import Operand, Row

INTEGER = "i4 i8 i16 i32 i64 u4 u8 u16 u32 u64"
FLOATING = "f16 bf16 f32 f64 f8_e4m3fn f8_e5m2"

Params = dict[str, tuple[int, ...]]


def _params(
    window: Sequence[int],
    strides: Sequence[int] | None = None,
    low: Sequence[int] | None = None,
    high: Sequence[int] | None = None,
    base: Sequence[int] | None = None,
    apart: Sequence[int] | None = None,
) -> Params:
    ones, zeros = (1,) * len(window), (0,) * len(window)
    return {
        "window_dimensions": tuple(window),
        "window_strides": tuple(strides or ones),
        "padding_low": tuple(low or zeros),
        "padding_high": tuple(high or zeros),
        "base_dilation": tuple(base or ones),
        "window_dilation": tuple(apart or ones),
    }


def _counts(shape: Sequence[int], p: Params) -> tuple[int, ...]:
    counts = []
    for n, w, s, lo, hi, b, a in zip(shape, *p.values(), strict=True):
        whole = (max(n - 1, -1) * b + 1 if n else 0) + lo + hi
        counts.append(len(range(0, whole - (w - 1) * a, s)))
    return tuple(counts)


def _window(shape: Sequence[int], p: Params, index: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The operand's elements in a window, in order."""
    lines = []
    for d, i in enumerate(index):
        places = [
            i * p["window_strides"][d] + k * p["window_dilation"][d] - p["padding_low"][d]
            for k in range(p["window_dimensions"][d])
        ]
        base, whole = p["base_dilation"][d], shape[d]
        lines.append([q // base for q in places if q % base == 0 and 0 <= q // base < whole])
    return itertools.product(*lines)


def _each(x: np.ndarray, p: Params, line: Callable[[list[Any]], Any], dtype: Any) -> np.ndarray:
    result = np.zeros(_counts(x.shape, p), dtype)
    for index in np.ndindex(*result.shape):
        result[index] = line([(x[place], place) for place in _window(x.shape, p, index)])
    return result


def _sum(x: np.ndarray, p: Params) -> np.ndarray:
    if x.dtype.kind in "iu":
        wide: Any = np.int64 if x.dtype.kind == "i" else np.uint64
    else:
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
    return _each(x.astype(wide), p, lambda line: sum(v for v, _ in line), wide).astype(x.dtype)


def _limit(dtype: np.dtype, sign: int) -> Any:
    if dtype == np.bool_:
        return sign > 0
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min
    return sign * math.inf


def _chosen(line: list[Any], sign: int) -> Any:
    nans = [pair for pair in line if pair[0] != pair[0]]
    if nans:
        return nans[0]
    return max(line, key=lambda pair: sign * float(pair[0])) if line else None


def _extremum(x: np.ndarray, p: Params, sign: int) -> np.ndarray:
    def line(pairs: list[Any]) -> Any:
        found = _chosen(pairs, sign)
        return _limit(x.dtype, -sign) if found is None else found[0]

    return _each(x, p, line, x.dtype)


def _place(x: np.ndarray, p: Params, sign: int) -> np.ndarray:
    def line(pairs: list[Any]) -> int:
        found = _chosen(pairs, sign)
        return x.size if found is None else int(np.ravel_multi_index(found[1], x.shape))

    return _each(x, p, line, np.int32)


def _distinct(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    values = rng.permutation(math.prod(shape)).reshape(shape)
    return values.astype(dtype) if dtype.kind in "biu" else (values / 4.0 - 2.0).astype(dtype)


# label, shape, parameters
_WINDOWS: list[tuple[str, tuple[int, ...], Params]] = [
    ("matrix", (5, 6), _params((2, 3), low=(1, 0), high=(0, 1))),
    ("strides", (2, 7), _params((1, 3), (1, 2), (0, 1), (0, 1))),
    ("dilations", (4, 5), _params((2, 2), (2, 1), (1, 2), (1, 0), (2, 1), (1, 3))),
    ("long", (23,), _params((11,), low=(4,), high=(6,))),
    ("very long", (2, 90), _params((1, 70), (1, 3), (0, 20), (0, 11))),
    ("cut off", (9,), _params((3,), (2,), (-2,), (-1,))),
    ("pooling", (1, 4, 4, 2), _params((1, 2, 2, 1), (1, 2, 2, 1))),
    ("window too large", (3,), _params((5,))),
    ("no elements", (0, 3), _params((1, 2))),
    ("padding only", (2,), _params((2,), (2,), (4,), (0,))),
    ("scalar", (), _params(())),
]

_REFERENCES: dict[str, tuple[Callable[..., np.ndarray], str]] = {
    "reduce_window_sum": (_sum, f"{INTEGER} {FLOATING} c64 c128"),
    "reduce_window_max": (functools.partial(_extremum, sign=1), f"bool {INTEGER} {FLOATING}"),
    "reduce_window_min": (functools.partial(_extremum, sign=-1), f"bool {INTEGER} {FLOATING}"),
    "window_argmax": (functools.partial(_place, sign=1), f"bool {INTEGER} {FLOATING}"),
    "window_argmin": (functools.partial(_place, sign=-1), f"bool {INTEGER} {FLOATING}"),
}


def _rows(op: str) -> list[Row]:
    reference, every = _REFERENCES[op]
    places = op.startswith("window_arg")
    rows = []
    for i, (label, shape, params) in enumerate(_WINDOWS):
        draw = None if op == "reduce_window_sum" else _distinct
        dtypes = "f32 f64 c128" if op == "reduce_window_sum" else "f32 f64"
        rows.append(
            Row(
                op,
                (Operand(shape, low=-9, high=9, draw=None if i == 0 and places else draw),),
                functools.partial(reference, p=params),
                dict(params),
                dtypes=every if i == 0 else dtypes,
                differentiable=() if places or (draw and label == "padding only") else (0,),
                ulps=8.0 if op == "reduce_window_sum" else 0.0,
                label=label,
            )
        )
    if op != "reduce_window_sum":
        params = _params((3,), low=(2,))
        values = (1.0, math.nan, 0.0, -math.inf, -math.inf, -math.inf, math.inf, 2.0, 2.0, math.nan)
        rows.append(
            Row(
                op,
                (Operand((10,), values=values),),
                functools.partial(reference, p=params),
                dict(params),
                dtypes=FLOATING,
                ulps=0.0,
                label="special values",
            )
        )
    return rows


ROWS: list[Row] = [row for op in _REFERENCES for row in _rows(op)]
