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
from gnomon.numpy._reductions import Axis, argmax, argmin, extreme_identity, mask_of, no_out, prod
from gnomon.numpy._reductions import all as all_
from gnomon.numpy._reductions import any as any_
from gnomon.numpy._reductions import max as max_
from gnomon.numpy._reductions import min as min_
from gnomon.numpy._reductions import sum as sum_
from gnomon.numpy._selection import isnan
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
    """`sum` with nan counting as zero."""
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
    """`prod` with nan counting as one."""
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
    """`max` of the elements that are not nan; if there are none, ``initial`` or nan."""
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
    """`min` of the elements that are not nan; if there are none, ``initial`` or nan."""
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
    """`mean` of the elements that are not nan; nan if there are none."""
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
    """`var` of the elements that are not nan; nan if there are too few."""
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
    """The square root of `nanvar`."""
    return lax.sqrt(nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))


def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """`cumsum` with nan counted as zero."""
    return cumsum(_without_nan("nancumsum", a, 0)[0], axis, dtype, out)


def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """`cumprod` with nan counted as one."""
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
    """`argmax` of the elements that are not nan; -1 if all are nan."""
    return _nan_position("nanargmax", argmax, a, axis, out, keepdims)


def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """`argmin` of the elements that are not nan; -1 if all are nan."""
    return _nan_position("nanargmin", argmin, a, axis, out, keepdims)
