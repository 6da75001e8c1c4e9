"""Trends of signals."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

import gnomon.numpy as gnp
from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import promoted

__all__ = ["detrend"]


def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Array:
    """Remove the mean or the linear trend from data.

    Args:
      data: an array.
      axis: the axis of the trend.
      type: "linear" or "constant".
      bp: the indices at which new trends begin.
      overwrite_data: must be None, because arrays are immutable.
    Raises:
      ValueError: the type is unknown, or an index is beyond the data.

    Example:
      >>> import gnomon.numpy as gnp
      >>> detrend(gnp.array([1.0, 2.0, 6.0]), type="constant")
      Array([-2., -1.,  3.], dtype=float32)
    """
    if overwrite_data is not None:
        raise NotImplementedError("detrend: arrays are immutable, overwrite_data is not supported")
    if type not in ("constant", "linear"):
        raise ValueError(f"detrend: type must be 'linear' or 'constant', got {type!r}")
    (x,) = promoted("detrend", gnp.asarray(data), inexact=True)
    if type == "constant":
        return x - gnp.mean(x, axis, keepdims=True)
    place = canonical_axis(axis, x.ndim)
    size = x.shape[place]
    breaks = sorted({0, size, *(int(b) for b in np.atleast_1d(np.asarray(bp)))})
    if breaks[0] < 0 or breaks[-1] > size:
        raise ValueError(f"detrend: breaks must be in [0, {size}], got {bp}")
    parts = [
        _without_trend(lax.slice_in_dim(x, start, stop, axis=place), place)
        for start, stop in itertools.pairwise(breaks)
    ]
    return gnp.concatenate(parts, place) if parts else x


def _without_trend(x: Array, axis: int) -> Array:
    """The residuals of a line whose slope is the covariance over the variance of the positions."""
    size = x.shape[axis]
    places = np.arange(size) - (size - 1) / 2
    shape = tuple(size if d == axis else 1 for d in range(x.ndim))
    t = gnp.asarray(places.reshape(shape).astype(x.dtype))
    centred = x - gnp.mean(x, axis, keepdims=True)
    spread = float(np.sum(places * places))
    slope = gnp.sum(t * centred, axis, keepdims=True) / (spread if spread else 1.0)
    return centred - slope * t
