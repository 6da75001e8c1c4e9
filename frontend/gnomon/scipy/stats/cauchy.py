"""The Cauchy distribution about ``loc``."""

from __future__ import annotations

import math

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import log_of_probability, nan_for_invalid, typed_as_outcome


@typed_as_outcome
@nan_for_invalid()
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the Cauchy distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the median.
      scale: half of the width at half of the maximum.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.cauchy.logpdf(gnp.array([0.0, 1.0, 10.0])).round(4)
      Array([-1.1447, -1.8379, -5.7599], dtype=float32)
    """
    x, loc, scale = real_arguments("cauchy.logpdf", x, loc, scale)
    z = (x - loc) / scale
    # The square of a large number may overflow, and beside it 1 is lost.
    is_far = gnp.abs(z) > 1e9
    far = 2 * lax.log(gnp.where(is_far, gnp.abs(z), 1))
    near = gnp.where(is_far, 0, z)
    growth = gnp.where(is_far, far, lax.log1p(near * near))
    return -lax.log(math.pi * scale) - growth


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the Cauchy distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the median.
      scale: half of the width at half of the maximum.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.cauchy.pdf(gnp.array([0.0, 1.0, 10.0])).round(4)
      Array([0.3183, 0.1592, 0.0032], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


@typed_as_outcome
@nan_for_invalid()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function of the Cauchy distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the median.
      scale: half of the width at half of the maximum.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.cauchy.cdf(gnp.array([0.0, 1.0, 10.0])).round(4)
      Array([0.5   , 0.75  , 0.9683], dtype=float32)
    """
    x, loc, scale = real_arguments("cauchy.cdf", x, loc, scale)
    return gnp.arctan2(lax.full_like(x, 1), (loc - x) / scale) / math.pi


@typed_as_outcome
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function of the Cauchy distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the median.
      scale: half of the width at half of the maximum.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.cauchy.logcdf(gnp.array([0.0, 1.0, 10.0])).round(4)
      Array([-0.6931, -0.2877, -0.0322], dtype=float32)
    """
    return log_of_probability(cdf(x, loc, scale), sf(x, loc, scale))


@typed_as_outcome
@nan_for_invalid()
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function of the Cauchy distribution, one minus `cdf`.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the median.
      scale: half of the width at half of the maximum.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.cauchy.sf(gnp.array([0.0, 1.0, 10.0])).round(4)
      Array([0.5   , 0.25  , 0.0317], dtype=float32)
    """
    x, loc, scale = real_arguments("cauchy.sf", x, loc, scale)
    return gnp.arctan2(lax.full_like(x, 1), (x - loc) / scale) / math.pi


@typed_as_outcome
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function of the Cauchy distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the median.
      scale: half of the width at half of the maximum.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.cauchy.logsf(gnp.array([0.0, 1.0, 10.0])).round(4)
      Array([-0.6931, -1.3863, -3.4506], dtype=float32)
    """
    return log_of_probability(sf(x, loc, scale), cdf(x, loc, scale))


def _standard_quantile(q: Array) -> Array:
    """The point below which a standard Cauchy variable lies with probability `q`."""
    # tan(pi (q - 1/2)) loses the digits of a q near 0 or 1; -1 / tan(pi q) does not.
    is_lower = q < 0.5
    tail = gnp.where(is_lower, q, 1 - q)
    is_middle = tail > 0.25
    tangent = lax.tan(math.pi * gnp.where(is_middle, q - 0.5, lax.abs(tail)))
    far = gnp.where(is_lower, -1, 1) / gnp.where(is_middle, 1, tangent)
    return gnp.where(tail < 0, math.nan, gnp.where(is_middle, tangent, far))


@typed_as_outcome
@nan_for_invalid()
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function of the Cauchy distribution, the inverse of `cdf`.

    Args:
      q: probabilities in (0, 1), an array or scalar.
      loc: the median.
      scale: half of the width at half of the maximum.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.cauchy.ppf(gnp.array([0.25, 0.5])).round(4)
      Array([-1.,  0.], dtype=float32)
    """
    q, loc, scale = real_arguments("cauchy.ppf", q, loc, scale)
    return loc + scale * _standard_quantile(q)


@typed_as_outcome
@nan_for_invalid()
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse survival function of the Cauchy distribution, the inverse of `sf`.

    Args:
      q: probabilities in (0, 1), an array or scalar.
      loc: the median.
      scale: half of the width at half of the maximum.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.cauchy.isf(gnp.array([0.25, 0.5])).round(4)
      Array([1., 0.], dtype=float32)
    """
    q, loc, scale = real_arguments("cauchy.isf", q, loc, scale)
    return loc - scale * _standard_quantile(q)
