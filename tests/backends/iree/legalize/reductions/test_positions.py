"""Positions of extrema: the first of equal elements, or the first nan, for each dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax

RNG = np.random.default_rng(0)
FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]


def numbers(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Numbers of which many are equal, and many of floats are special."""
    if dtype in FLOATS:
        return RNG.choice(SPECIAL, shape).astype(dtype)
    if dtype is bool:
        return RNG.random(shape) < 0.1
    info = np.iinfo(dtype)
    return RNG.choice(np.array([info.min, info.max, 0, 1, 5], dtype), shape)


@pytest.mark.parametrize("function", [gnp.argmax, gnp.argmin])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, bool])
def test_first_of_equal_elements(function: Any, dtype: Any) -> None:
    expected = getattr(np, function.__name__)
    with gn.enable_x64(True):
        for shape in ((37, 17), (5, 64, 3), (1, 1), (0, 4), (4097,)):
            x = numbers(shape, dtype)
            for axis in range(len(shape)):
                if shape[axis] == 0:
                    continue
                found = gn.jit(lambda x, a=axis: function(x, a))(x)
                # NumPy's functions of bfloat16 do not know nan.
                oracle = expected(x.astype(np.float64) if dtype in FLOATS else x, axis)
                np.testing.assert_array_equal(np.asarray(found), oracle)


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf])
def test_rows_of_one_number(fill: float) -> None:
    x = np.full((3, 50), fill, np.float32)
    for function in (gnp.argmax, gnp.argmin):
        np.testing.assert_array_equal(gn.jit(lambda x, f=function: f(x, 1))(x), [0, 0, 0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32])
def test_narrow_positions(dtype: Any) -> None:
    """The last position of an axis may be the highest number of its dtype."""
    size = min(int(np.iinfo(dtype).max) + 1, 1000)
    x = np.zeros((2, size), np.float32)
    x[0, -1], x[1, :] = 1.0, np.nan
    found = gn.jit(lambda x: lax.argmax(x, 1, dtype))(x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(np.asarray(found), [size - 1, 0])


def test_in_loops_and_under_vmap() -> None:
    x = RNG.choice(SPECIAL[1:], (4, 6, 9)).astype(np.float32)

    def f(x: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            return c + gnp.argmin(row), gnp.argmax(row)

        return lax.scan(step, gnp.argmax(x[:, 0]), x)

    for found, expected in zip(
        gn.tree.leaves(gn.jit(gn.vmap(f))(x)),
        gn.tree.leaves(gn.vmap(f)(gnp.asarray(x))),
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
