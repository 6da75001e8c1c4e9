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
    """Cumulative sums along an axis, or of the flat array if there is no axis."""
    return _cumulative("cumsum", lax.cumsum, a, axis, dtype, out)


def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Cumulative products along an axis, or of the flat array if there is no axis."""
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
    """`cumsum` with the signature of the array API; with ``include_initial``, a zero comes first.

    By default, narrow integers are summed in the default integer dtype, as by `sum`.

    Raises:
      ValueError: no axis is given, and the array does not have exactly one dimension.
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
    """`cumprod` with the signature of the array API; with ``include_initial``, a one comes first.

    Raises:
      ValueError: no axis is given, and the array does not have exactly one dimension.
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
    """The ``n``-th differences of neighbours along an axis."""
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
