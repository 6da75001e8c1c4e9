"""Means and variances, with weights and masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray
from gnomon._tracing.bind import with_weak_type
from gnomon.dialects.types import is_complex, is_floating, is_inexact, real_dtype
from gnomon.lax._creation import converted
from gnomon.numpy import _eager_reductions as eager
from gnomon.numpy._arguments import as_array, axis_tuple, promoted
from gnomon.numpy._manipulation import broadcast_to, reshape, transpose
from gnomon.numpy._reductions import Axis, mask_of, no_out
from gnomon.numpy._reductions import sum as sum_

__all__ = ["average", "mean", "std", "var"]


def _count(
    x: Array, axes: tuple[int, ...], where: Any, dtype: np.dtype[Any], keepdims: bool = True
) -> Any:
    """The number of elements that are reduced to each result."""
    if where is None:
        return lax.full((), math.prod(x.shape[i] for i in axes), dtype)
    mask = broadcast_to(mask_of(where), lax.broadcast_shapes(np.shape(where), x.shape))
    return sum_(converted(mask, dtype), axes, keepdims=keepdims)


def _mean(x: Array, axes: tuple[int, ...], where: Any, keepdims: bool = True) -> Array:
    """The mean in the array's dtype; of integers, the truncated quotient."""
    total = sum_(x, axes, dtype=x.dtype, keepdims=keepdims, where=where)
    count = converted(_count(x, axes, where, x.dtype, keepdims), x.dtype)
    return lax.div(total, broadcast_to(count, total.shape))


def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """The arithmetic mean along axes.

    Args:
      a: an array; narrow floating point numbers are summed in float32.
      axis: the axis or axes to reduce; None reduces all of them.
      dtype: the dtype of the sum and of the result; None means inexact. A mean of integers in an
        integer dtype is truncated.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.
      where: a bool array that broadcasts with ``a``; elements where it is false are ignored.
    Returns:
      A floating point or complex array; nan over no elements.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.mean(gnp.array([[1, 2], [3, 5]]), axis=0)
      Array([2. , 3.5], dtype=float32)
      >>> gnp.mean(gnp.array([1, 2]), dtype=gnp.int32)
      Array(1, dtype=int32)

    See also:
      `average`, `median`, `nanmean`
    """
    if type(a) is ConcreteArray and dtype is out is where is None:
        direct = eager.mean(a, axis, keepdims)
        if direct is not None:
            return direct
    no_out("mean", out)
    x = as_array("mean", a)
    wanted = (
        _dtypes.to_inexact_dtype(x.dtype)
        if dtype is None
        else _dtypes.check_user_dtype(dtype, "mean")
    )
    work = np.dtype(np.float32) if is_floating(wanted) and wanted.itemsize < 4 else wanted
    axes = axis_tuple("mean", axis, x.ndim)
    result = converted(_mean(converted(x, work), axes, where, keepdims), wanted)
    return with_weak_type(result, False)


def _dropped(x: Array, axes: tuple[int, ...]) -> Array:
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The weighted mean along axes.

    Args:
      a: an array; integers become floating point numbers.
      axis: the axis or axes to reduce; None reduces all of them.
      weights: an array of the shape of ``a``, or of the lengths of the reduced axes in their order;
        None weights all elements equally.
      returned: also return the sum of the weights, as ``(average, sum_of_weights)``.
      keepdims: keep the reduced dimensions, with size one.
    Raises:
      ValueError: the weights have another shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.average(gnp.array([1.0, 2.0, 6.0]), weights=gnp.array([3, 1, 0]))
      Array(1.25, dtype=float32)
      >>> gnp.average(gnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=1, weights=gnp.array([1, 3]))
      Array([1.75, 3.75], dtype=float32)

    See also:
      `mean`
    """
    x = as_array("average", a)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        axes = axis_tuple("average", axis, x.ndim)
        total = lax.full_like(result, math.prod(x.shape[i] for i in axes))
        return (result, total) if returned else result
    x, w = promoted("average", x, weights, inexact=True)
    if w.shape != x.shape:
        if axis is None:
            raise ValueError(
                f"average: weights of shape {w.shape} for an array of shape {x.shape}; pass axis "
                "to say which dimensions they are for"
            )
        axes = axis_tuple("average", axis, x.ndim)
        lengths = tuple(x.shape[i] for i in axes)
        if w.shape != lengths:
            raise ValueError(
                f"average: weights must have the shape of the array, {x.shape}, or the lengths of "
                f"the axes {axes}, {lengths}; got {w.shape}"
            )
        # Give the weights the array's order of dimensions, and insert those of size one.
        w = transpose(w, sorted(range(len(axes)), key=axes.__getitem__))
        w = reshape(w, tuple(n if i in axes else 1 for i, n in enumerate(x.shape)))
        w = broadcast_to(w, x.shape)
    total = sum_(w, axis, keepdims=keepdims)
    result = lax.div(sum_(lax.mul(x, w), axis, keepdims=keepdims), total)
    return (result, total) if returned else result


def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """The variance along axes: the mean of the squared distances from the mean.

    Args:
      a: an array; integers become floating point numbers.
      axis: the axis or axes to reduce; None reduces all of them.
      dtype: the dtype of the computation; None means inexact.
      out: must be None, because arrays are immutable.
      ddof, correction: the number that is subtracted from the number of elements in the divisor;
        two names of the same argument. The default 0 divides by the number of elements.
      keepdims: keep the reduced dimensions, with size one.
      where: a bool array that broadcasts with ``a``; elements where it is false are ignored.
      mean: the mean, if it is known; it must broadcast against ``a``.
    Returns:
      A real array; nan over no elements.
    Raises:
      ValueError: the dtype is not inexact, or it is real and the array is complex.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.var(gnp.array([1.0, 3.0]))
      Array(1., dtype=float32)
      >>> gnp.var(gnp.array([1.0, 3.0]), ddof=1)
      Array(2., dtype=float32)

    See also:
      `std`, `nanvar`, `cov`
    """
    no_out("var", out)
    if correction is not None:
        if ddof:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction  # type: ignore[assignment]
    if type(a) is ConcreteArray and dtype is where is mean is None:
        direct = eager.variance(a, axis, keepdims, ddof)
        if direct is not None:
            return direct
    x = as_array("var", a)
    given = _dtypes.to_inexact_dtype(x.dtype)
    wanted = real_dtype(given) if dtype is None else _dtypes.check_user_dtype(dtype, "var")
    if not is_inexact(wanted):
        raise ValueError(f"var: dtype argument must be inexact, got {wanted.name}")
    if dtype is not None and is_complex(given) and not is_complex(wanted):
        raise ValueError(f"var: of an array of {x.dtype}, dtype {wanted.name} is not supported")
    work = np.dtype(np.float32) if is_floating(given) and given.itemsize < 4 else given
    x = converted(x, work)
    axes = axis_tuple("var", axis, x.ndim)
    centre = _mean(x, axes, where) if mean is None else converted(as_array("var", mean), work)
    centered = lax.sub(x, broadcast_to(centre, x.shape))
    if is_complex(work):
        squares = lax.add(lax.square(lax.real(centered)), lax.square(lax.imag(centered)))
    else:
        squares = lax.square(centered)
    total = sum_(squares, axes, keepdims=True, where=where)
    count = lax.sub(
        _count(x, axes, where, squares.dtype), lax.convert_element_type(ddof, squares.dtype)
    )
    quotient = lax.div(total, broadcast_to(count, total.shape))
    # A divisor that is not positive gives nan (NumPy also gives inf), a constant whose tangent is
    # zero.
    defined = broadcast_to(lax.gt(count, lax.full_like(count, 0)), total.shape)
    quotient = lax.select(defined, quotient, lax.full_like(quotient, math.nan))
    result = converted(quotient, wanted)
    return with_weak_type(result if keepdims else _dropped(result, axes), False)


def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """The standard deviation along axes: the square root of `var`.

    Args:
      a: an array; integers become floating point numbers.
      axis: the axis or axes to reduce; None reduces all of them.
      dtype: the dtype of the computation; None means inexact.
      out: must be None, because arrays are immutable.
      ddof, correction: the number that is subtracted from the number of elements in the divisor;
        two names of the same argument. The default 0 divides by the number of elements.
      keepdims: keep the reduced dimensions, with size one.
      where: a bool array that broadcasts with ``a``; elements where it is false are ignored.
      mean: the mean, if it is known; it must broadcast against ``a``.
    Returns:
      A real array; nan over no elements.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.std(gnp.array([1.0, 5.0]))
      Array(2., dtype=float32)
      >>> gnp.std(gnp.array([1.0, 5.0]), ddof=1).round(4)
      Array(2.8284, dtype=float32)

    See also:
      `var`, `nanstd`
    """
    no_out("std", out)
    return lax.sqrt(
        var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    )
