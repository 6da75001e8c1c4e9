"""The Gumbel distribution of largest values."""

from __future__ import annotations

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import log1m_exp_of_exp, nan_for_invalid, typed_as_outcome


@nan_for_invalid()
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the Gumbel distribution of largest values.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_r.logpdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([-1.7183, -1.    , -2.1353], dtype=float32)
    """
    x, loc, scale = real_arguments("gumbel_r.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -z - lax.exp(-z) - lax.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the Gumbel distribution of largest values.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_r.pdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([0.1794, 0.3679, 0.1182], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


@nan_for_invalid()
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function of the Gumbel distribution of largest values.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_r.logcdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([-2.7183, -1.    , -0.1353], dtype=float32)
    """
    x, loc, scale = real_arguments("gumbel_r.logcdf", x, loc, scale)
    return -lax.exp((loc - x) / scale)


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function of the Gumbel distribution of largest values.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_r.cdf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([0.066 , 0.3679, 0.8734], dtype=float32)
    """
    return lax.exp(logcdf(x, loc, scale))


@typed_as_outcome
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function of the Gumbel distribution of largest values, one minus `cdf`.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_r.sf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([0.934 , 0.6321, 0.1266], dtype=float32)
    """
    return -lax.expm1(logcdf(x, loc, scale))


@nan_for_invalid()
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function of the Gumbel distribution of largest values.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_r.logsf(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([-0.0683, -0.4587, -2.0669], dtype=float32)
    """
    x, loc, scale = real_arguments("gumbel_r.logsf", x, loc, scale)
    return log1m_exp_of_exp((loc - x) / scale)


@nan_for_invalid()
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function of the Gumbel distribution of largest values, the inverse of `cdf`.

    Args:
      p: probabilities, an array or scalar; nan outside of [0, 1].
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_r.ppf(gnp.array([0.25, 0.5])).round(4)
      Array([-0.3266,  0.3665], dtype=float32)
    """
    p, loc, scale = real_arguments("gumbel_r.ppf", p, loc, scale)
    return loc - scale * lax.log(-lax.log(p))
