"""Booleans whose bytes are 0 or 1, as compiled code expects."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["zero_or_one"]

# Up to this size, a scan of the bytes in Python's `bytes` is faster than a reduction of NumPy.
_FEW = 256


def zero_or_one(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array whose booleans are stored as 0 or 1; the array itself if it needs no change.

    NumPy takes every byte but 0 for true, so a view of a buffer or a mask from a file may hold
    other bytes. Compiled code reads one bit of them, or adds them up.
    """
    if array.dtype.kind != "b":
        return array
    if array.size <= _FEW:
        if not array.tobytes().translate(None, b"\0\1"):
            return array
    elif array.view(np.uint8).max() <= 1:
        return array
    return np.asarray(np.not_equal(array.view(np.uint8), 0))
