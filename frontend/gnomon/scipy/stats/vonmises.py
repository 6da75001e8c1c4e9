"""The von Mises distribution with concentration kappa, on the circle."""

from __future__ import annotations

import math

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import nan_unless


def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The logarithm of the density of the von Mises distribution.

    Args:
      x: the angle in radians, an array or scalar that broadcasts with the parameters.
      kappa: the concentration, not negative; 0 is uniform on the circle.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.vonmises.logpdf(gnp.array([0.0, 1.0, 3.0]), 2.0).round(4)
      Array([-0.6619, -1.5813, -4.6419], dtype=float32)
    """
    x, kappa = real_arguments("vonmises.logpdf", x, kappa)
    normalizer = lax.log(2 * math.pi * lax.bessel_i0e(kappa))
    return nan_unless(kappa >= 0, kappa * (lax.cos(x) - 1) - normalizer)


def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The density of the von Mises distribution.

    Args:
      x: the angle in radians, an array or scalar that broadcasts with the parameters.
      kappa: the concentration, not negative; 0 is uniform on the circle.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.vonmises.pdf(gnp.array([0.0, 1.0, 3.0]), 2.0).round(4)
      Array([0.5159, 0.2057, 0.0096], dtype=float32)
    """
    return lax.exp(logpdf(x, kappa))
