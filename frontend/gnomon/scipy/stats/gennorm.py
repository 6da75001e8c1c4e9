"""The generalized normal distribution with the exponent beta."""

from __future__ import annotations

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import is_positive, nan_for_invalid


@nan_for_invalid(beta=is_positive)
def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density of the generalized normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      beta: the exponent: 1 is the Laplace distribution, 2 a normal one with variance 1/2.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gennorm.logpdf(gnp.array([0.0, 1.0, 2.0]), 2.0).round(4)
      Array([-0.5724, -1.5724, -4.5724], dtype=float32)
    """
    x, beta = real_arguments("gennorm.logpdf", x, beta)
    return lax.log(beta / 2) - lax.lgamma(1 / beta) - lax.pow(lax.abs(x), beta)


def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The density of the generalized normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      beta: the exponent: 1 is the Laplace distribution, 2 a normal one with variance 1/2.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gennorm.pdf(gnp.array([0.0, 1.0, 2.0]), 2.0).round(4)
      Array([0.5642, 0.2076, 0.0103], dtype=float32)
    """
    return lax.exp(logpdf(x, beta))


@nan_for_invalid(beta=is_positive)
def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The distribution function of the generalized normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      beta: the exponent: 1 is the Laplace distribution, 2 a normal one with variance 1/2.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gennorm.cdf(gnp.array([0.0, 1.0, 2.0]), 2.0).round(4)
      Array([0.5   , 0.9214, 0.9977], dtype=float32)
    """
    x, beta = real_arguments("gennorm.cdf", x, beta)
    part = lax.igamma(1 / beta, lax.pow(lax.abs(x), beta))
    return 0.5 * (1 + lax.sign(x) * part)
