"""Positions of extrema: the first of equal elements, or the first nan, for each dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.backends.iree.joined import report

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


@pytest.mark.sampled(0.1)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, bool])
def test_first_of_equal_elements(dtype: Any) -> None:
    cases = [
        (name, shape, axis)
        for name in ("argmax", "argmin")
        for shape in ((37, 17), (5, 64, 3), (1, 1), (0, 4), (4097,))
        for axis in range(len(shape))
        if shape[axis]
    ]
    # Each has an argument of its own, so that the compiler shares nothing among them.
    arguments = [numbers(shape, dtype) for _, shape, _ in cases]

    @gn.jit
    def positions(arguments: list[Any]) -> list[Any]:
        return [
            getattr(gnp, name)(x, axis) for (name, _, axis), x in zip(cases, arguments, strict=True)
        ]

    problems = {}
    with gn.enable_x64(True):
        results = positions(arguments)
    for case, x, found in zip(cases, arguments, results, strict=True):
        name, _, axis = case
        # NumPy's functions of bfloat16 do not know nan.
        expected = getattr(np, name)(x.astype(np.float64) if dtype in FLOATS else x, axis)
        try:
            np.testing.assert_array_equal(np.asarray(found), expected)
        except AssertionError as error:
            problems[str(case)] = str(error)
    report(problems)


def test_rows_of_one_number() -> None:
    program = gn.jit(lambda x, y: (gnp.argmax(x, 1), gnp.argmin(y, 1)))
    for fill in (np.nan, np.inf, -np.inf):
        x = np.full((3, 50), fill, np.float32)
        for found in program(x, x.copy()):
            np.testing.assert_array_equal(found, [0, 0, 0], str(fill))


def test_narrow_positions() -> None:
    """The last position of an axis may be the highest number of its dtype."""
    dtypes = [np.dtype(name) for name in ("int8", "uint8", "int16", "int32")]
    arrays = []
    for dtype in dtypes:
        size = min(int(np.iinfo(dtype).max) + 1, 1000)
        x = np.zeros((2, size), np.float32)
        x[0, -1], x[1, :] = 1.0, np.nan
        arrays.append(x)

    @gn.jit
    def positions(arrays: list[Any]) -> list[Any]:
        return [lax.argmax(x, 1, dtype) for x, dtype in zip(arrays, dtypes, strict=True)]

    for x, dtype, found in zip(arrays, dtypes, positions(arrays), strict=True):
        assert found.dtype == dtype
        np.testing.assert_array_equal(np.asarray(found), [x.shape[1] - 1, 0], str(dtype))


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
