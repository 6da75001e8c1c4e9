"""Interior padding of an updated array: the update is at the right index."""

from __future__ import annotations

from typing import Any

import numpy as np

import gnomon
import gnomon.numpy as gnp
from gnomon import lax


def test_updates_are_spread_with_their_array() -> None:
    def f(u: Any, i: Any) -> Any:
        rows = lax.dynamic_update_slice(gnp.zeros((3, 7), u.dtype), u, (i, 0))
        columns = lax.dynamic_update_slice(gnp.zeros((7, 3), u.dtype), u.T, (0, i))
        added = gnp.zeros((3, 7), u.dtype).at[i].add(u[0])
        zero = u.dtype.type(0)
        spread = [(0, 0, 1), (0, 0, 0)]
        return (
            lax.pad(rows, zero, spread),
            lax.pad(columns, zero, [(1, 0, 2), (0, 1, 1)]),
            lax.pad(added, zero, spread),
        )

    for dtype in (np.float32, np.uint8):
        u = np.arange(1, 8, dtype=dtype)[None]
        for i in (1, 2):
            expected = f(gnp.asarray(u), np.int32(i))
            for found, value in zip(gnomon.jit(f)(u, np.int32(i)), expected, strict=True):
                np.testing.assert_array_equal(found, value)


def test_updates_are_spread_with_an_array_that_is_padded_before() -> None:
    """The compiler merges the two paddings, and updates the merged result."""

    def f(x: Any, u: Any, i: Any) -> Any:
        updated = lax.dynamic_update_slice(x, u, (i, i))
        framed = lax.pad(updated, x.dtype.type(0), [(1, 1, 0), (0, 2, 0)])
        return lax.pad(framed, x.dtype.type(0), [(0, 0, 1), (0, 0, 1)])

    x, u = np.arange(12, dtype=np.float32).reshape(3, 4), np.full((1, 2), -1, np.float32)
    expected = f(gnp.asarray(x), gnp.asarray(u), np.int32(1))
    np.testing.assert_array_equal(gnomon.jit(f)(x, u, np.int32(1)), expected)


def test_convolutions_and_windows_pad_dilated_operands() -> None:
    zero = np.float32(0)
    image, row = np.ones((1, 1, 3, 2), np.float32), np.ones((1, 3, 2), np.float32)

    def f(x: Any) -> list[Any]:
        spread = lax.pad(x, zero, [(0, 0, 1), (0, 0, 0)])
        turned = lax.pad(x, zero, [(0, 0, 0), (0, 1, 1)]).T
        windows = ((2, 1), (1, 1), ((1, 0), (0, 1)))
        return [
            lax.conv_general_dilated(spread[None, None], image, (1, 1), [(1, 1), (2, 0)]),
            lax.conv_general_dilated(turned[None, :3], row, (1,), [(1, 1)]),
            lax.reduce_window(spread, zero, lax.add, *windows),
            lax.reduce_window(turned, zero, lax.add, *windows),
        ]

    x = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    for found, expected in zip(gnomon.jit(f)(x), f(gnp.asarray(x)), strict=True):
        np.testing.assert_array_equal(found, expected)
