"""Integrals of sampled functions."""

from __future__ import annotations

import gnomon.numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array

__all__ = ["trapezoid"]


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """The integral by the trapezoidal rule.

    Args:
      y: values.
      x: the coordinates of the values; None if they are equidistant.
      dx: the distance between neighbouring values, if ``x`` is None.
      axis: the axis to integrate along.

    Example:
      >>> import gnomon.numpy as gnp
      >>> trapezoid(gnp.array([1.0, 2.0, 3.0]))
      Array(4., dtype=float32)
    """
    return gnp.trapezoid(y, x, dx, axis)
