"""The exponential distribution with a given scale, on [loc, inf)."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import log1m_exp, nan_for_invalid


@nan_for_invalid()
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the exponential distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the lower end of the support.
      scale: the mean, which is one over the rate.
    Returns:
      An array of the broadcast shape; -inf outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.expon.logpdf(gnp.array([-1.0, 0.5, 2.0])).round(4)
      Array([-inf, -0.5, -2. ], dtype=float32)
    """
    x, loc, scale = real_arguments("expon.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return gnp.where(z < 0, -np.inf, -z - lax.log(scale))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the exponential distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the lower end of the support.
      scale: the mean, which is one over the rate.
    Returns:
      An array of the broadcast shape; 0 outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.expon.pdf(gnp.array([-1.0, 0.5, 2.0])).round(4)
      Array([0.    , 0.6065, 0.1353], dtype=float32)
      >>> stats.expon.pdf(2.0, scale=1 / 3.0).round(4)  # The rate 3.
      Array(0.0074, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


def _distance(x: Array, loc: Array, scale: Array) -> Array:
    """The standardized argument, at least 0."""
    z = (x - loc) / scale
    # The derivative at the edge of the support is that from inside; `maximum` would halve it.
    return gnp.where(z < 0, 0, z)


@nan_for_invalid()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function of the exponential distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the lower end of the support.
      scale: the mean, which is one over the rate.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.expon.cdf(gnp.array([-1.0, 0.5, 2.0])).round(4)
      Array([0.    , 0.3935, 0.8647], dtype=float32)
      >>> stats.expon.cdf(2.0, scale=1 / 3.0).round(4)  # The rate 3.
      Array(0.9975, dtype=float32, weak_type=True)
    """
    x, loc, scale = real_arguments("expon.cdf", x, loc, scale)
    return -lax.expm1(-_distance(x, loc, scale))


@nan_for_invalid()
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function of the exponential distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the lower end of the support.
      scale: the mean, which is one over the rate.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.expon.logcdf(gnp.array([-1.0, 0.5, 2.0])).round(4)
      Array([   -inf, -0.9328, -0.1454], dtype=float32)
    """
    x, loc, scale = real_arguments("expon.logcdf", x, loc, scale)
    z = (x - loc) / scale
    below = z < 0
    return gnp.where(below, -np.inf, log1m_exp(gnp.where(below, 1, z)))


@nan_for_invalid()
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function of the exponential distribution, one minus `cdf`.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the lower end of the support.
      scale: the mean, which is one over the rate.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.expon.sf(gnp.array([-1.0, 0.5, 2.0])).round(4)
      Array([1.    , 0.6065, 0.1353], dtype=float32)
    """
    x, loc, scale = real_arguments("expon.sf", x, loc, scale)
    return lax.exp(-_distance(x, loc, scale))


@nan_for_invalid()
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function of the exponential distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the lower end of the support.
      scale: the mean, which is one over the rate.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.expon.logsf(gnp.array([-1.0, 0.5, 2.0])).round(4)
      Array([-0. , -0.5, -2. ], dtype=float32)
    """
    x, loc, scale = real_arguments("expon.logsf", x, loc, scale)
    return -_distance(x, loc, scale)


@nan_for_invalid()
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function of the exponential distribution, the inverse of `cdf`.

    Args:
      q: probabilities, an array or scalar; nan outside of [0, 1].
      loc: the lower end of the support.
      scale: the mean, which is one over the rate.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.expon.ppf(gnp.array([0.0, 0.5])).round(4)
      Array([0.    , 0.6931], dtype=float32)
    """
    q, loc, scale = real_arguments("expon.ppf", q, loc, scale)
    inside = (q >= 0) & (q <= 1)
    return gnp.where(inside, loc - scale * lax.log1p(-q), np.nan)
