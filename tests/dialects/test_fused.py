"""Evaluation of the fused multiply-add: one rounding, from the exact value."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
from gnomon.dialects.elementwise.fused import fma


def _nearest(exact: Fraction, dtype: np.dtype) -> np.ndarray:
    """The number of a dtype nearest to an exact value; of two, the one with an even mantissa."""
    start = np.asarray(float(exact)).astype(dtype)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    near = [start] + [
        np.asarray(start.view(unsigned) + np.asarray(step, unsigned)).view(dtype)
        for step in (1, np.iinfo(unsigned).max)
    ]
    finite = [x for x in near if np.isfinite(x.astype(np.float64))]
    return min(
        finite,
        key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(unsigned)) & 1),
    )


def _operands(dtype: np.dtype) -> list[np.ndarray]:
    """Products that end near the middle between two numbers, and random ones."""
    eps = float(ml_dtypes.finfo(dtype).eps)
    tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    rng = np.random.default_rng(0)
    x, y, z = rng.standard_normal((3, 300))
    # The error of an f64 product that is nearly 0 is not a number of f64.
    small = [(0.5, tiny, 0.0), (0.5, 3 * tiny, tiny), (3.0, tiny, -tiny)]
    hard = [
        (1.0, 1.0, eps / 2),
        (1 + eps, 1 + eps, 1.0),
        (1 + eps, 1 - eps, 1.0),
        (1 + eps, eps / 2, 1.0),
        (-1 - eps, eps / 2, 1.0),
        (1 + eps, eps / 2, 1 + eps),
        (1 - eps / 2, eps / 4, 1.0),
        *(small if dtype != np.float64 else []),
    ]
    columns = np.array(hard).T
    return [
        np.concatenate(pair).astype(dtype) for pair in zip(columns, (x, y, z * eps), strict=True)
    ]


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_evaluation_rounds_once(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    x, y, z = _operands(dtype)
    with gn.enable_x64(True), np.errstate(all="ignore"):
        actual = fma.evaluate(x, y, z)
    assert actual.dtype == dtype
    for a, b, c, found in zip(x, y, z, actual, strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert float(found) == float(_nearest(exact, dtype)), (a, b, c)
