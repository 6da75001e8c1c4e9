"""Reductions and accumulations that ignore nan."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.dialects.types import BOOL, is_inexact
from gnomon.numpy._accumulations import cumprod, cumsum
from gnomon.numpy._arguments import as_array
from gnomon.numpy._manipulation import broadcast_to
from gnomon.numpy._moments import mean, var
from gnomon.numpy._predicates import isnan
from gnomon.numpy._reductions import Axis, argmax, argmin, extreme_identity, mask_of, no_out, prod
from gnomon.numpy._reductions import all as all_
from gnomon.numpy._reductions import any as any_
from gnomon.numpy._reductions import max as max_
from gnomon.numpy._reductions import min as min_
from gnomon.numpy._reductions import sum as sum_
from gnomon.numpy._selection import where as where_

__all__ = [
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]


def _without_nan(name: str, a: Any, replacement: Any) -> tuple[Array, Array]:
    """The array with nans replaced, and a mask of the elements that are not nan."""
    x = as_array(name, a)
    if not is_inexact(x.dtype):
        return x, lax.full(x.shape, True, BOOL)
    valid = bind(ops.eq, x, x)
    return bind(ops.select, valid, x, lax.full_like(x, replacement)), valid


def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The sum along axes, where nan counts as zero.

    Args:
      a: an array.
      axis: the axis or axes to reduce; None reduces all of them.
      dtype: the dtype of the sum.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.
      initial: a number to add to the sum.
      where: a bool array that broadcasts with ``a``; elements where it is false are ignored.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nansum(gnp.array([[2.0, gnp.nan], [gnp.nan, gnp.nan]]), axis=1)
      Array([2., 0.], dtype=float32)

    See also:
      `sum`
    """
    return sum_(_without_nan("nansum", a, 0)[0], axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The product along axes, where nan counts as one.

    Args:
      a: an array.
      axis: the axis or axes to reduce; None reduces all of them.
      dtype: the dtype of the product.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.
      initial: a number to multiply the product by.
      where: a bool array that broadcasts with ``a``; elements where it is false are ignored.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nanprod(gnp.array([2.0, gnp.nan, 3.0]))
      Array(6., dtype=float32)

    See also:
      `prod`
    """
    return prod(_without_nan("nanprod", a, 1)[0], axis, dtype, out, keepdims, initial, where)


def _nan_extreme(
    name: str,
    reduce: Callable[..., Array],
    a: Any,
    axis: Axis,
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Array:
    array = as_array(name, a)
    x, valid = _without_nan(name, array, extreme_identity(name, array.dtype))
    result = reduce(x, axis, keepdims=keepdims, initial=initial, where=where)
    if initial is not None or not is_inexact(x.dtype):
        return result
    some = any_(valid, axis, keepdims=keepdims)
    return lax.select(some, result, lax.full_like(result, math.nan))


def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The largest element along axes that is not nan.

    Args:
      a: an array.
      axis: the axis or axes to reduce; None reduces all of them.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.
      initial: the smallest value that the result may have; required over no elements.
      where: a bool array that selects elements; it requires ``initial``.
    Returns:
      An array of the dtype of ``a``; where all elements are nan, ``initial`` or nan.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nanmax(gnp.array([[1.0, gnp.nan], [gnp.nan, gnp.nan]]), axis=1)
      Array([ 1., nan], dtype=float32)

    See also:
      `max`, `fmax`
    """
    no_out("nanmax", out)
    return _nan_extreme("nanmax", max_, a, axis, keepdims, initial, where)


def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The smallest element along axes that is not nan.

    Args:
      a: an array.
      axis: the axis or axes to reduce; None reduces all of them.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.
      initial: the largest value that the result may have; required over no elements.
      where: a bool array that selects elements; it requires ``initial``.
    Returns:
      An array of the dtype of ``a``; where all elements are nan, ``initial`` or nan.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nanmin(gnp.array([[1.0, gnp.nan], [gnp.nan, gnp.nan]]), axis=1)
      Array([ 1., nan], dtype=float32)

    See also:
      `min`, `fmin`
    """
    no_out("nanmin", out)
    return _nan_extreme("nanmin", min_, a, axis, keepdims, initial, where)


def _valid_where(name: str, a: Any, where: Any) -> tuple[Array, Array]:
    """The array without nans, and a mask of the selected elements that are not nan."""
    x, valid = _without_nan(name, a, 0)
    if where is None:
        return x, valid
    mask = mask_of(where)
    shape = lax.broadcast_shapes(mask.shape, x.shape)
    valid = lax.bitwise_and(broadcast_to(valid, shape), broadcast_to(mask, shape))
    return broadcast_to(x, shape), valid


def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """The mean along axes of the elements that are not nan.

    Args:
      a: an array.
      axis: the axis or axes to reduce; None reduces all of them.
      dtype: the dtype of the sum and of the result; None means inexact.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.
      where: a bool array that broadcasts with ``a``; elements where it is false are ignored.
    Returns:
      A floating point or complex array; nan where all elements are nan.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nanmean(gnp.array([[1.0, gnp.nan, 3.0], [gnp.nan] * 3]), axis=1)
      Array([ 2., nan], dtype=float32)

    See also:
      `mean`
    """
    no_out("nanmean", out)
    x, valid = _valid_where("nanmean", a, where)
    return mean(x, axis, dtype, None, keepdims, where=valid)


def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """The variance along axes of the elements that are not nan.

    Args:
      a: an array.
      axis: the axis or axes to reduce; None reduces all of them.
      dtype: the dtype of the computation; None means inexact.
      out: must be None, because arrays are immutable.
      ddof: the number that is subtracted from the number of elements in the divisor.
      keepdims: keep the reduced dimensions, with size one.
      where: a bool array that broadcasts with ``a``; elements where it is false are ignored.
      mean: the mean, if it is known; it must broadcast against ``a``.
    Returns:
      A real array; nan where at most ``ddof`` elements are not nan.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nanvar(gnp.array([1.0, gnp.nan, 3.0]))
      Array(1., dtype=float32)
      >>> gnp.nanvar(gnp.array([1.0, gnp.nan, 3.0]), ddof=1)
      Array(2., dtype=float32)

    See also:
      `var`
    """
    no_out("nanvar", out)
    x, valid = _valid_where("nanvar", a, where)
    return var(x, axis, dtype, None, ddof, keepdims, where=valid, mean=mean)


def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """The standard deviation along axes of the elements that are not nan.

    Args:
      a: an array.
      axis: the axis or axes to reduce; None reduces all of them.
      dtype: the dtype of the computation; None means inexact.
      out: must be None, because arrays are immutable.
      ddof: the number that is subtracted from the number of elements in the divisor.
      keepdims: keep the reduced dimensions, with size one.
      where: a bool array that broadcasts with ``a``; elements where it is false are ignored.
      mean: the mean, if it is known; it must broadcast against ``a``.
    Returns:
      A real array; nan where at most ``ddof`` elements are not nan.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nanstd(gnp.array([1.0, gnp.nan, 5.0]))
      Array(2., dtype=float32)

    See also:
      `std`
    """
    return lax.sqrt(nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))


def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """The cumulative sum along an axis, where nan counts as zero.

    Args:
      a: an array.
      axis: the axis; None sums the flattened array.
      dtype: the dtype of the sums.
      out: must be None, because arrays are immutable.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nancumsum(gnp.array([2.0, gnp.nan, 3.0]))
      Array([2., 2., 5.], dtype=float32)

    See also:
      `cumsum`
    """
    return cumsum(_without_nan("nancumsum", a, 0)[0], axis, dtype, out)


def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """The cumulative product along an axis, where nan counts as one.

    Args:
      a: an array.
      axis: the axis; None multiplies the flattened array.
      dtype: the dtype of the products.
      out: must be None, because arrays are immutable.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nancumprod(gnp.array([2.0, gnp.nan, 3.0]))
      Array([2., 2., 6.], dtype=float32)

    See also:
      `cumprod`
    """
    return cumprod(_without_nan("nancumprod", a, 1)[0], axis, dtype, out)


def _nan_position(
    function: str, find: Any, a: Any, axis: int | None, out: Any, keepdims: bool | None
) -> Array:
    no_out(function, out)
    x = as_array(function, a)
    if not is_inexact(x.dtype):
        return find(x, axis=axis, keepdims=keepdims)
    missing = isnan(x)
    worst = extreme_identity(function, x.dtype)
    found = find(where_(missing, worst, x), axis=axis, keepdims=keepdims)
    nothing = all_(missing, axis=axis, keepdims=bool(keepdims))
    return where_(nothing, lax.full_like(found, -1), found)


def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The index of the largest element along an axis; nan is skipped.

    Args:
      a: an array of real numbers.
      axis: the axis; None searches the flattened array.
      out: must be None, because arrays are immutable.
      keepdims: keep the searched dimension, with size one.
    Returns:
      An array of integers; -1 where all elements are nan.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nanargmax(gnp.array([[1.0, gnp.nan, 3.0], [gnp.nan] * 3]), axis=1)
      Array([ 2, -1], dtype=int32)

    See also:
      `argmax`
    """
    return _nan_position("nanargmax", argmax, a, axis, out, keepdims)


def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The index of the smallest element along an axis; nan is skipped.

    Args:
      a: an array of real numbers.
      axis: the axis; None searches the flattened array.
      out: must be None, because arrays are immutable.
      keepdims: keep the searched dimension, with size one.
    Returns:
      An array of integers; -1 where all elements are nan.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nanargmin(gnp.array([gnp.nan, 4.0, 2.0]))
      Array(2, dtype=int32)

    See also:
      `argmin`
    """
    return _nan_position("nanargmin", argmin, a, axis, out, keepdims)
