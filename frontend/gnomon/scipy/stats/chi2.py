"""The chi-square distribution with df degrees of freedom."""

from __future__ import annotations

import math

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import (
    is_positive,
    log_of_probability,
    nan_for_invalid,
    nan_unless,
    on_support,
    typed_as_outcome,
)


@typed_as_outcome
@nan_for_invalid(df=is_positive)
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the chi-square distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      df: the degrees of freedom, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape; -inf outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.chi2.logpdf(gnp.array([-1.0, 1.0, 5.0]), 3.0).round(4)
      Array([   -inf, -1.4189, -2.6142], dtype=float32)
    """
    x, df, loc, scale = real_arguments("chi2.logpdf", x, df, loc, scale)
    z = (x - loc) / scale
    below = z < 0
    safe, half = gnp.where(below, 1, z), df / 2
    normalizer = half * math.log(2) + lax.lgamma(half) + lax.log(scale)
    value = special.xlogy(half - 1, safe) - safe / 2 - normalizer
    return gnp.where(below, -np.inf, value)


@typed_as_outcome
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the chi-square distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      df: the degrees of freedom, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape; 0 outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.chi2.pdf(gnp.array([-1.0, 1.0, 5.0]), 3.0).round(4)
      Array([0.    , 0.242 , 0.0732], dtype=float32)
    """
    return lax.exp(logpdf(x, df, loc, scale))


@typed_as_outcome
@nan_for_invalid(df=is_positive)
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function of the chi-square distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      df: the degrees of freedom, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.chi2.cdf(gnp.array([-1.0, 1.0, 5.0]), 3.0).round(4)
      Array([0.    , 0.1987, 0.8282], dtype=float32)
    """
    x, df, loc, scale = real_arguments("chi2.cdf", x, df, loc, scale)
    z = (x - loc) / scale / 2
    value = on_support(lambda z: lax.igamma(df / 2, z), z, (0, np.inf), (0, 1), 1.0)
    return nan_unless(df > 0, value)


@typed_as_outcome
def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function of the chi-square distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      df: the degrees of freedom, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.chi2.logcdf(gnp.array([-1.0, 1.0, 5.0]), 3.0).round(4)
      Array([   -inf, -1.6157, -0.1885], dtype=float32)
    """
    return log_of_probability(cdf(x, df, loc, scale), sf(x, df, loc, scale))


@typed_as_outcome
@nan_for_invalid(df=is_positive)
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function of the chi-square distribution, one minus `cdf`.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      df: the degrees of freedom, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.chi2.sf(gnp.array([-1.0, 1.0, 5.0]), 3.0).round(4)
      Array([1.    , 0.8013, 0.1718], dtype=float32)
    """
    x, df, loc, scale = real_arguments("chi2.sf", x, df, loc, scale)
    z = (x - loc) / scale / 2
    value = on_support(lambda z: lax.igammac(df / 2, z), z, (0, np.inf), (1, 0), 1.0)
    return nan_unless(df > 0, value)


@typed_as_outcome
def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function of the chi-square distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      df: the degrees of freedom, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.chi2.logsf(gnp.array([-1.0, 1.0, 5.0]), 3.0).round(4)
      Array([ 0.    , -0.2216, -1.7614], dtype=float32)
    """
    return log_of_probability(sf(x, df, loc, scale), cdf(x, df, loc, scale))
