"""Statistics of samples: `mode`, `rankdata`, `sem`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import gnomon.numpy as gnp
from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.dialects.types import is_inexact
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array, promoted

__all__ = ["ModeResult", "mode", "rankdata", "sem"]


class ModeResult(NamedTuple):
    """The result of `mode`.

    Attributes:
      mode: the most frequent values.
      count: how often each of them occurs.
    """

    mode: Array
    count: Array  # type: ignore[assignment]


def _check_policy(function: str, nan_policy: str) -> None:
    if nan_policy not in ("propagate", "omit", "raise"):
        raise ValueError(
            f"{function}: illegal nan_policy value {nan_policy!r}; expected one of 'propagate', "
            "'omit', 'raise'"
        )
    if nan_policy != "propagate":
        raise NotImplementedError(
            f"{function}: nan_policy={nan_policy!r} is not supported; remove nans first"
        )


def _begins_run(x: Array, axis: int) -> Array:
    """A mask of the elements of a sorted array that differ from the one before; nans are equal."""
    later, earlier = (
        lax.slice_in_dim(x, start, x.shape[axis] - 1 + start, axis=axis) for start in (1, 0)
    )
    differs = gnp.not_equal(later, earlier)
    if is_inexact(x.dtype):
        differs &= ~(gnp.isnan(later) & gnp.isnan(earlier))
    first = tuple(1 if d == axis else n for d, n in enumerate(x.shape))
    return gnp.concatenate([gnp.ones(first, bool), differs], axis)


def _run_starts(begins: Array, axis: int) -> Array:
    """For each element of a sorted array, the index of the first equal element."""
    places = lax.broadcasted_iota(np.int32, begins.shape, axis)
    return lax.cummax(gnp.where(begins, places, 0), axis)


def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent values; of equally frequent values, the smallest.

    Args:
      a: an array.
      axis: the axis to work along; None for the flattened array.
      nan_policy: only ``"propagate"``: nans are a value.
      keepdims: keep the axis with size one.

    Example:
      >>> import gnomon.numpy as gnp
      >>> mode(gnp.array([2, 4, 1, 1, 3, 4, 4]))
      ModeResult(mode=Array(4, dtype=int32), count=Array(3, dtype=int32))
    """
    x = gnp.atleast_1d(as_array("mode", a))
    _check_policy("mode", nan_policy)
    rank = x.ndim
    if axis is None:
        x, axis = gnp.ravel(x), 0
        shape = (1,) * rank if keepdims else ()
    else:
        axis = canonical_axis(axis, rank)
        kept = (1,) if keepdims else ()
        shape = (*x.shape[:axis], *kept, *x.shape[axis + 1 :])
    if not x.shape[axis]:
        dtype = _dtypes.default_float_dtype()
        return ModeResult(gnp.full(shape, np.nan, dtype), gnp.zeros(shape, dtype))
    ordered = gnp.sort(x, axis)
    places = lax.broadcasted_iota(np.int32, x.shape, axis)
    lengths = places - _run_starts(_begins_run(ordered, axis), axis) + 1
    best = gnp.argmax(lengths, axis, keepdims=True)
    values = gnp.take_along_axis(ordered, best, axis)
    counts = gnp.max(lengths, axis, keepdims=True).astype(_dtypes.default_int_dtype())
    return ModeResult(gnp.reshape(values, shape), gnp.reshape(counts, shape))


_METHODS = ("average", "min", "max", "dense", "ordinal")


def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """The rank of each element, counted from one.

    Args:
      a: an array.
      method: the rank of equal elements: the ``"average"``, ``"min"`` or ``"max"`` of their
        positions; ``"dense"``, one more than the number of distinct smaller elements; or
        ``"ordinal"``, distinct ranks in the order of the array.
      axis: the axis to rank along; None for the flattened array.
      nan_policy: only ``"propagate"``: if there is a nan, all ranks are nan.
    Returns:
      Floating-point ranks of the shape of ``a``, one-dimensional without ``axis``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> rankdata(gnp.array([1, 3, 2, 3]))
      Array([1. , 3.5, 2. , 3.5], dtype=float32)
    """
    x = as_array("rankdata", a)
    _check_policy("rankdata", nan_policy)
    if method not in _METHODS:
        raise ValueError(f"unknown method '{method}'; it is one of {', '.join(_METHODS)}")
    if axis is None:
        x, axis = gnp.ravel(x), 0
    axis = canonical_axis(axis, x.ndim)
    dtype = _dtypes.default_float_dtype()
    if not x.size:
        return gnp.zeros(x.shape, dtype)
    order = gnp.argsort(x, axis, stable=True)
    places = gnp.argsort(order, axis)
    begins = _begins_run(gnp.take_along_axis(x, order, axis), axis)
    if method == "ordinal":
        ranks = (places + 1).astype(dtype)
    else:
        if method == "dense":
            ranked = gnp.cumsum(begins, axis).astype(dtype)
        else:
            first = _run_starts(begins, axis)
            # The last element of a run precedes the first of the next run.
            ends = gnp.roll(begins, -1, axis)
            size = x.shape[axis]
            indices = lax.broadcasted_iota(np.int32, x.shape, axis)
            last = lax.cummin(gnp.where(ends, indices, size - 1), axis, reverse=True)
            chosen = {"min": (first, first), "max": (last, last), "average": (first, last)}
            low, high = (v.astype(dtype) for v in chosen[method])
            ranked = 0.5 * (low + high) + 1
        ranks = gnp.take_along_axis(ranked, places, axis)
    if is_inexact(x.dtype):
        ranks = gnp.where(gnp.any(gnp.isnan(x), axis, keepdims=True), np.nan, ranks)
    return ranks


def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean.

    Args:
      a: an array.
      axis: the axis to average along; None for all.
      ddof: the number that is subtracted from the number of elements in the standard deviation.
      nan_policy: ``"propagate"``, or ``"omit"`` to ignore nans.
      keepdims: keep the axis with size one.

    Example:
      >>> import gnomon.numpy as gnp
      >>> print(gnp.round(sem(gnp.array([2.0, 4.0, 4.0, 6.0])), 3))
      0.816
    """
    (x,) = promoted("sem", a, inexact=True)
    if nan_policy == "propagate":
        size = x.size if axis is None else x.shape[axis]
        return gnp.std(x, axis, ddof=ddof, keepdims=keepdims) / gnp.asarray(size**0.5, x.dtype)
    if nan_policy == "omit":
        count = gnp.sum(~gnp.isnan(x), axis, keepdims=keepdims)
        deviation = gnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims)
        return deviation / gnp.sqrt(count).astype(x.dtype)
    raise ValueError(f"sem: nan_policy={nan_policy!r} is not supported; pass 'propagate' or 'omit'")
