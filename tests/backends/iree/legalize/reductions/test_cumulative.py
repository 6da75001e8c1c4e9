"""Cumulative operations of narrow numbers: each use of a result sees the same rounded number."""

from __future__ import annotations

from typing import Any

import numpy as np

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax

OPERATIONS = (lax.cumsum, lax.cumprod, lax.cumlogsumexp)


def test_all_uses_see_the_same_numbers() -> None:
    """A kernel that both computes a result and uses it reads what others read from memory."""
    x = np.linspace(0.1, 2.5, 24).reshape(3, 8)

    def program(arrays: list[Any]) -> list[Any]:
        results = [
            operation(a, 1, reverse)
            for a in arrays
            for operation in OPERATIONS
            for reverse in (True, False)
        ]
        return [(y, y - y[::-1], y * 3) for y in results]

    arrays = [gnp.asarray(x, dtype) for dtype in ("bfloat16", "float16")]
    for y, difference, scaled in gn.jit(program)(arrays):
        assert not np.asarray(difference[1]).astype(np.float32).any(), y.dtype
        np.testing.assert_array_equal(scaled, y * 3)
