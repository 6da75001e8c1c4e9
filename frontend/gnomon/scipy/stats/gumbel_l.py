"""The Gumbel distribution of smallest values."""

from __future__ import annotations

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import log1m_exp_of_exp, nan_for_invalid


@nan_for_invalid()
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the Gumbel distribution of smallest values.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_l.logpdf(gnp.array([-2.0, 0.0, 1.0])).round(4)
      Array([-2.1353, -1.    , -1.7183], dtype=float32)
    """
    x, loc, scale = real_arguments("gumbel_l.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return z - lax.exp(z) - lax.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the Gumbel distribution of smallest values.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_l.pdf(gnp.array([-2.0, 0.0, 1.0])).round(4)
      Array([0.1182, 0.3679, 0.1794], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


@nan_for_invalid()
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function of the Gumbel distribution of smallest values.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_l.logsf(gnp.array([-2.0, 0.0, 1.0])).round(4)
      Array([-0.1353, -1.    , -2.7183], dtype=float32)
    """
    x, loc, scale = real_arguments("gumbel_l.logsf", x, loc, scale)
    return -lax.exp((x - loc) / scale)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function of the Gumbel distribution of smallest values, one minus `cdf`.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_l.sf(gnp.array([-2.0, 0.0, 1.0])).round(4)
      Array([0.8734, 0.3679, 0.066 ], dtype=float32)
    """
    return lax.exp(logsf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function of the Gumbel distribution of smallest values.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_l.cdf(gnp.array([-2.0, 0.0, 1.0])).round(4)
      Array([0.1266, 0.6321, 0.934 ], dtype=float32)
    """
    return -lax.expm1(logsf(x, loc, scale))


@nan_for_invalid()
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function of the Gumbel distribution of smallest values.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_l.logcdf(gnp.array([-2.0, 0.0, 1.0])).round(4)
      Array([-2.0669, -0.4587, -0.0683], dtype=float32)
    """
    x, loc, scale = real_arguments("gumbel_l.logcdf", x, loc, scale)
    return log1m_exp_of_exp((x - loc) / scale)


@nan_for_invalid()
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function of the Gumbel distribution of smallest values, the inverse of `cdf`.

    Args:
      p: probabilities, an array or scalar; nan outside of [0, 1].
      loc: the shift of the distribution.
      scale: the width, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.gumbel_l.ppf(gnp.array([0.25, 0.5])).round(4)
      Array([-1.2459, -0.3665], dtype=float32)
    """
    p, loc, scale = real_arguments("gumbel_l.ppf", p, loc, scale)
    return loc + scale * lax.log(-lax.log1p(-p))
