"""Products in the array API's form, and accumulations and positions that skip nan."""

from __future__ import annotations

from typing import Any

from gnomon import lax
from gnomon._array import Array
from gnomon.dialects.types import is_inexact
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array
from gnomon.numpy._reductions import all as all_
from gnomon.numpy._reductions import argmax, argmin, cumprod, cumsum, extreme_identity
from gnomon.numpy._selection import isnan, where


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """`cumprod` in the array API's form; with ``include_initial`` a one comes first.

    Raises:
      ValueError: no axis is given for an array of other than one dimension.
    """
    array = as_array("cumulative_prod", x)
    if axis is None:
        if array.ndim != 1:
            raise ValueError(
                f"cumulative_prod: axis must be given for an array of {array.ndim} dimensions"
            )
        axis = 0
    place = canonical_axis(axis, array.ndim)
    result = cumprod(array, place, dtype)
    if not include_initial:
        return result
    config = [(1 if i == place else 0, 0, 0) for i in range(result.ndim)]
    return lax.pad(result, lax.full((), 1, result.dtype), config)


def _replaced(function: str, a: Any, value: Any) -> Array:
    x = as_array(function, a)
    return where(isnan(x), lax.full_like(x, value), x) if is_inexact(x.dtype) else x


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """`cumsum` with nan counted as zero."""
    return cumsum(_replaced("nancumsum", a, 0), axis, dtype, out)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """`cumprod` with nan counted as one."""
    return cumprod(_replaced("nancumprod", a, 1), axis, dtype, out)


def _nan_position(
    function: str, find: Any, a: Any, axis: int | None, out: Any, keepdims: bool | None
) -> Array:
    x = as_array(function, a)
    if out is not None:
        raise NotImplementedError(f"{function}: the argument out is not supported")
    if not is_inexact(x.dtype):
        return find(x, axis=axis, keepdims=keepdims)
    missing = isnan(x)
    worst = extreme_identity(function, x.dtype)
    found = find(where(missing, worst, x), axis=axis, keepdims=keepdims)
    nothing = all_(missing, axis=axis, keepdims=bool(keepdims))
    return where(nothing, lax.full_like(found, -1), found)


def nanargmax(
    a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """`argmax` of what is not nan; -1 where everything is."""
    return _nan_position("nanargmax", argmax, a, axis, out, keepdims)


def nanargmin(
    a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """`argmin` of what is not nan; -1 where everything is."""
    return _nan_position("nanargmin", argmin, a, axis, out, keepdims)


__all__ = ["cumulative_prod", "nanargmax", "nanargmin", "nancumprod", "nancumsum"]
