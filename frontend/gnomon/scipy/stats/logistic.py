"""The logistic distribution about ``loc``."""

from __future__ import annotations

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import nan_for_invalid, typed_as_outcome


@typed_as_outcome
@nan_for_invalid()
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the logistic distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.logistic.logpdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([-1.6265, -1.3863, -2.2539], dtype=float32)
    """
    x, loc, scale = real_arguments("logistic.logpdf", x, loc, scale)
    z = (x - loc) / scale
    half = z / 2
    return -2 * gnp.logaddexp(half, -half) - lax.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the logistic distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.logistic.pdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([0.1966, 0.25  , 0.105 ], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


@nan_for_invalid()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function of the logistic distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.logistic.cdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([0.2689, 0.5   , 0.8808], dtype=float32)
    """
    x, loc, scale = real_arguments("logistic.cdf", x, loc, scale)
    return special.expit((x - loc) / scale)


@nan_for_invalid()
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function of the logistic distribution, one minus `cdf`.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the mean.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.logistic.sf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([0.7311, 0.5   , 0.1192], dtype=float32)
    """
    x, loc, scale = real_arguments("logistic.sf", x, loc, scale)
    return special.expit((loc - x) / scale)


@typed_as_outcome
@nan_for_invalid()
def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function of the logistic distribution, the inverse of `cdf`.

    Args:
      x: probabilities, an array or scalar; nan outside of [0, 1].
      loc: the mean.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.logistic.ppf(gnp.array([0.25, 0.5])).round(4)
      Array([-1.0986,  0.    ], dtype=float32)
    """
    x, loc, scale = real_arguments("logistic.ppf", x, loc, scale)
    return special.logit(x) * scale + loc


@typed_as_outcome
@nan_for_invalid()
def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse survival function of the logistic distribution, the inverse of `sf`.

    Args:
      x: probabilities, an array or scalar; nan outside of [0, 1].
      loc: the mean.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.logistic.isf(gnp.array([0.25, 0.5])).round(4)
      Array([1.0986, 0.    ], dtype=float32)
    """
    x, loc, scale = real_arguments("logistic.isf", x, loc, scale)
    return loc - special.logit(x) * scale
