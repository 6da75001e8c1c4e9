"""Sums in blocks equal NumPy's in value, shape and dtype, for every layout and set of axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gnomon.dialects import pairwise


def _array(rng: np.random.Generator) -> np.ndarray:
    """A random array or view: transposed, strided, reversed or broadcast."""
    rank = int(rng.integers(0, 5))
    shape = [int(n) for n in rng.choice([0, 1, 2, 3, 5, 17, 33, 130], rank)]
    x = rng.normal(size=shape).transpose(rng.permutation(rank))
    if rng.random() < 0.4:
        x = x[tuple(slice(None, None, int(step)) for step in rng.choice([1, -1, 2], rank))]
    return np.broadcast_to(x, (33, *x.shape)) if rng.random() < 0.2 else x


def test_sums_of_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairwise, "_FEW_ROWS", 20)
    rng = np.random.default_rng(0)
    for _ in range(400):
        x = _array(rng)
        if x.size > 200_000:
            continue
        x = x.astype(rng.choice(["f8", "c16", "i4"]))
        chosen = rng.permutation(x.ndim)[: int(rng.integers(0, x.ndim + 1))]
        axes: Any = tuple(int(d) for d in chosen) if rng.random() < 0.8 else None
        keepdims = bool(rng.random() < 0.3)
        found = pairwise.reduce_sum(x, axes, None, keepdims)
        expected = np.sum(x, axes, x.dtype if x.dtype.kind != "i" else None, keepdims=keepdims)
        assert np.shape(found) == np.shape(expected)
        assert np.asarray(found).dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        for axis in range(x.ndim):
            scanned = pairwise.accumulate(np.add, x, axis)
            assert scanned.dtype == x.dtype
            np.testing.assert_allclose(scanned, np.cumsum(x, axis, x.dtype), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("axes", [(0, 0), 5, (0, -2)])
def test_wrong_axes_raise_numpys_error(axes: Any) -> None:
    with pytest.raises(ValueError, match=r"axis|duplicate"):
        pairwise.reduce_sum(np.ones((700, 3), np.float32), axes)


def test_products_in_pieces() -> None:
    rng = np.random.default_rng(0)
    shapes = [
        ((7000,), (7000,)),
        ((3, 7000), (7000,)),
        ((7000,), (7000, 2)),
        ((3, 7000), (7000, 2)),
    ]
    for lhs, rhs in shapes:
        a, b = rng.normal(size=lhs), rng.normal(size=rhs)
        found = pairwise.multiply_in_pieces(np.ndarray.dot, 0, 512, a, b)
        np.testing.assert_allclose(found, a @ b, rtol=1e-9, atol=1e-9)
    a, b = rng.normal(size=(4, 3, 7000)), rng.normal(size=(4, 7000, 2))
    found = pairwise.multiply_in_pieces(np.matmul, 1, 512, a, b)
    np.testing.assert_allclose(found, a @ b, rtol=1e-9, atol=1e-9)
