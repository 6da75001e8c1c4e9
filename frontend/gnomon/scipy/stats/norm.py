"""The normal distribution with mean ``loc`` and standard deviation ``scale``."""

from __future__ import annotations

import math

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import nan_for_invalid, typed_as_outcome

_HALF_LOG_2PI = math.log(2 * math.pi) / 2


@typed_as_outcome
@nan_for_invalid()
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the standard deviation, not the variance.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.norm.logpdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([-1.4189, -0.9189, -2.9189], dtype=float32)
    """
    x, loc, scale = real_arguments("norm.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -0.5 * z * z - lax.log(scale) - _HALF_LOG_2PI


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the standard deviation, not the variance.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.norm.pdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([0.242 , 0.3989, 0.054 ], dtype=float32)
      >>> stats.norm.pdf(1.0, loc=1.0, scale=2.0).round(4)
      Array(0.1995, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@nan_for_invalid()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function of the normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the standard deviation, not the variance.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.norm.cdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([0.1587, 0.5   , 0.9772], dtype=float32)
      >>> stats.norm.cdf(1.0, loc=1.0, scale=2.0).round(4)
      Array(0.5, dtype=float32)
    """
    x, loc, scale = real_arguments("norm.cdf", x, loc, scale)
    return special.ndtr((x - loc) / scale)


@nan_for_invalid()
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function of the normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the standard deviation, not the variance.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.norm.logcdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([-1.841 , -0.6931, -0.023 ], dtype=float32)
      >>> stats.norm.logcdf(-40.0).round(2)
      Array(-804.61, dtype=float32)
    """
    x, loc, scale = real_arguments("norm.logcdf", x, loc, scale)
    return special.log_ndtr((x - loc) / scale)


@nan_for_invalid()
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function of the normal distribution, one minus `cdf`.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the standard deviation, not the variance.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.norm.sf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([0.8413, 0.5   , 0.0228], dtype=float32)
    """
    x, loc, scale = real_arguments("norm.sf", x, loc, scale)
    return special.ndtr((loc - x) / scale)


@nan_for_invalid()
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function of the normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the standard deviation, not the variance.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.norm.logsf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([-0.1728, -0.6931, -3.7832], dtype=float32)
      >>> stats.norm.logsf(40.0).round(2)
      Array(-804.61, dtype=float32)
    """
    x, loc, scale = real_arguments("norm.logsf", x, loc, scale)
    return special.log_ndtr((loc - x) / scale)


@nan_for_invalid()
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function of the normal distribution, the inverse of `cdf`.

    Args:
      q: probabilities, an array or scalar; nan outside of [0, 1].
      loc: the mean.
      scale: the standard deviation, not the variance.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.norm.ppf(gnp.array([0.025, 0.5])).round(4)
      Array([-1.96,  0.  ], dtype=float32)
      >>> stats.norm.ppf(0.5, loc=1.0, scale=2.0).round(4)
      Array(1., dtype=float32)
    """
    q, loc, scale = real_arguments("norm.ppf", q, loc, scale)
    return special.ndtri(q) * scale + loc


@nan_for_invalid()
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse survival function of the normal distribution, the inverse of `sf`.

    Args:
      q: probabilities, an array or scalar; nan outside of [0, 1].
      loc: the mean.
      scale: the standard deviation, not the variance.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.norm.isf(gnp.array([0.025, 0.5])).round(4)
      Array([1.96, 0.  ], dtype=float32)
    """
    q, loc, scale = real_arguments("norm.isf", q, loc, scale)
    return loc - special.ndtri(q) * scale
