"""The gamma distribution with shape parameter a."""

from __future__ import annotations

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
@nan_for_invalid(a=is_positive)
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the gamma distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: one over the rate.
    Returns:
      An array of the broadcast shape; -inf outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gamma.logpdf(gnp.array([-1.0, 1.0, 5.0]), 2.0).round(4)
      Array([   -inf, -1.    , -3.3906], dtype=float32)
    """
    x, a, loc, scale = real_arguments("gamma.logpdf", x, a, loc, scale)
    z = (x - loc) / scale
    below = z < 0
    safe = gnp.where(below, 1, z)
    value = special.xlogy(a - 1, safe) - safe - lax.lgamma(a) - lax.log(scale)
    return gnp.where(below, -np.inf, value)


@typed_as_outcome
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the gamma distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: one over the rate.
    Returns:
      An array of the broadcast shape; 0 outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gamma.pdf(gnp.array([-1.0, 1.0, 5.0]), 2.0).round(4)
      Array([0.    , 0.3679, 0.0337], dtype=float32)
    """
    return lax.exp(logpdf(x, a, loc, scale))


@typed_as_outcome
@nan_for_invalid(a=is_positive)
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function of the gamma distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: one over the rate.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gamma.cdf(gnp.array([-1.0, 1.0, 5.0]), 2.0).round(4)
      Array([0.    , 0.2642, 0.9596], dtype=float32)
    """
    x, a, loc, scale = real_arguments("gamma.cdf", x, a, loc, scale)
    z = (x - loc) / scale
    value = on_support(lambda z: lax.igamma(a, z), z, (0, np.inf), (0, 1), 1.0)
    return nan_unless(a > 0, value)


@typed_as_outcome
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function of the gamma distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: one over the rate.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gamma.logcdf(gnp.array([-1.0, 1.0, 5.0]), 2.0).round(4)
      Array([   -inf, -1.3309, -0.0413], dtype=float32)
    """
    return log_of_probability(cdf(x, a, loc, scale), sf(x, a, loc, scale))


@nan_for_invalid(a=is_positive)
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function of the gamma distribution, one minus `cdf`.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: one over the rate.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gamma.sf(gnp.array([-1.0, 1.0, 5.0]), 2.0).round(4)
      Array([1.    , 0.7358, 0.0404], dtype=float32)
    """
    x, a, loc, scale = real_arguments("gamma.sf", x, a, loc, scale)
    z = (x - loc) / scale
    value = on_support(lambda z: lax.igammac(a, z), z, (0, np.inf), (1, 0), 1.0)
    return nan_unless(a > 0, value)


def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function of the gamma distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: one over the rate.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gamma.logsf(gnp.array([-1.0, 1.0, 5.0]), 2.0).round(4)
      Array([ 0.    , -0.3069, -3.2082], dtype=float32)
    """
    return log_of_probability(sf(x, a, loc, scale), cdf(x, a, loc, scale))
