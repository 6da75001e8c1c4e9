"""Pads of pads, which the transposes of slices of strided views are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
from gnomon import lax

X = np.arange(1, 4, dtype=np.float32)
# (low, high, interior) of the inner pad and of the outer one.
PADS = [
    ((1, 0, 0), (0, 0, 1)),
    ((0, 2, 0), (0, 0, 2)),
    ((2, 1, 1), (1, 2, 1)),
    ((1, 0, 2), (-1, -1, 3)),
    ((-1, 2, 0), (1, 0, 1)),
    ((2, -1, 1), (0, 1, 2)),
]


@pytest.mark.parametrize(("inner", "outer"), PADS)
@pytest.mark.parametrize("fills", [(0, 0), (3, 3), (3, 0)])
def test_pads_of_pads(inner: Any, outer: Any, fills: tuple[int, int]) -> None:
    first, second = (np.float32(fill) for fill in fills)

    def f(x: Any) -> Any:
        return lax.pad(lax.pad(x, first, [inner]), second, [outer])

    np.testing.assert_array_equal(gnomon.jit(f)(X), f(X))


def test_gradients_of_slices_of_strided_views() -> None:
    def f(x: Any) -> Any:
        return gnp.sum(x[::-2][1:])

    x = np.ones(5, np.float32)
    np.testing.assert_array_equal(gnomon.jit(gnomon.grad(f))(x), gnomon.grad(f)(x))
    np.testing.assert_array_equal(gnomon.grad(f)(x), [1, 0, 1, 0, 0])
