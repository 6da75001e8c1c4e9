"""Adapters that give NumPy's functions the dtypes and the precision of the dialect's ops."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

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


# A composite function of real numbers, computed in a wider dtype and rounded once.
through_f32 = _through(np.dtype(np.float32))
through_f64 = _through(np.dtype(np.float64))


# Up to here copies are cheaper than NumPy's conversion in pieces, which takes time to start.
_IN_ONE_PIECE = 4096


def of_f32_in_f64(function: Any) -> Function:
    """One of NumPy's ufuncs; f32 is computed in f64.

    Where a processor has AVX-512, NumPy's own code for f32 is off by up to four units in the last
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
