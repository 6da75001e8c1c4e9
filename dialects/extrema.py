"""The largest and smallest of many numbers in NumPy, with 0 above -0.

NumPy's `maximum` and `minimum` return either operand where 0 meets -0: which one depends on the
dtype, the position in the array and the processor. The functions of this module return the zero
that compiled programs return. They call NumPy first, and look only at the bits of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.dialects.types import is_floating

__all__ = [
    "accumulate_maximum",
    "accumulate_minimum",
    "decoded",
    "has_negative_zero",
    "largest",
    "maximum",
    "minimum",
    "ordered",
    "reduce_maximum",
    "reduce_minimum",
    "smallest",
]

# NumPy's type stubs do not accept a keepdims whose value is known only at run time.
_reduce_maximum: Any = np.maximum.reduce
_reduce_minimum: Any = np.minimum.reduce

_LEAST = {np.dtype(f"i{n}"): np.iinfo(f"i{n}").min for n in (1, 2, 4, 8)}

# To count zeros among more numbers takes longer than to compare their bits.
_FEW = 512


def _signed_bits(dtype: np.dtype) -> np.dtype | None:
    """The integers with the bits of a floating point dtype; None for other dtypes."""
    return np.dtype(f"i{dtype.itemsize}") if is_floating(dtype) else None


_INTEGERS = {np.dtype(code): _signed_bits(np.dtype(code)) for code in "?bhilqBHILQefdFD"}


def _integers(dtype: np.dtype) -> np.dtype | None:
    try:
        return _INTEGERS[dtype]
    except KeyError:
        return _INTEGERS.setdefault(dtype, _signed_bits(dtype))


def has_negative_zero(x: np.ndarray) -> bool:
    """Whether an element of a floating point array is -0."""
    integers = _integers(x.dtype)
    if integers is None or not x.size:
        return False
    # As an integer, -0 is the least of all numbers. (A format without -0 has a nan there.)
    return bool(np.minimum.reduce(x.view(integers), None) == _LEAST[integers])


def _has_positive_zero(x: np.ndarray) -> bool:
    integers = _integers(x.dtype)
    return integers is not None and np.count_nonzero(x.view(integers)) != x.size


def ordered(x: np.ndarray) -> np.ndarray:
    """Map floating point numbers to integers of the same order, with -0 below 0."""
    integers = _integers(x.dtype)
    assert integers is not None
    bits = x.view(integers)
    return np.where(bits < 0, bits ^ np.iinfo(integers).max, bits)


def decoded(keys: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The floating point numbers that `ordered` maps to integers."""
    return np.where(keys < 0, keys ^ np.iinfo(keys.dtype).max, keys).view(dtype)


def _by_keys(operation: Callable[..., Any], result: Any, *operands: np.ndarray) -> Any:
    """Replace zeros among the results of an operation by those of its `ordered` operands."""
    zeros = decoded(np.asarray(operation(*map(ordered, operands))), operands[0].dtype)
    return np.where(result == 0, zeros, result)


def largest(operation: Callable[[np.ndarray], Any], x: np.ndarray) -> Any:
    """The result of an operation that selects large elements of ``x``, with the right zeros."""
    return _largest(operation, operation(x), x)


def smallest(operation: Callable[[np.ndarray], Any], x: np.ndarray) -> Any:
    """The result of an operation that selects small elements of ``x``, with the right zeros."""
    return _smallest(operation, operation(x), x)


def _largest(operation: Callable[[np.ndarray], Any], result: Any, x: np.ndarray) -> Any:
    if _has_no_zeros(result):
        return result
    return _by_keys(operation, result, x) if has_negative_zero(result) else result


def _smallest(operation: Callable[[np.ndarray], Any], result: Any, x: np.ndarray) -> Any:
    if _has_no_zeros(result):
        return result
    if _has_positive_zero(result) and has_negative_zero(x):
        return _by_keys(operation, result, x)
    return result


def maximum(x: Any, y: Any) -> np.ndarray:
    """The larger one of each two numbers, arrays or Python's; nan if one is nan."""
    result = np.maximum(x, y)
    if _has_no_zeros(result) or not has_negative_zero(result):
        return result
    return _of_zeros(np.maximum, x, y, result)


def minimum(x: Any, y: Any) -> np.ndarray:
    """The smaller one of each two numbers, arrays or Python's; nan if one is nan."""
    result = np.minimum(x, y)
    if _has_no_zeros(result) or not _has_positive_zero(result):
        return result
    return _of_zeros(np.minimum, x, y, result)


def _of_zeros(select: np.ufunc, x: Any, y: Any, result: np.ndarray) -> np.ndarray:
    """Replace zeros among the results by those of the `ordered` operands."""
    x, y = np.asarray(x, result.dtype), np.asarray(y, result.dtype)
    # Zeros of one sign are the same, whichever NumPy chose.
    if not (has_negative_zero(x) or has_negative_zero(y)):
        return result
    return np.asarray(_by_keys(select, result, x, y))


def _has_no_zeros(result: np.ndarray) -> bool:
    """Whether it is known at once that no result is a zero."""
    return result.size <= _FEW and np.count_nonzero(result) == result.size


def reduce_maximum(
    x: np.ndarray, axes: Any = None, dtype: None = None, out: None = None, keepdims: bool = False
) -> Any:
    """The largest number over axes; nan if any is nan."""
    result = _reduce_maximum(x, axes, None, None, keepdims)
    if type(result) is not np.ndarray and result:
        return result
    return _largest(lambda x: _reduce_maximum(x, axes, None, None, keepdims), result, x)


def reduce_minimum(
    x: np.ndarray, axes: Any = None, dtype: None = None, out: None = None, keepdims: bool = False
) -> Any:
    """The smallest number over axes; nan if any is nan."""
    result = _reduce_minimum(x, axes, None, None, keepdims)
    if type(result) is not np.ndarray and result:
        return result
    return _smallest(lambda x: _reduce_minimum(x, axes, None, None, keepdims), result, x)


def accumulate_maximum(x: np.ndarray, axis: int, dtype: np.dtype | None = None) -> np.ndarray:
    """The largest number so far along an axis; nan from the first nan on."""
    return np.asarray(largest(lambda x: np.maximum.accumulate(x, axis), x))


def accumulate_minimum(x: np.ndarray, axis: int, dtype: np.dtype | None = None) -> np.ndarray:
    """The smallest number so far along an axis; nan from the first nan on."""
    return np.asarray(smallest(lambda x: np.minimum.accumulate(x, axis), x))
