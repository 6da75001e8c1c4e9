"""Rows of the op table: sort and top_k. The references sort lists of Python numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.ops.row import Operand, Row

INTEGER = "i2 i4 i8 i16 i32 i64 u2 u4 u8 u16 u32 u64"
FLOATING = "f16 bf16 f32 f64 f8_e3m4 f8_e4m3fn f8_e5m2 f8_e5m2fnuz"
SPECIAL = (0.0, -0.0, math.nan, math.inf, -math.inf, 0.0, -0.0, math.nan, 1.0)


def _key(value: Any) -> Any:
    """A sort key for Python: nan last, zeros equal, complex numbers by parts."""
    if value.dtype.kind == "c":
        return (_key(value.real), _key(value.imag))
    number = float(value) if value.dtype.itemsize < 8 or value.dtype.kind == "f" else int(value)
    return (number != number, 0 if number != number else number)


def _lines(x: np.ndarray, dimension: int) -> np.ndarray:
    return np.moveaxis(x, dimension, -1)


def _sorted(*operands: np.ndarray, dimension: int, num_keys: int) -> list[np.ndarray]:
    results = [np.array(x) for x in operands]
    given = [_lines(x, dimension) for x in operands]
    wanted = [_lines(x, dimension) for x in results]
    for index in np.ndindex(*given[0].shape[:-1]):
        rows = [x[index] for x in given]
        keys = rows[:num_keys]
        order = sorted(range(len(rows[0])), key=lambda i: [_key(k[i]) for k in keys])
        for row, out in zip(rows, wanted, strict=True):
            out[index] = row[order]
    return results


def _ties(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "c":
        return (rng.integers(0, 3, shape) + 1j * rng.integers(0, 3, shape)).astype(dtype)
    return rng.integers(0, 4, shape).astype(dtype)


def _distinct(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    values = rng.permutation(math.prod(shape)).reshape(shape) / 4.0 - 2.0
    return (values * (1 + 1j) if dtype.kind == "c" else values).astype(dtype)


def _row(
    operands: Sequence[Operand],
    label: str,
    dtypes: str,
    *,
    dimension: int = 0,
    num_keys: int = 1,
    differentiable: bool = False,
) -> Row:
    return Row(
        "sort",
        tuple(operands),
        functools.partial(_sorted, dimension=dimension, num_keys=num_keys),
        {"dimension": dimension, "num_keys": num_keys, "is_stable": True},
        dtypes=dtypes,
        differentiable=tuple(range(len(operands))) if differentiable else (),
        ulps=0.0,
        label=label,
    )


_POSITIONS = np.dtype(np.int32)


def _positions(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.arange(math.prod(shape), dtype=dtype).reshape(shape)


def _place(shape: tuple[int, ...]) -> Operand:
    return Operand(shape, dtype=_POSITIONS, draw=_positions)


_SORTS = [
    _row(
        [Operand((9, 2), draw=_ties), _place((9, 2))],
        "ties",
        f"bool {INTEGER} {FLOATING} c64 c128",
    ),
    _row([Operand((3, 7), low=-100, high=100)], "rows", f"{INTEGER} {FLOATING}", dimension=1),
    _row([Operand((11,), values=SPECIAL), _place((11,))], "special values", "f16 bf16 f32 f64"),
    _row([Operand((11,), values=SPECIAL)], "special values alone", "f16 bf16 f32 f64"),
    _row(
        [Operand((2, 8, 2), draw=_ties), Operand((2, 8, 2), draw=_ties), _place((2, 8, 2))],
        "two keys",
        "f32 i32 c64",
        dimension=1,
        num_keys=2,
    ),
    _row([Operand((70,), draw=_ties), _place((70,))], "many", "f32 u32 i64"),
    _row(
        [Operand((3, 4), draw=_distinct), Operand((3, 4))],
        "differentiated",
        "f32 f64 c128",
        dimension=1,
        differentiable=True,
    ),
    _row([Operand((1, 3)), Operand((1, 3))], "one element", "f32 f64", differentiable=True),
    _row([Operand((0, 3)), Operand((0, 3))], "no elements", "f32 f64", differentiable=True),
]


def _largest(x: np.ndarray, k: int, axis: int) -> tuple[np.ndarray, np.ndarray]:
    shape = [k if d == axis else n for d, n in enumerate(x.shape)]
    values, places = np.zeros(shape, x.dtype), np.zeros(shape, np.int32)
    lines, v, p = _lines(x, axis), _lines(values, axis), _lines(places, axis)

    def key(number: Any) -> Any:
        as_float = float(number)
        # The sign of a zero counts.
        return (_key(number), math.copysign(1.0, as_float) if as_float == 0 else 0.0)

    for index in np.ndindex(*lines.shape[:-1]):
        line = lines[index]
        # Sorting is stable in reverse too: equal elements keep their order.
        order = sorted(range(len(line)), key=lambda i: key(line[i]), reverse=True)[:k]
        v[index], p[index] = line[order], order
    return values, places


def _top_k_row(
    shape: tuple[int, ...], k: int, axis: int, dtypes: str, label: str, **operand: Any
) -> Row:
    return Row(
        "top_k",
        (Operand(shape, **operand),),
        functools.partial(_largest, k=k, axis=axis),
        {"k": k, "axis": axis},
        dtypes=dtypes,
        differentiable=(0,) if operand.get("draw") is _distinct else (),
        ulps=0.0,
        label=label,
    )


_TOP_KS = [
    _top_k_row((3, 9), 4, 1, f"bool {INTEGER} {FLOATING}", "ties", draw=_ties),
    _top_k_row((10,), 10, 0, "f16 bf16 f32 f64", "special values", values=SPECIAL),
    _top_k_row((50, 2), 3, 0, "f32 i32 u32", "columns", low=-20, high=20),
    _top_k_row((4, 3), 2, 0, "f32 f64", "differentiated", draw=_distinct),
    _top_k_row((4,), 0, 0, "f32 f64", "none", draw=_distinct),
    _top_k_row((0, 4), 2, 1, "f32", "no rows"),
]

ROWS: list[Row] = [*_SORTS, *_TOP_KS]
