"""The Pareto distribution with shape parameter b."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import is_positive, log1m_exp, nan_for_invalid, typed_as_outcome


@custom_jvp
def _times_log(b: Array, z: Array) -> Array:
    """``b log(z)``, which is 0 where ``z`` is 1, also if ``b`` is infinite."""
    return gnp.where(gnp.equal(z, 1), 0, b) * lax.log(z)


_times_log.defjvps(lambda t, out, b, z: t * lax.log(z), lambda t, out, b, z: t * (b / z))


@typed_as_outcome
@nan_for_invalid(b=is_positive)
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the Pareto distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      b: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape; -inf outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.pareto.logpdf(gnp.array([0.5, 1.5, 2.0]), 3.0).round(4)
      Array([   -inf, -0.5232, -1.674 ], dtype=float32)
    """
    x, b, loc, scale = real_arguments("pareto.logpdf", x, b, loc, scale)
    z = (x - loc) / scale
    below = z < 1
    safe = gnp.where(below, 1, z)
    value = lax.log(b / scale) - _times_log(b + 1, safe)
    return gnp.where(below, -np.inf, value)


@typed_as_outcome
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the Pareto distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      b: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape; 0 outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.pareto.pdf(gnp.array([0.5, 1.5, 2.0]), 3.0).round(4)
      Array([0.    , 0.5926, 0.1875], dtype=float32)
    """
    return lax.exp(logpdf(x, b, loc, scale))


@typed_as_outcome
@nan_for_invalid(b=is_positive)
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function of the Pareto distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      b: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.pareto.logsf(gnp.array([0.5, 1.5, 2.0]), 3.0).round(4)
      Array([-0.    , -1.2164, -2.0794], dtype=float32)
    """
    x, b, loc, scale = real_arguments("pareto.logsf", x, b, loc, scale)
    z = (x - loc) / scale
    # The derivative at the edge of the support is that from inside; `maximum` would halve it.
    below = z < 1
    # Below the support, an infinite ``b`` would make this nan.
    return gnp.where(below, -0.0, -_times_log(b, gnp.where(below, 1, z)))


@typed_as_outcome
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function of the Pareto distribution, one minus `cdf`.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      b: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.pareto.sf(gnp.array([0.5, 1.5, 2.0]), 3.0).round(4)
      Array([1.    , 0.2963, 0.125 ], dtype=float32)
    """
    return lax.exp(logsf(x, b, loc, scale))


@typed_as_outcome
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function of the Pareto distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      b: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.pareto.cdf(gnp.array([0.5, 1.5, 2.0]), 3.0).round(4)
      Array([0.    , 0.7037, 0.875 ], dtype=float32)
    """
    return -lax.expm1(logsf(x, b, loc, scale))


@nan_for_invalid(b=is_positive)
def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function of the Pareto distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      b: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.pareto.logcdf(gnp.array([0.5, 1.5, 2.0]), 3.0).round(4)
      Array([   -inf, -0.3514, -0.1335], dtype=float32)
    """
    x, b, loc, scale = real_arguments("pareto.logcdf", x, b, loc, scale)
    z = (x - loc) / scale
    below = z < 1
    value = log1m_exp(_times_log(b, gnp.where(below, 2, z)))
    return gnp.where(below, -np.inf, value)


@typed_as_outcome
@nan_for_invalid(b=is_positive)
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function of the Pareto distribution, the inverse of `cdf`.

    Args:
      q: probabilities, an array or scalar; nan outside of [0, 1].
      b: the shape parameter, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.pareto.ppf(gnp.array([0.0, 0.5]), 3.0).round(4)
      Array([1.    , 1.2599], dtype=float32)
    """
    q, b, loc, scale = real_arguments("pareto.ppf", q, b, loc, scale)
    inside = (q >= 0) & (q <= 1)
    safe = gnp.where(inside, q, 0.5)
    value = scale * lax.exp(-lax.log1p(-safe) / b) + loc
    # The quotient of two infinities would be nan.
    value = gnp.where(gnp.equal(q, 1) & gnp.isinf(b), np.inf, value)
    return gnp.where(inside, value, np.nan)
