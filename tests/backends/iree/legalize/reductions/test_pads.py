"""Pads of pads, such as the transposes of slices of strided views."""

from __future__ import annotations

from typing import Any

import numpy as np

import gnomon
import gnomon.numpy as gnp
from gnomon import lax
from tests.backends.iree.joined import Call, check_joined

X = np.arange(1, 4, dtype=np.float32)
# (low, high, interior) of the inner pad and of the outer one.
PADS = [
    ((1, 0, 0), (0, 0, 1)),
    ((0, 2, 0), (0, 0, 2)),
    ((2, 1, 1), (1, 2, 1)),
    ((1, 0, 2), (-1, -1, 3)),
    ((-1, 2, 0), (1, 0, 1)),
    ((2, -1, 1), (0, 1, 2)),
    ((0, 0, 1), (0, 1, 0)),
    ((1, 2, 2), (-1, 1, 0)),
    ((-1, 0, 1), (1, 1, 0)),
]


def test_pads_of_pads() -> None:
    calls: dict[str, Call] = {}
    for inner, outer in PADS:
        for fills in ((0, 0), (3, 3), (3, 0)):
            first, second = (np.float32(fill) for fill in fills)

            def padded(
                x: Any, a: Any = first, b: Any = second, inner: Any = inner, outer: Any = outer
            ) -> Any:
                return lax.pad(lax.pad(x, a, [inner]), b, [outer])

            calls[f"{inner} in {outer}, filled with {fills}"] = padded, (X,)
    check_joined(calls)


def test_gradients_of_slices_of_strided_views() -> None:
    def f(x: Any) -> Any:
        return gnp.sum(x[::-2][1:])

    x = np.ones(5, np.float32)
    np.testing.assert_array_equal(gnomon.jit(gnomon.grad(f))(x), gnomon.grad(f)(x))
    np.testing.assert_array_equal(gnomon.grad(f)(x), [1, 0, 1, 0, 0])


def test_columns_of_rows_with_gaps() -> None:
    """Gaps along one axis and edges along the other, with and without barriers between them."""
    zero = np.float32(0)

    def f(x: Any) -> list[Any]:
        spread = lax.pad(x, zero, [(0, 0, 1), (0, 0, 0)])
        edges = [(0, 0, 0), (0, 1, 0)]
        return [
            lax.pad(spread, zero, edges),
            lax.pad(lax.optimization_barrier(spread), zero, edges),
            gnomon.grad(lambda p: gnp.sum(gnp.sin(p[..., :1][::2])))(x),
        ]

    for x in (np.ones((3, 2), np.float32), np.ones((2, 1), np.float32)):
        for found, expected in zip(gnomon.jit(f)(x), f(gnp.asarray(x)), strict=True):
            np.testing.assert_array_equal(found, expected)
