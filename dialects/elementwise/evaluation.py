"""Adapters that give NumPy's functions the dtypes and the precision of the dialect's ops."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

Function = Callable[..., np.ndarray]


def same_dtype(function: Function) -> Function:
    """The function with the result in the dtype of the first operand.

    NumPy widens the four-bit integers; integer casts wrap, so narrowing afterwards is exact.
    """

    @wraps(function)
    def evaluate(x: np.ndarray, *others: np.ndarray) -> np.ndarray:
        result = function(x, *others)
        return result if result.dtype == x.dtype else result.astype(x.dtype)

    return evaluate


def from_parts(real: np.ndarray, imaginary: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Complex numbers from their parts, whatever the parts are (``x + 1j * y`` is not exact)."""
    result = np.empty(real.shape, dtype)
    result.real, result.imag = real, imaginary
    return result


def through_f32(function: Function) -> Function:
    """A composite function, computed in f32 where the dtype is narrower and rounded once."""

    @wraps(function)
    def evaluate(*operands: np.ndarray) -> np.ndarray:
        dtype = operands[0].dtype
        if dtype.itemsize >= 4:
            return function(*operands)
        return function(*(x.astype(np.float32) for x in operands)).astype(dtype)

    return evaluate
