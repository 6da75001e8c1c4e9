"""Reductions of values in host memory, by one or a few calls of NumPy where those are all it takes.

Each function returns None where the general way has to be taken: for other dtypes, arguments that
need care or are wrong, and everything that is traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from gnomon import _dtypes
from gnomon._array import Array, ConcreteArray, wrap
from gnomon._quiet import quiet
from gnomon._tracing import staging
from gnomon.dialects.types import BOOL

_Compute = Callable[..., Any]

_FLOATS = frozenset((np.dtype("float32"), np.dtype("float64")))
_SUMMED = _FLOATS | {np.dtype("complex64"), np.dtype("complex128")}
_INT32 = np.dtype("int32")
_ORDERED = _FLOATS | {np.dtype(code) for code in "bhilqBHILQ"} | {BOOL}


def _reduced(
    compute: _Compute,
    dtypes: Collection[np.dtype[Any]],
    x: ConcreteArray,
    axis: Any,
    keepdims: Any,
    weak: bool,
    *more: Any,
) -> Array | None:
    value = x._value
    if value is None or value.dtype not in dtypes or staging():
        return None
    if not (axis is None or type(axis) is int or type(axis) is tuple) or type(keepdims) is not bool:
        return None
    if axis is not None and value.ndim == 0:
        return None  # NumPy gives rank 0 a dimension.
    try:
        result = quiet.run(compute, value, axis, keepdims, *more)
    except (RuntimeError, TypeError, ValueError):
        return None  # The general way explains what is wrong.
    return wrap(result if type(result) is np.ndarray else np.asarray(result), weak)


# ----------------------------------------------------------------------------- sums and their like


def _accumulated(
    value: np.ndarray[Any, Any], axis: Any, keepdims: bool, ufunc: np.ufunc, dtype: Any
) -> Any:
    return ufunc.reduce(value, axis, dtype, None, keepdims)


def accumulated(ufunc: np.ufunc, x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """A sum or product: real and complex numbers, and integers of 32 bits and bools as well."""
    value = x._value
    if value is None:
        return None
    dtype = value.dtype
    if dtype in _SUMMED:
        return _reduced(_accumulated, _SUMMED, x, axis, keepdims, False, ufunc, dtype)
    if dtype is _INT32 or dtype is BOOL:
        wanted = _dtypes.default_int_dtype()
        return _reduced(_accumulated, (dtype,), x, axis, keepdims, False, ufunc, wanted)
    return None


def _mean(value: np.ndarray[Any, Any], axis: Any, keepdims: bool) -> Any:
    total = np.add.reduce(value, axis, None, None, keepdims)
    count = value.size // total.size if total.size else 0
    return np.true_divide(total, value.dtype.type(count))


def mean(x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """The mean of floating-point numbers."""
    return _reduced(_mean, _FLOATS, x, axis, keepdims, False)


def _variance(value: np.ndarray[Any, Any], axis: Any, keepdims: bool, ddof: float) -> Any:
    centered = value - _mean(value, axis, True)
    total = np.add.reduce(centered * centered, axis, None, None, keepdims)
    count = (value.size // total.size if total.size else 0) - ddof
    return np.true_divide(total, value.dtype.type(count if count > 0 else math.nan))


def variance(x: ConcreteArray, axis: Any, keepdims: Any, ddof: Any) -> Array | None:
    """The variance of floating-point numbers."""
    if type(ddof) is not int and type(ddof) is not float:
        return None
    return _reduced(_variance, _FLOATS, x, axis, keepdims, False, ddof)


# ------------------------------------------------------------------------------ extrema, and truth


def _largest(value: np.ndarray[Any, Any], axis: Any, keepdims: bool) -> Any:
    return np.maximum.reduce(value, axis, None, None, keepdims)


def _smallest(value: np.ndarray[Any, Any], axis: Any, keepdims: bool) -> Any:
    return np.minimum.reduce(value, axis, None, None, keepdims)


def _any(value: np.ndarray[Any, Any], axis: Any, keepdims: bool) -> Any:
    return np.logical_or.reduce(value, axis, None, None, keepdims)


def _all(value: np.ndarray[Any, Any], axis: Any, keepdims: bool) -> Any:
    return np.logical_and.reduce(value, axis, None, None, keepdims)


def largest(x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """The largest real number."""
    return _reduced(_largest, _ORDERED, x, axis, keepdims, x.weak_type)


def smallest(x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """The smallest real number."""
    return _reduced(_smallest, _ORDERED, x, axis, keepdims, x.weak_type)


def any_true(x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """Whether a real number is not zero."""
    return _reduced(_any, _ORDERED, x, axis, keepdims, False)


def all_true(x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """Whether all real numbers are not zero."""
    return _reduced(_all, _ORDERED, x, axis, keepdims, False)


# --------------------------------------------------------------------------------------- positions


def _position(
    value: np.ndarray[Any, Any], axis: int | None, keepdims: bool, method: Any, dtype: Any
) -> Any:
    return np.asarray(method(value, axis, keepdims=keepdims), dtype)


def position(method: Any, x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """The place of an extreme real number, by one of the methods of `numpy.ndarray`."""
    if type(axis) is tuple:
        return None
    dtype = _dtypes.default_int_dtype()
    return _reduced(_position, _ORDERED, x, axis, bool(keepdims), False, method, dtype)
