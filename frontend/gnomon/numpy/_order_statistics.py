"""Medians, quantiles and percentiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._tracing.bind import with_weak_type
from gnomon.dialects.types import is_complex
from gnomon.lax._creation import converted
from gnomon.numpy._accumulations import cumsum
from gnomon.numpy._arguments import as_array, axis_tuple, promoted
from gnomon.numpy._manipulation import expand_dims, moveaxis, ravel, reshape
from gnomon.numpy._predicates import isnan
from gnomon.numpy._reductions import any, sum
from gnomon.numpy._selection import where
from gnomon.numpy._taking import take_along_axis

Axis = int | tuple[int, ...] | None

METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _no_buffers(name: str, out: Any, overwrite_input: bool) -> None:
    if out is not None or overwrite_input:
        raise ValueError(f"{name} does not support overwrite_input=True or out != None")


def _rows(x: Array, axes: tuple[int, ...]) -> Array:
    """``x`` with the axes merged into one, which is the last."""
    kept = [d for d in range(x.ndim) if d not in axes]
    moved = lax.transpose(x, (*kept, *axes))
    shape = (*(x.shape[d] for d in kept), math.prod(x.shape[d] for d in axes))
    return lax.reshape(moved, shape)


def _weights_like(x: Array, weights: Array, axis: Axis, axes: tuple[int, ...]) -> Array:
    """The weights in the shape of ``x``; they may be given for the reduced axes only."""
    if weights.shape == x.shape:
        return weights
    if axis is None:
        raise ValueError("Weights shape must match 'a' shape when axis is None.")
    wanted = tuple(x.shape[d] for d in axes)
    if weights.shape != wanted:
        raise ValueError(f"Weights shape {weights.shape} must match reduction axes {wanted}")
    return lax.broadcast_in_dim(weights, x.shape, axes)


def _quantile(
    name: str,
    a: Any,
    q: Any,
    axis: Axis,
    method: str,
    keepdims: bool,
    weights: Any,
    *,
    skip_nans: bool,
) -> Array:
    if method not in METHODS:
        raise ValueError(f"method can only be one of {', '.join(METHODS)}; got {method!r}")
    x, fraction = as_array(name, a, 0), as_array(name, q, 1)
    if fraction.ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {fraction.shape}")
    # 16-bit floats do not hold the positions of some thousand elements.
    wide = np.promote_types(_dtypes.to_inexact_dtype(fraction.dtype), np.float32)
    fraction = converted(fraction, wide)
    axes = axis_tuple(name, axis, x.ndim)
    if weights is None:
        (x,) = promoted(name, x, inexact=True)
        w = None
    else:
        w = as_array(name, weights, 2)
        if is_complex(w.dtype):
            raise ValueError("Weights cannot be complex types.")
        if method != "inverted_cdf":
            raise NotImplementedError(
                f"{method} doesn't support weights. Only method 'inverted_cdf' supports weights."
            )
        x, w = promoted(name, x, w, inexact=True)
        w = _rows(_weights_like(x, w, axis, axes), axes)
    if is_complex(x.dtype):
        raise ValueError(f"{name} does not support complex input, as it has no order.")
    dtype, rows = x.dtype, _rows(x, axes)
    if not rows.shape[-1]:
        raise ValueError(f"{name} of no elements: shape {x.shape} is empty along axis {axis}")
    is_nan = isnan(rows)
    if not skip_nans:
        # The quantile of a row with a nan is nan.
        rows = where(any(is_nan, -1, keepdims=True), math.nan, rows)
        is_nan = isnan(rows)
    last = rows.ndim - 1
    if w is None:
        ordered = lax.sort(rows)
        assert isinstance(ordered, Array)
    else:
        ordered, w = lax.sort_key_val(rows, w, last)
    work = fraction.dtype
    count = sum(~is_nan, -1, work) if skip_nans else lax.full(rows.shape[:-1], rows.shape[-1], work)
    flat = ravel(fraction)
    if method == "inverted_cdf":
        result = _inverted_cdf(ordered, w, flat, count, skip_nans)
    else:
        result = _interpolated(ordered, flat, count, method)
    result = converted(moveaxis(result, -1, 0), dtype)
    if keepdims:
        result = expand_dims(result, tuple(d + 1 for d in axes))
    if not fraction.ndim:
        result = reshape(result, result.shape[1:])
    return with_weak_type(result, False)


def _interpolated(ordered: Array, q: Array, count: Array, method: str) -> Array:
    """Quantiles ``[rows..., q]`` between neighbours in sorted rows."""
    end = expand_dims(count, -1) - 1
    place = lax.broadcast_to_rank(q, end.ndim) * end
    low, high = lax.floor(place), lax.ceil(place)
    upper_weight = place - low
    index = _dtypes.default_int_dtype()

    def at(position: Array) -> Array:
        inside = lax.max(lax.full_like(position, 0), lax.min(position, end + 0 * position))
        return take_along_axis(ordered, converted(inside, index), -1)

    below, above = at(low), at(high)
    if method == "lower":
        return below
    if method == "higher":
        return above
    if method == "nearest":
        return where(upper_weight <= 0.5, below, above)
    if method == "midpoint":
        return (below + above) * 0.5
    lower_weight = 1 - upper_weight
    return converted(below, q.dtype) * lower_weight + converted(above, q.dtype) * upper_weight


def _inverted_cdf(
    ordered: Array, weights: Array | None, q: Array, count: Array, skip_nans: bool
) -> Array:
    """The first element at which the cumulative fraction of the weights reaches q."""
    absent, index = isnan(ordered), _dtypes.default_int_dtype()
    unknown = lax.eq(count, lax.full_like(count, 0)) if skip_nans else any(absent, -1)
    counts = expand_dims(count, -1)
    if weights is None:
        place = lax.ceil(lax.broadcast_to_rank(q, counts.ndim) * counts) - 1
        before = converted(place, index)
    else:
        bad = (weights < 0) | isnan(weights)
        unknown = unknown | any(bad, -1)
        # 16-bit floats do not hold the sums of some thousand weights.
        reached = cumsum(where(bad | absent, 0, converted(weights, q.dtype)), -1)
        target = lax.broadcast_to_rank(q, reached.ndim) * reached[..., -1:]
        before = sum(expand_dims(reached, -2) < expand_dims(target, -1), -1, index)
    end = converted(counts, index) - 1
    place = lax.max(lax.full_like(before, 0), lax.min(before, end + 0 * before))
    result = take_along_axis(ordered, place, -1)
    return where(expand_dims(unknown, -1), math.nan, result)


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Quantiles: the values below which given fractions of the elements lie.

    Args:
      a: an array of real numbers; a nan makes the result nan.
      q: fractions between 0 and 1, a scalar or a 1-d array.
      axis: the dimension, or a tuple of them; None: all.
      out, overwrite_input: not supported.
      method: the value between two elements: their ``"linear"`` interpolation, the ``"lower"``,
        ``"higher"`` or ``"nearest"`` one, or their ``"midpoint"``; or ``"inverted_cdf"``: the first
        element at which the cumulative fraction of the weights reaches ``q``.
      keepdims: keep reduced dimensions, with size one.
      weights: the weight of each element, for ``"inverted_cdf"`` only.
    Returns:
      An array of floating dtype; the dimension of ``q``, if it has one, comes first.

    Example:
      >>> import gnomon.numpy as gnp
      >>> quantile(gnp.arange(5.0), gnp.array([0.25, 0.6]))
      Array([1. , 2.4], dtype=float32)
    """
    _no_buffers("quantile", out, overwrite_input)
    return _quantile("quantile", a, q, axis, method, keepdims, weights, skip_nans=False)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The quantiles along axes of the elements that are not nan.

    Args:
      a: an array of real numbers.
      q: fractions in [0, 1], an array or scalar; its dimensions come first in the result.
      axis: the axis or axes to reduce; None reduces all of them.
      out, overwrite_input: not supported.
      method: the interpolation between elements, as in `quantile`.
      keepdims: keep the reduced dimensions, with size one.
      weights: a weight for each element, as in `quantile`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nanquantile(gnp.array([1.0, gnp.nan, 3.0]), 0.5)
      Array(2., dtype=float32)

    See also:
      `quantile`
    """
    _no_buffers("nanquantile", out, overwrite_input)
    return _quantile("nanquantile", a, q, axis, method, keepdims, weights, skip_nans=True)


def _fraction_of_percent(name: str, q: Any) -> Array:
    (percent,) = promoted(name, as_array(name, q, 1), inexact=True)
    return percent / 100


@takes_out_sharding
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """The percentiles along axes: `quantile` with fractions in percent.

    Args:
      a: an array of real numbers.
      q: percentages in [0, 100], an array or scalar; its dimensions come first in the result.
      axis: the axis or axes to reduce; None reduces all of them.
      out, overwrite_input: not supported.
      method: the interpolation between elements, as in `quantile`.
      keepdims: keep the reduced dimensions, with size one.
      weights: a weight for each element, as in `quantile`.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.percentile(gnp.array([1.0, 2.0, 4.0]), gnp.array([0, 50, 75]))
      Array([1., 2., 3.], dtype=float32)

    See also:
      `quantile`, `median`
    """
    _no_buffers("percentile", out, overwrite_input)
    fraction = _fraction_of_percent("percentile", q)
    return _quantile("percentile", a, fraction, axis, method, keepdims, weights, skip_nans=False)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The percentiles along axes of the elements that are not nan.

    Args:
      a: an array of real numbers.
      q: percentages in [0, 100], an array or scalar; its dimensions come first in the result.
      axis: the axis or axes to reduce; None reduces all of them.
      out, overwrite_input: not supported.
      method: the interpolation between elements, as in `quantile`.
      keepdims: keep the reduced dimensions, with size one.
      weights: a weight for each element, as in `quantile`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nanpercentile(gnp.array([1.0, gnp.nan, 3.0]), 50)
      Array(2., dtype=float32)

    See also:
      `percentile`
    """
    _no_buffers("nanpercentile", out, overwrite_input)
    fraction = _fraction_of_percent("nanpercentile", q)
    return _quantile("nanpercentile", a, fraction, axis, method, keepdims, weights, skip_nans=True)


def median(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle one of the sorted elements, or the mean of the two in the middle.

    Args:
      a: an array of real numbers; a nan makes the result nan.
      axis: the dimension, or a tuple of them; None: all.
      out, overwrite_input: not supported.
      keepdims: keep reduced dimensions, with size one.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.median(gnp.array([7, 1, 3]))
      Array(3., dtype=float32)
      >>> gnp.median(gnp.array([[1.0, 2.0], [3.0, gnp.nan]]), axis=1)
      Array([1.5, nan], dtype=float32)

    See also:
      `quantile`, `nanmedian`
    """
    _no_buffers("median", out, overwrite_input)
    half = np.float32(0.5)
    return _quantile("median", a, half, axis, "midpoint", keepdims, None, skip_nans=False)


def nanmedian(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The median along axes of the elements that are not nan.

    Args:
      a: an array of real numbers.
      axis: the axis or axes to reduce; None reduces all of them.
      out, overwrite_input: not supported.
      keepdims: keep the reduced dimensions, with size one.
    Returns:
      A floating point array; nan where all elements are nan.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nanmedian(gnp.array([1.0, gnp.nan, 2.0, 4.0]))
      Array(2., dtype=float32)

    See also:
      `median`
    """
    _no_buffers("nanmedian", out, overwrite_input)
    half = np.float32(0.5)
    return _quantile("nanmedian", a, half, axis, "midpoint", keepdims, None, skip_nans=True)


__all__ = [
    "median",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "percentile",
    "quantile",
]
