"""Tests of numbers and arrays: for nan and infinities, for dtypes, and for equality."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.extended import ExtendedArray
from gnomon._tracing.bind import bind, with_weak_type
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_complex, real_dtype
from gnomon.lax import broadcast_shapes
from gnomon.lax._creation import converted
from gnomon.lax._operands import FLOAT, constant_like
from gnomon.numpy._arguments import as_array
from gnomon.numpy._construction import array, asarray
from gnomon.numpy._dispatch import (
    ANY_KIND,
    INEXACT_KIND,
    no_out,
    promoted_operands,
    spread,
)
from gnomon.numpy._parts import imag
from gnomon.numpy._ufuncs import bitwise_and, bitwise_or, equal, not_equal

# ------------------------------------------------------------------------------------------ testing


def isnan(x: ArrayLike, /) -> Array:
    """Whether numbers are nan, elementwise.

    Args:
      x: an array or scalar; of a complex number one part suffices.
    Returns:
      A bool array of the shape of ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.isnan(gnp.array([1.0, gnp.inf, gnp.nan]))
      Array([False, False,  True], dtype=bool)
      >>> gnp.nan == gnp.nan
      False
    """
    x = as_array("isnan", x)
    return bind(ops.ne, x, x)


def isfinite(x: ArrayLike, /) -> Array:
    """Whether numbers are neither infinite nor nan, elementwise.

    Args:
      x: an array or scalar; of a complex number both parts are tested.
    Returns:
      A bool array of the shape of ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.isfinite(gnp.array([1.0, gnp.inf, gnp.nan]))
      Array([ True, False, False], dtype=bool)
    """
    x = as_array("isfinite", x)
    if is_complex(x.dtype):
        both = bitwise_and(isfinite(bind(ops.real, x)), isfinite(bind(ops.imag, x)))
        return with_weak_type(both, x.aval.weak_type)
    if x.dtype not in FLOAT:
        return lax.full(x.shape, True)
    return bind(ops.is_finite, x)


def isinf(x: ArrayLike, /) -> Array:
    """Whether numbers are infinite, elementwise.

    Args:
      x: an array or scalar; of a complex number one part suffices.
    Returns:
      A bool array of the shape of ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.isinf(gnp.array([1.0, -gnp.inf, gnp.nan]))
      Array([False,  True, False], dtype=bool)

    See also:
      `isposinf`, `isneginf`
    """
    x = as_array("isinf", x)
    if is_complex(x.dtype):
        return bitwise_or(isinf(bind(ops.real, x)), isinf(bind(ops.imag, x)))
    if x.dtype not in FLOAT:
        return lax.full(x.shape, False)
    return _is_value(bind(ops.abs, x), np.inf)


def _is_value(x: Array, value: float) -> Array:
    return with_weak_type(bind(ops.eq, x, constant_like(x, value)), False)


def _is_signed_inf(name: str, x: Any, value: float, out: Any) -> Array:
    no_out(name, out)
    x = as_array(name, x)
    if is_complex(x.dtype):
        raise ValueError(f"{name} is not well defined for complex numbers, got {x.aval}")
    return _is_value(x, value) if x.dtype in FLOAT else lax.full(x.shape, False)


def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether numbers are positive infinity, elementwise.

    Args:
      x: an array or scalar of real numbers.
      out: must be None, because arrays are immutable.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.isposinf(gnp.array([-gnp.inf, gnp.inf, 0.0]))
      Array([False,  True, False], dtype=bool)
    """
    return _is_signed_inf("isposinf", x, np.inf, out)


def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether numbers are negative infinity, elementwise.

    Args:
      x: an array or scalar of real numbers.
      out: must be None, because arrays are immutable.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.isneginf(gnp.array([-gnp.inf, gnp.inf, 0.0]))
      Array([ True, False, False], dtype=bool)
    """
    return _is_signed_inf("isneginf", x, -np.inf, out)


def iscomplex(x: ArrayLike) -> Array:
    """Whether the imaginary part is not zero, elementwise.

    Args:
      x: an array or scalar.
    Returns:
      A bool array of the shape of ``x``; False for arrays of a real dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.iscomplex(gnp.array([1 + 0j, 2j]))
      Array([False,  True], dtype=bool)

    See also:
      `iscomplexobj`, which looks at the dtype
    """
    parts = imag(x)
    test = not_equal(parts, constant_like(parts, 0))
    return with_weak_type(test, _dtypes.is_weakly_typed(x))


def isreal(x: ArrayLike) -> Array:
    """Whether the imaginary part is zero, elementwise.

    Args:
      x: an array or scalar.
    Returns:
      A bool array of the shape of ``x``; True for arrays of a real dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.isreal(gnp.array([1 + 0j, 2j]))
      Array([ True, False], dtype=bool)

    See also:
      `isrealobj`, which looks at the dtype
    """
    parts = imag(x)
    test = equal(parts, constant_like(parts, 0))
    return with_weak_type(test, _dtypes.is_weakly_typed(x))


def iscomplexobj(x: object) -> bool:
    """Whether an array has a complex dtype.

    Args:
      x: an array, a scalar or any other object.
    Returns:
      A Python bool.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.iscomplexobj(gnp.array([1 + 0j])), gnp.iscomplexobj(1.0)
      (True, False)
    """
    if _dtypes.is_python_scalar(x):
        return isinstance(x, complex)
    return x is not None and not isinstance(x, str) and is_complex(np.dtype(_dtype_of(x)))


def isrealobj(x: object) -> bool:
    """Whether an array has a dtype that is not complex.

    Args:
      x: an array, a scalar or any other object.
    Returns:
      A Python bool.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.isrealobj(gnp.array([1 + 0j])), gnp.isrealobj(1.0)
      (False, True)
    """
    return not iscomplexobj(x)


def _dtype_of(x: Any) -> Any:
    return getattr(x, "dtype", None) or asarray(x).dtype


def isscalar(element: object) -> bool:
    """Whether an object is a number or an array without dimensions.

    Args:
      element: any object.
    Returns:
      A Python bool.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.isscalar(3.0), gnp.isscalar(gnp.array(3.0)), gnp.isscalar(gnp.array([3.0]))
      (True, True, False)
    """
    if isinstance(element, (np.ndarray, Array)):
        return element.ndim == 0
    return np.isscalar(element)


# ---------------------------------------------------------------------------------------- comparing


def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Elementwise ``|a - b| <= atol + rtol * |b|``; equal infinities are close, too.

    Args:
      a, b: arrays or scalars that broadcast together; the relative tolerance refers to ``b``.
      rtol, atol: the relative and the absolute tolerance.
      equal_nan: whether nan is close to nan.
    Returns:
      A bool array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.isclose(gnp.array([1.0, 1.1]), 1.000001)
      Array([ True, False], dtype=bool)
      >>> gnp.isclose(1e-9, 0.0), gnp.isclose(1e-9, 0.0, atol=0.0)
      (Array(True, dtype=bool), Array(False, dtype=bool))

    See also:
      `allclose`
    """
    if any(isinstance(getattr(x, "dtype", None), _dtypes.ExtendedDType) for x in (a, b)):
        key: Any = as_array("isclose", a)
        same: Array = key == as_array("isclose", b, 1)
        return same  # Random keys are close if they are equal.
    x, y = promoted_operands("isclose", INEXACT_KIND, a, b)
    dtype = real_dtype(x.dtype) if is_complex(x.dtype) else x.dtype
    relative, absolute = (
        converted(as_array("isclose", t, i), dtype) for i, t in ((2, rtol), (3, atol))
    )
    distance = bind(ops.abs, bind(ops.sub, x, y))
    magnitude = bind(ops.abs, y)
    scaled, magnitude_ = promoted_operands("isclose", ANY_KIND, relative, magnitude)
    bound, absolute_, distance_ = promoted_operands(
        "isclose", ANY_KIND, bind(ops.mul, scaled, magnitude_), absolute, distance
    )
    in_range = bind(ops.le, distance_, bind(ops.add, absolute_, bound))
    near = bitwise_and(isfinite(y), in_range)
    close = bitwise_or(equal(x, y), near)
    return bitwise_or(close, bitwise_and(isnan(x), isnan(y))) if equal_nan else close


def _all_true(mask: Array) -> Array:
    return bind(ops.reduce_and, mask, axes=tuple(range(mask.ndim))) if mask.ndim else mask


def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Whether all elements of two arrays are close, as a bool array of shape ``()``.

    Args:
      a, b: arrays or scalars that broadcast together; the tolerance grows with ``|b|``.
      rtol, atol: the relative and the absolute tolerance, as in `isclose`.
      equal_nan: whether two nans are close to each other.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.allclose(gnp.array([1.0, 1e6]), gnp.array([1.000001, 1e6 + 1]))
      Array(True, dtype=bool)
      >>> gnp.allclose(gnp.nan, gnp.nan), gnp.allclose(gnp.nan, gnp.nan, equal_nan=True)
      (Array(False, dtype=bool), Array(True, dtype=bool))

    See also:
      `isclose`, `array_equal`
    """
    return _all_true(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have the same shape and equal elements.

    Args:
      a1, a2: arrays, scalars, or nested lists of numbers; nothing is broadcast.
      equal_nan: whether two nans are equal.
    Returns:
      A bool array of shape ``()``; False for different shapes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.array_equal(gnp.array([1, 2]), [1, 2])
      Array(True, dtype=bool)
      >>> gnp.array_equal(gnp.array([1, 1]), 1), gnp.array_equiv(gnp.array([1, 1]), 1)
      (Array(False, dtype=bool), Array(True, dtype=bool))

    See also:
      `array_equiv`, `allclose`
    """
    x, y = asarray(a1), asarray(a2)
    if x.shape != y.shape:
        return array(False)
    same = equal(x, y)
    if equal_nan:
        same = bitwise_or(same, bitwise_and(isnan(x), isnan(y)))
    return with_weak_type(_all_true(same), False)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays are equal after they are broadcast together.

    Args:
      a1, a2: arrays, scalars, or nested lists of numbers.
    Returns:
      A bool array of shape ``()``; False if the shapes do not broadcast.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.array_equiv(gnp.array([[1, 2], [1, 2]]), gnp.array([1, 2]))
      Array(True, dtype=bool)
      >>> gnp.array_equiv(gnp.array([1, 2]), gnp.array([1, 2, 3]))
      Array(False, dtype=bool)

    See also:
      `array_equal`
    """
    x, y = asarray(a1), asarray(a2)
    try:
        if not isinstance(x, ExtendedArray):  # Random keys are broadcast when they are compared.
            x, y = spread("array_equiv", [x, y])
        else:
            broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return array(False)
    return with_weak_type(_all_true(equal(x, y)), False)


__all__ = [
    "allclose",
    "array_equal",
    "array_equiv",
    "isclose",
    "iscomplex",
    "iscomplexobj",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "isscalar",
]
