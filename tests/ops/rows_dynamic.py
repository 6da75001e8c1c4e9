"""Rows of the op table: slices at computed positions."""

from __future__ import annotations

import itertools

import numpy as np

from tests.ops.row import Operand, Row
from tests.ops.rows_structural import ALL, placed


def _at(index: int, low: int | None = None) -> Operand:
    """An index operand: around ``index``, or from ``low`` up to it."""
    return Operand((), low=index if low is None else low, high=index, dtype=np.int32)


def _starts(
    shape: tuple[int, ...], sizes: tuple[int, ...], indices: tuple[np.ndarray, ...]
) -> list[int]:
    return [
        sorted((0, int(i), n - size))[1] for i, n, size in zip(indices, shape, sizes, strict=True)
    ]


def _slice(
    shape: tuple[int, ...], indices: tuple[Operand, ...], sizes: tuple[int, ...], label: str
) -> Row:
    def reference(x: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        starts = _starts(x.shape, sizes, indices)
        return placed(
            sizes,
            x.dtype,
            lambda *index: x[tuple(a + i for a, i in zip(starts, index, strict=True))],
        )

    return Row(
        "dynamic_slice",
        (Operand(shape), *indices),
        reference,
        {"sizes": sizes},
        dtypes=ALL if label == "vector" else "f32 f64",
        differentiable=(0,),
        label=label,
    )


def _update(
    shape: tuple[int, ...], indices: tuple[Operand, ...], sizes: tuple[int, ...], label: str
) -> Row:
    def reference(x: np.ndarray, update: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        starts = _starts(x.shape, sizes, indices)

        def element(*index: int) -> object:
            inside = tuple(i - a for a, i in zip(starts, index, strict=True))
            within = all(0 <= i < n for i, n in zip(inside, sizes, strict=True))
            return update[inside] if within else x[index]

        return placed(x.shape, x.dtype, element)

    return Row(
        "dynamic_update_slice",
        (Operand(shape), Operand(sizes), *indices),
        reference,
        dtypes=ALL if label == "vector" else "f32 f64",
        differentiable=(0, 1),
        label=label,
    )


_CASES: tuple[tuple[tuple[int, ...], tuple[Operand, ...], tuple[int, ...], str], ...] = (
    ((6,), (_at(4, 0),), (3,), "vector"),
    ((6,), (_at(9),), (2,), "beyond the end"),
    ((6,), (_at(-4),), (2,), "before the start"),
    ((4, 5), (_at(3, 0), _at(5, -2)), (2, 3), "matrix"),
    ((2, 3, 4), (_at(1, 0), _at(0), _at(4, 0)), (1, 3, 2), "rank 3"),
    ((), (), (), "rank 0"),
    ((3, 0), (_at(1), _at(0)), (2, 0), "no elements"),
    ((4,), (_at(2),), (0,), "empty slice"),
    ((4,), (_at(1),), (4,), "whole"),
    ((300,), (Operand((), low=100, high=127, dtype=np.int8),), (250,), "int8 index"),
    ((6,), (Operand((), low=3, high=4, dtype=np.uint32),), (3,), "unsigned index"),
    (
        (6,),
        (Operand((), draw=lambda rng, shape, dtype: np.array(2**32 - 1, np.uint32)),),
        (3,),
        "huge unsigned index",
    ),
    (
        (6,),
        (Operand((), draw=lambda rng, shape, dtype: np.array(-(2**40), np.int64)),),
        (3,),
        "huge negative index",
    ),
)

ROWS: list[Row] = [
    *itertools.starmap(_slice, _CASES),
    *itertools.starmap(_update, _CASES),
]
