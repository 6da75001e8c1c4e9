"""Adapters that give NumPy functions the dtypes and the precision of the dialect's ops."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

Function = Callable[..., np.ndarray]


def same_dtype(function: Function) -> Function:
    """Convert the result of a function to the dtype of the first operand.

    NumPy widens 4-bit integers. Integer casts wrap, so narrowing the result is exact.
    """

    @wraps(function)
    def evaluate(x: np.ndarray, *others: np.ndarray) -> np.ndarray:
        result = function(x, *others)
        return result if result.dtype == x.dtype else result.astype(x.dtype)

    return evaluate


def from_parts(real: np.ndarray, imaginary: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Complex numbers from their parts, exact for nan and infinity, unlike ``x + 1j * y``."""
    result = np.empty(real.shape, dtype)
    result.real, result.imag = real, imaginary
    return result


def _through(wide: np.dtype) -> Callable[[Function], Function]:
    def through(function: Function) -> Function:
        @wraps(function)
        def evaluate(*operands: np.ndarray) -> np.ndarray:
            dtype = operands[0].dtype
            if dtype.itemsize >= wide.itemsize:
                return function(*operands)
            return function(*(x.astype(wide) for x in operands)).astype(dtype)

        return evaluate

    return through


# Decorators that compute a composite real function in a wider dtype and round once.
through_f32 = _through(np.dtype(np.float32))
through_f64 = _through(np.dtype(np.float64))


# Up to this size, copies are cheaper than NumPy's buffered conversion, which has setup costs.
_IN_ONE_PIECE = 4096


def of_f32_in_f64(function: Any) -> Function:
    """Wrap a NumPy ufunc to compute f32 in f64.

    On processors with AVX-512, NumPy's own f32 code has errors of up to four units in the last
    place.
    """

    @wraps(function)
    def evaluate(*operands: np.ndarray) -> np.ndarray:
        x = operands[0]
        if x.dtype != np.float32:
            return np.asarray(function(*operands))
        if x.size <= _IN_ONE_PIECE:
            return function(*(o.astype(np.float64) for o in operands)).astype(np.float32)
        out = np.empty(x.shape, np.float32)
        function(*operands, out=out, dtype=np.float64, casting="same_kind")
        return out

    return evaluate
