"""The Laplace distribution about ``loc``."""

from __future__ import annotations

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import nan_for_invalid, typed_as_outcome


@typed_as_outcome
@nan_for_invalid()
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the Laplace distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the mean distance from ``loc``.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.laplace.logpdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([-1.6931, -0.6931, -2.6931], dtype=float32)
    """
    x, loc, scale = real_arguments("laplace.logpdf", x, loc, scale)
    return -lax.abs(x - loc) / scale - lax.log(2 * scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the Laplace distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the mean distance from ``loc``.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.laplace.pdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([0.1839, 0.5   , 0.0677], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


@typed_as_outcome
@nan_for_invalid()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function of the Laplace distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the mean distance from ``loc``.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.laplace.cdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([0.1839, 0.5   , 0.9323], dtype=float32)
    """
    x, loc, scale = real_arguments("laplace.cdf", x, loc, scale)
    z = (x - loc) / scale
    tail = 0.5 * lax.exp(-lax.abs(z))
    return gnp.where(z < 0, tail, 1 - tail)
