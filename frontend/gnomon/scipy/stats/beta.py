"""The beta distribution with parameters a and b, on [loc, loc + scale]."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import (
    log_of_probability,
    nan_for_invalid,
    nan_unless,
    on_support,
    typed_as_outcome,
)


@typed_as_outcome
@nan_for_invalid()
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density of the beta distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a, b: the positive shape parameters.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape; -inf outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.beta.logpdf(gnp.array([0.0, 0.5, 1.5]), 2.0, 3.0).round(4)
      Array([  -inf, 0.4055,   -inf], dtype=float32)
    """
    x, a, b, loc, scale = real_arguments("beta.logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    outside = (z < 0) | (z > 1)
    safe = gnp.where(outside, 0.5, z)
    shape = special.xlogy(a - 1, safe) + special.xlog1py(b - 1, -safe)
    value = shape - special.betaln(a, b) - lax.log(scale)
    valid = (a > 0) & (b > 0) & (scale > 0)
    return gnp.where(valid, gnp.where(outside, -np.inf, value), np.nan)


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density of the beta distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a, b: the positive shape parameters.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape; 0 outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.beta.pdf(gnp.array([0.0, 0.5, 1.5]), 2.0, 3.0).round(4)
      Array([0. , 1.5, 0. ], dtype=float32)
    """
    return lax.exp(logpdf(x, a, b, loc, scale))


@typed_as_outcome
@nan_for_invalid()
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The distribution function of the beta distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a, b: the positive shape parameters.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.beta.cdf(gnp.array([0.0, 0.5, 1.5]), 2.0, 3.0).round(4)
      Array([0.    , 0.6875, 1.    ], dtype=float32)
    """
    x, a, b, loc, scale = real_arguments("beta.cdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    value = on_support(lambda z: lax.betainc(a, b, z), z, (0, 1), (0, 1), 0.5)
    return nan_unless((a > 0) & (b > 0), value)


@typed_as_outcome
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the distribution function of the beta distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a, b: the positive shape parameters.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.beta.logcdf(gnp.array([0.0, 0.5, 1.5]), 2.0, 3.0).round(4)
      Array([   -inf, -0.3747,  0.    ], dtype=float32)
    """
    return log_of_probability(cdf(x, a, b, loc, scale), sf(x, a, b, loc, scale))


@typed_as_outcome
@nan_for_invalid()
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function of the beta distribution, one minus `cdf`.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a, b: the positive shape parameters.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.beta.sf(gnp.array([0.0, 0.5, 1.5]), 2.0, 3.0).round(4)
      Array([1.    , 0.3125, 0.    ], dtype=float32)
    """
    x, a, b, loc, scale = real_arguments("beta.sf", x, a, b, loc, scale)
    z = 1 - (x - loc) / scale
    value = on_support(lambda z: lax.betainc(b, a, z), z, (0, 1), (0, 1), 0.5)
    return nan_unless((a > 0) & (b > 0), value)


@typed_as_outcome
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function of the beta distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a, b: the positive shape parameters.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.beta.logsf(gnp.array([0.0, 0.5, 1.5]), 2.0, 3.0).round(4)
      Array([ 0.    , -1.1632,    -inf], dtype=float32)
    """
    return log_of_probability(sf(x, a, b, loc, scale), cdf(x, a, b, loc, scale))
