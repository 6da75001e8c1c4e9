"""Python and NumPy values as arrays of canonical dtypes, in memory that nothing else writes to."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._arrays.dtypes import (
    PYTHON_DEFAULTS,
    SUPPORTED,
    TO_32_BIT,
    DType,
    canonicalize_dtype,
    exact_python_scalar,
    float0,
    is_python_scalar,
)
from gnomon._config.current import config
from gnomon_runtime.booleans import zero_or_one

__all__ = [
    "canonical_view",
    "is_masked",
    "is_writable",
    "numpy_to_canonical",
    "refuse_masks",
    "scalar_to_numpy",
    "to_array",
]

_WIDE_FLOATS = (None, np.dtype(np.float32), np.dtype(np.float64))
_INT_LIMITS = {np.dtype(np.int32): 2**31, np.dtype(np.int64): 2**63}


def scalar_to_numpy(value: bool | int | float | complex, dtype: DType | None = None) -> Any:
    """A 0-d array of ``dtype`` with the value of a Python scalar.

    An int is first converted to the default int dtype, which it must fit, and then to ``dtype``,
    where it wraps around: ``uint8(1) + (-1)`` is 0.

    Args:
      value: a Python scalar.
      dtype: the dtype; None means the default dtype of the type of ``value``.

    Raises:
      OverflowError: an int does not fit the default int dtype.
    """
    if type(value) not in PYTHON_DEFAULTS:
        value = exact_python_scalar(value)
    default = PYTHON_DEFAULTS[type(value)]()
    if type(value) is int:
        limit = _INT_LIMITS[default]
        if not -limit <= value < limit:
            raise OverflowError(
                f"the Python int {value} does not fit in {default}: pass an array of a wider or a "
                "floating-point dtype, or enable 64-bit types (gnomon_enable_x64)"
            )
    elif type(value) is float and -3e38 < value < 3e38 and dtype in _WIDE_FLOATS:
        # The common case, in which nothing overflows or warns.
        return np.array(value, default if dtype is None else dtype)
    with np.errstate(all="ignore"):
        array = np.array(value, default)
        return array if dtype is None or dtype == default else array.astype(dtype)


def to_array(x: Any) -> Array:
    """Convert an array, a NumPy array or scalar, or a Python scalar to an array.

    An object may also have a method ``__gnomon_array__`` or ``__jax_array__`` that returns one of
    these. The dtype becomes canonical. A writable NumPy array is copied, because arrays of gnomon
    never change.

    Raises:
      TypeError: ``x`` is anything else (a list, a string, None), or its dtype is not of numbers or
        booleans.
      ValueError: ``x`` is a masked array, whose mask would be lost.
      OverflowError: a Python int does not fit the default int dtype.
    """
    if isinstance(x, Array):
        return x
    kind = type(x)
    if kind in PYTHON_DEFAULTS:
        return wrap(scalar_to_numpy(x), kind is not bool)
    if isinstance(x, (np.ndarray, np.generic)):
        return wrap(numpy_to_canonical(x))
    if is_python_scalar(x):
        return wrap(scalar_to_numpy(x), True)
    convert = getattr(x, "__gnomon_array__", None) or getattr(x, "__jax_array__", None)
    if convert is not None:
        return to_array(convert())
    advice = ""
    if isinstance(x, (list, tuple)):
        advice = f": make an array of the {kind.__name__} first, by gnomon.numpy.array"
    elif isinstance(x, type) or x is None:
        advice = f": {x!r}"
    elif hasattr(x, "__array__"):
        advice = ": convert it first, by gnomon.numpy.asarray"
    raise TypeError(
        f"expected an array, a NumPy array or a number, got a value of type {kind.__name__}{advice}"
    )


def numpy_to_canonical(x: Any) -> np.ndarray[Any, Any]:
    """A NumPy array or scalar as an array of canonical dtype that nothing else writes to.

    Raises:
      TypeError, ValueError: see `canonical_view`.
    """
    value = canonical_view(x)
    shared = value is x or value.base is not None
    return value.copy() if shared and is_writable(value) else value


def is_masked(x: Any) -> bool:
    """Whether a value is a masked array of NumPy."""
    # The first use of `np.ma` imports it, which takes 6 ms; until then, no array is masked.
    return "numpy.ma" in sys.modules and isinstance(x, np.ma.MaskedArray)


def refuse_masks(x: Any) -> None:
    """Raise ``ValueError`` for a masked array of NumPy, whose mask would be lost."""
    if is_masked(x):
        raise ValueError(
            "masked arrays are not supported: their mask would be lost. Use x.filled(value), or "
            "x.data if the mask does not matter"
        )


def canonical_view(x: Any) -> np.ndarray[Any, Any]:
    """A NumPy array or scalar as an array of canonical dtype, without a copy where possible.

    The bytes of booleans become 0 or 1.

    Raises:
      TypeError: its dtype is not of numbers or booleans.
      ValueError: it is a masked array.
    """
    refuse_masks(x)
    dtype = x.dtype
    canonical = dtype if config.x64 else TO_32_BIT.get(dtype, dtype)
    if canonical not in SUPPORTED and canonical != float0:
        native = dtype.newbyteorder("=")
        if native not in SUPPORTED:
            raise TypeError(
                f"an array of dtype {dtype} is not valid as an array of gnomon, which holds "
                "numbers and booleans only"
            )
        canonical = canonicalize_dtype(native)
    value = np.asarray(x)
    if canonical is not dtype and canonical != dtype:
        with np.errstate(all="ignore"):
            return value.astype(canonical)
    return zero_or_one(value)


def is_writable(value: np.ndarray[Any, Any]) -> bool:
    """Whether the memory may be written to, through the array or through one that it views."""
    base: Any = value
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return True
        base = base.base
    # Others may write to memory that NumPy does not own, such as a buffer or a memory map.
    return not (base is None or isinstance(base, bytes))
