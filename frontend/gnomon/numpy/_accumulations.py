"""Cumulative sums and products along an axis, and their inverse: differences of neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon.dialects.types import BOOL
from gnomon.lax._creation import converted
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array, promoted
from gnomon.numpy._manipulation import broadcast_to, ravel
from gnomon.numpy._reductions import no_out, sum_dtype, truth_of

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff"]


def _cumulative(
    name: str, op: Callable[..., Array], a: Any, axis: int | None, dtype: Any, out: Any
) -> Array:
    no_out(name, out)
    x = as_array(name, a)
    if axis is None:
        x, axis = ravel(x), 0
    place = canonical_axis(axis, x.ndim)
    if dtype is not None:
        wanted = _dtypes.check_user_dtype(dtype, name)
    else:
        wanted = _dtypes.default_int_dtype() if x.dtype == BOOL else x.dtype
    if wanted == BOOL:  # Bools are counted, so that they do not cancel.
        return converted(op(converted(truth_of(name, x), _dtypes.default_int_dtype()), place), BOOL)
    return op(converted(x, wanted), place)


def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """The sum of the elements up to each position along an axis.

    Args:
      a: an array; bools and narrow integers are summed in the default integer dtype.
      axis: the axis; None sums the flattened array.
      dtype: the dtype of the sums.
      out: must be None, because arrays are immutable.
    Returns:
      An array of the shape of ``a``, or a vector if ``axis`` is None.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.cumsum(gnp.array([[1, 2], [3, 4]]), axis=1)
      Array([[1, 3],
             [3, 7]], dtype=int32)
      >>> gnp.cumsum(gnp.array([[1, 2], [3, 4]]))
      Array([ 1,  3,  6, 10], dtype=int32)

    See also:
      `cumulative_sum`, `diff`, `nancumsum`
    """
    return _cumulative("cumsum", lax.cumsum, a, axis, dtype, out)


def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """The product of the elements up to each position along an axis.

    Args:
      a: an array; bools and narrow integers are multiplied in the default integer dtype.
      axis: the axis; None multiplies the flattened array.
      dtype: the dtype of the products.
      out: must be None, because arrays are immutable.
    Returns:
      An array of the shape of ``a``, or a vector if ``axis`` is None.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.cumprod(gnp.array([1, 2, 3, 4]))
      Array([ 1,  2,  6, 24], dtype=int32)

    See also:
      `cumulative_prod`, `nancumprod`
    """
    return _cumulative("cumprod", lax.cumprod, a, axis, dtype, out)


def _cumulative_of_array_api(
    name: str,
    accumulate: Callable[..., Array],
    x: Any,
    axis: int | None,
    dtype: Any,
    initial: int | None,
) -> Array:
    """An accumulation with the signature of the array API; ``initial``, if any, comes first."""
    array = as_array(name, x)
    if axis is None:
        if array.ndim != 1:
            raise ValueError(f"{name}: axis must be given for an array of {array.ndim} dimensions")
        axis = 0
    place = canonical_axis(axis, array.ndim)
    result = accumulate(array, place, dtype)
    if initial is None:
        return result
    config = [(1 if i == place else 0, 0, 0) for i in range(result.ndim)]
    return lax.pad(result, lax.full((), initial, result.dtype), config)


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The cumulative sum in the array API's form, which can start with zero.

    By default, narrow integers are summed in the default integer dtype, as by `sum`.

    Args:
      x: an array of at least one dimension; narrow integers are summed in the default integer
        dtype.
      axis: the axis; it may be None only if ``x`` is a vector.
      dtype: the dtype of the sums.
      include_initial: begin with a zero, so that the axis grows by one.
    Raises:
      ValueError: no axis is given, and the array does not have exactly one dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.cumulative_sum(gnp.array([1, 2, 3]))
      Array([1, 3, 6], dtype=int32)
      >>> gnp.cumulative_sum(gnp.array([1, 2, 3]), include_initial=True)
      Array([0, 1, 3, 6], dtype=int32)

    See also:
      `cumsum`
    """
    wanted = sum_dtype(as_array("cumulative_sum", x).dtype) if dtype is None else dtype
    initial = 0 if include_initial else None
    return _cumulative_of_array_api("cumulative_sum", cumsum, x, axis, wanted, initial)


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The cumulative product in the array API's form, which can start with one.

    Args:
      x: an array of at least one dimension.
      axis: the axis; it may be None only if ``x`` is a vector.
      dtype: the dtype of the products.
      include_initial: begin with a one, so that the axis grows by one.
    Raises:
      ValueError: no axis is given, and the array does not have exactly one dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.cumulative_prod(gnp.array([2, 3, 4]), include_initial=True)
      Array([ 1,  2,  6, 24], dtype=int32)

    See also:
      `cumprod`
    """
    initial = 1 if include_initial else None
    return _cumulative_of_array_api("cumulative_prod", cumprod, x, axis, dtype, initial)


def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The differences between neighbours along an axis.

    Args:
      a: an array of at least one dimension; bools are compared for inequality.
      n: the number of times the difference is taken; each one shortens the axis by one.
      axis: the axis.
      prepend, append: values to put before and after ``a`` along the axis first.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.diff(gnp.array([1, 4, 9, 16]))
      Array([3, 5, 7], dtype=int32)
      >>> gnp.diff(gnp.array([1, 4, 9, 16]), n=2)
      Array([2, 2], dtype=int32)
      >>> gnp.diff(gnp.array([1, 4, 9]), prepend=0)
      Array([1, 3, 5], dtype=int32)

    See also:
      `ediff1d`, `gradient`, `cumsum`
    """
    x = as_array("diff", a)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if n == 0:
        return x
    if x.ndim == 0:
        raise ValueError(f"diff requires input that is at least one dimensional; got {x.aval}")
    place = canonical_axis(axis, x.ndim)
    parts = []
    for part in (prepend, x, append):
        if part is None:
            continue
        array = as_array("diff", part)
        if array.ndim == 0:
            array = broadcast_to(
                array, tuple(1 if i == place else s for i, s in enumerate(x.shape))
            )
        parts.append(array)
    if len(parts) > 1:
        x = lax.concatenate(promoted("diff", *parts), place)
    for _ in range(n):
        if x.shape[place] == 0:
            break
        high = lax.slice_in_dim(x, 1, None, axis=place)
        low = lax.slice_in_dim(x, 0, -1, axis=place)
        x = lax.ne(high, low) if x.dtype == BOOL else lax.sub(high, low)
    return x
