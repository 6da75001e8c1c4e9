"""Linear interpolation: `interp`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.numpy._arguments import as_array, promoted
from gnomon.numpy._creation import zeros
from gnomon.numpy._division import mod
from gnomon.numpy._joining import concatenate
from gnomon.numpy._selection import clip, where
from gnomon.numpy._ufuncs import abs as abs_


def _count_at_most(sorted_points: Array, x: Array) -> Array:
    """The number of points that are at most ``x``, by a binary search without branches."""
    size = sorted_points.shape[0]
    count = zeros(x.shape, np.int32)
    for bit in reversed(range(size.bit_length())):
        candidate = count + (1 << bit)
        point = sorted_points[clip(candidate - 1, 0, size - 1)]
        count = where((candidate <= size) & (point <= x), candidate, count)
    return count


def _bound(side: str, given: Any) -> bool:
    """Whether to extrapolate beyond an end; raise if the argument is another string."""
    if isinstance(given, str) and given != "extrapolate":
        raise ValueError(f"interp: {side} must be a number or 'extrapolate', got {given!r}")
    return isinstance(given, str)


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """Linear interpolation between points.

    Args:
      x: the coordinates at which to interpolate.
      xp, fp: the coordinates of the points, which must increase, and their values.
      left, right: values beyond the ends (the first and the last one by default), or "extrapolate".
      period: the period of the coordinates. With a period, ``xp`` need not increase, and ``left``
        and ``right`` are ignored.
    Raises:
      ValueError: ``xp`` and ``fp`` are not vectors of one size; the period is not a scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.interp(gnp.array([0.5, 3.0]), gnp.array([0.0, 1.0, 2.0]), gnp.array([0.0, 4.0, 5.0]))
      Array([2., 5.], dtype=float32)
    """
    points, values = as_array("interp", xp, 1), as_array("interp", fp, 2)
    if points.shape != values.shape or points.ndim != 1:
        raise ValueError(
            "interp: xp and fp must be one-dimensional arrays of one size, got "
            f"{points.shape} and {values.shape}"
        )
    at, points = promoted("interp", x, points, inexact=True)
    (values,) = promoted("interp", values, inexact=True)
    extrapolated = _bound("left", left), _bound("right", right)
    if period is not None:
        cycle = abs_(as_array("interp", period))
        if cycle.ndim:
            raise ValueError(f"interp: period must be a scalar, got shape {cycle.shape}")
        at, points = mod(at, cycle), mod(points, cycle)
        points, values = lax.sort_key_val(points, values)
        points = concatenate([points[-1:] - cycle, points, points[:1] + cycle])
        values = concatenate([values[-1:], values, values[:1]])
    last = points.shape[0] - 1
    upper = clip(_count_at_most(points, at), 1, last)
    lower = upper - 1
    rise, run = values[upper] - values[lower], points[upper] - points[lower]
    # Points that coincide are a step: do not divide there, since the gradient would be nan.
    same = abs_(run) <= np.spacing(np.finfo(points.dtype).eps)
    slope = (at - points[lower]) / where(same, 1, run)
    result = where(same, values[lower], values[lower] + slope * rise)
    if period is not None:
        return result
    if not extrapolated[0]:
        result = where(at < points[0], values[0] if left is None else left, result)
    if not extrapolated[1]:
        result = where(at > points[last], values[last] if right is None else right, result)
    return result


__all__ = ["interp"]
