"""Reductions of values in host memory by one or a few calls of NumPy.

Each function returns None if the general path is needed: for other dtypes, for special or wrong
arguments, and for traced values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, wrap
from gnomon._diagnostics.quiet import quiet
from gnomon._tracing.stack import needs_bind
from gnomon.dialects import extrema
from gnomon.dialects.pairwise import reduce_sum
from gnomon.dialects.types import BOOL

_Compute = Callable[..., Any]

_Dtypes = frozenset[np.dtype[Any]]

_FLOATS: _Dtypes = frozenset(np.dtype(code) for code in "fd")
_SUMMED: _Dtypes = frozenset(np.dtype(code) for code in "fdFD")
_ORDERED: _Dtypes = frozenset(np.dtype(code) for code in "fdbhilqBHILQ?")
_INT32 = np.dtype("int32")
_INT32_MAX = 2**31 - 1
# NumPy widens these piece by piece; the general path would widen the whole array.
_NARROW_INTEGERS: _Dtypes = frozenset(np.dtype(code) for code in "bhBH")

# NumPy's type stubs do not accept a keepdims whose value is known only at run time.
_maximum: Any = extrema.reduce_maximum
_minimum: Any = extrema.reduce_minimum
_or: Any = np.logical_or.reduce
_and: Any = np.logical_and.reduce


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
    if value is None or value.dtype not in dtypes or needs_bind():
        return None
    if not (axis is None or type(axis) is int or type(axis) is tuple) or type(keepdims) is not bool:
        return None
    if axis is not None and value.ndim == 0:
        return None  # NumPy accepts an axis for a 0-d array.
    try:
        result = quiet.run(compute, value, axis, keepdims, *more)
    except (RuntimeError, TypeError, ValueError):
        return None  # The general path raises the error.
    return wrap(result if type(result) is np.ndarray else np.asarray(result), weak)


# ------------------------------------------------------------------------------- sums and products


def _accumulated(
    value: np.ndarray[Any, Any], axis: Any, keepdims: bool, reduce: Any, dtype: Any
) -> Any:
    return reduce(value, axis, dtype, keepdims=keepdims)


def accumulated(reduce: Any, x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """A sum or product of real or complex numbers, integers of at most 32 bits or bools."""
    value = x._value
    if value is None:
        return None
    dtype = value.dtype
    if dtype in _SUMMED:
        return _reduced(_accumulated, _SUMMED, x, axis, keepdims, False, reduce, dtype)
    if dtype is _INT32 or dtype is BOOL or dtype in _NARROW_INTEGERS:
        signed = dtype.kind != "u"
        wanted = _dtypes.default_int_dtype() if signed else _dtypes.default_uint_dtype()
        return _reduced(_accumulated, (dtype,), x, axis, keepdims, False, reduce, wanted)
    return None


def _mean(value: np.ndarray[Any, Any], axis: Any, keepdims: bool) -> Any:
    total = reduce_sum(value, axis, None, keepdims)
    count = value.size // total.size if total.size else 0
    return np.true_divide(total, value.dtype.type(count))


def mean(x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """The mean of floating-point numbers."""
    return _reduced(_mean, _FLOATS, x, axis, keepdims, False)


def _variance(value: np.ndarray[Any, Any], axis: Any, keepdims: bool, ddof: float) -> Any:
    centered = value - _mean(value, axis, True)
    total = reduce_sum(centered * centered, axis, None, keepdims)
    count = (value.size // total.size if total.size else 0) - ddof
    return np.true_divide(total, value.dtype.type(count if count > 0 else math.nan))


def variance(x: ConcreteArray, axis: Any, keepdims: Any, ddof: Any) -> Array | None:
    """The variance of floating-point numbers."""
    if type(ddof) is not int and type(ddof) is not float:
        return None
    return _reduced(_variance, _FLOATS, x, axis, keepdims, False, ddof)


# ------------------------------------------------------------------------------ extrema, and truth


def _folded(value: np.ndarray[Any, Any], axis: Any, keepdims: bool, reduce: Any) -> Any:
    return reduce(value, axis, None, None, keepdims)


def largest(x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """The largest real number."""
    return _reduced(_folded, _ORDERED, x, axis, keepdims, False, _maximum)


def smallest(x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """The smallest real number."""
    return _reduced(_folded, _ORDERED, x, axis, keepdims, False, _minimum)


def any_true(x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """Whether at least one real number is not zero."""
    return _reduced(_folded, _ORDERED, x, axis, keepdims, False, _or)


def all_true(x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """Whether no real number is zero."""
    return _reduced(_folded, _ORDERED, x, axis, keepdims, False, _and)


# --------------------------------------------------------------------------------------- positions


def _position(
    value: np.ndarray[Any, Any], axis: int | None, keepdims: bool, method: Any, dtype: Any
) -> Any:
    return np.asarray(method(value, axis, keepdims=keepdims), dtype)


def position(method: Any, x: ConcreteArray, axis: Any, keepdims: Any) -> Array | None:
    """The index of the largest or smallest real number, by a method of `numpy.ndarray`."""
    if type(axis) is tuple:
        return None
    dtype = _dtypes.default_int_dtype()
    if x.size > _INT32_MAX and dtype is _INT32:
        return None  # The general path raises the error if the index does not fit.
    return _reduced(_position, _ORDERED, x, axis, bool(keepdims), False, method, dtype)
