"""The normal distribution cut off at ``a`` and ``b`` standard deviations from ``loc``."""

from __future__ import annotations

import math

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.numpy._arguments import strongly_typed
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import nan_for_invalid

_HALF_LOG_2PI = math.log(2 * math.pi) / 2


def _log_ndtr(x: Array) -> Array:
    """`special.log_ndtr`, with a derivative of zero at -inf and inf."""
    below, above = gnp.equal(x, -np.inf), gnp.equal(x, np.inf)
    value = special.log_ndtr(gnp.where(below | above, 0, x))
    return gnp.where(below, -np.inf, gnp.where(above, 0, value))


def _log_mass(a: Array, b: Array) -> Array:
    """The logarithm of the normal probability of [a, b].

    It is computed in the tail of the interval, or near 0, where the two tails would cancel.
    """
    above = a > 0
    low, high = gnp.where(above, -b, a), gnp.where(above, -a, b)
    is_central = (low > -1) & (high < 1)
    upper, lower = _log_ndtr(high), _log_ndtr(gnp.where(is_central, -2, low))
    # Far in the tail, both logarithms overflow.
    is_lost = gnp.equal(upper, -np.inf)
    gap = gnp.where(is_lost, -1, lower) - gnp.where(is_lost, 0, upper)
    tail = upper + lax.log1p(-lax.exp(gap))
    start, end = gnp.where(is_central, low, 0), gnp.where(is_central, high, 1)
    center = lax.log((lax.erf(end * math.sqrt(0.5)) - lax.erf(start * math.sqrt(0.5))) / 2)
    return gnp.where(is_central, center, tail)


# Above this logarithm, a probability is computed from the rest, as in SciPy: the difference of two
# large logarithms has lost more digits.
_LIKELY = -0.1


def _log_part(part: Array, rest: Array) -> Array:
    """The logarithm of a probability, given it and that of the rest with their errors."""
    is_likely = part > _LIKELY
    return gnp.where(is_likely, lax.log1p(-lax.exp(gnp.where(is_likely, rest, -1))), part)


def _interval_unless(outside: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """The interval [a, b], or where ``outside`` [0, 1], whose mass has finite derivatives."""
    return gnp.where(outside, 0, a), gnp.where(outside, 1, b)


def _of_interval(a: Array, b: Array, value: Array) -> Array:
    """The value; nan where the interval is empty, which is where ``a`` is not below ``b``."""
    return gnp.where(a < b, value, np.nan)


def _log_parts(z: Array, a: Array, b: Array, outside: Array) -> tuple[Array, Array]:
    """The logarithms of the probabilities of [a, z] and [z, b] in [a, b]."""
    whole = _log_mass(a, b)
    lower = _log_mass(*_interval_unless(outside, a, z)) - whole
    return lower, _log_mass(*_interval_unless(outside, z, b)) - whole


@nan_for_invalid()
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density of the truncated normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a, b: the ends of the support in standard deviations from ``loc``, not in the unit of ``x``.
      loc: the mean before it is cut off.
      scale: the standard deviation before it is cut off.
    Returns:
      An array of the broadcast shape; -inf outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.truncnorm.logpdf(gnp.array([-2.0, 0.0, 1.0]), -1.0, 2.0).round(4)
      Array([   -inf, -0.7188, -1.2188], dtype=float32)
    """
    x, a, b, loc, scale = real_arguments("truncnorm.logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    value = -0.5 * z * z - _HALF_LOG_2PI - lax.log(scale) - _log_mass(a, b)
    return _of_interval(a, b, gnp.where((z < a) | (z > b), -np.inf, value))


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density of the truncated normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a, b: the ends of the support in standard deviations from ``loc``, not in the unit of ``x``.
      loc: the mean before it is cut off.
      scale: the standard deviation before it is cut off.
    Returns:
      An array of the broadcast shape; 0 outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.truncnorm.pdf(gnp.array([-2.0, 0.0, 1.0]), -1.0, 2.0).round(4)
      Array([0.    , 0.4874, 0.2956], dtype=float32)
    """
    return lax.exp(logpdf(x, a, b, loc, scale))


@nan_for_invalid()
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the distribution function of the truncated normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a, b: the ends of the support in standard deviations from ``loc``, not in the unit of ``x``.
      loc: the mean before it is cut off.
      scale: the standard deviation before it is cut off.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.truncnorm.logcdf(gnp.array([-2.0, 0.0, 1.0]), -1.0, 2.0).round(4)
      Array([   -inf, -0.8747, -0.1815], dtype=float32)
    """
    x, a, b, loc, scale = real_arguments("truncnorm.logcdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    below, above = z <= a, z >= b
    lower, upper = _log_parts(z, a, b, below | above)
    part = _log_part(lower, upper)
    return _of_interval(a, b, gnp.where(below, -np.inf, gnp.where(above, 0, part)))


def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The distribution function of the truncated normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a, b: the ends of the support in standard deviations from ``loc``, not in the unit of ``x``.
      loc: the mean before it is cut off.
      scale: the standard deviation before it is cut off.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.truncnorm.cdf(gnp.array([-2.0, 0.0, 1.0]), -1.0, 2.0).round(4)
      Array([0.   , 0.417, 0.834], dtype=float32)
    """
    return lax.exp(logcdf(x, a, b, loc, scale))


@nan_for_invalid()
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function of the truncated normal distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a, b: the ends of the support in standard deviations from ``loc``, not in the unit of ``x``.
      loc: the mean before it is cut off.
      scale: the standard deviation before it is cut off.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.truncnorm.logsf(gnp.array([-2.0, 0.0, 1.0]), -1.0, 2.0).round(4)
      Array([ 0.    , -0.5395, -1.7956], dtype=float32)
    """
    x, a, b, loc, scale = real_arguments("truncnorm.logsf", x, a, b, loc, scale)
    z = (x - loc) / scale
    below, above = z <= a, z >= b
    lower, upper = _log_parts(z, a, b, below | above)
    part = _log_part(upper, lower)
    return _of_interval(a, b, gnp.where(below, 0, gnp.where(above, -np.inf, part)))


@strongly_typed
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function of the truncated normal distribution, one minus `cdf`.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      a, b: the ends of the support in standard deviations from ``loc``, not in the unit of ``x``.
      loc: the mean before it is cut off.
      scale: the standard deviation before it is cut off.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.truncnorm.sf(gnp.array([-2.0, 0.0, 1.0]), -1.0, 2.0).round(4)
      Array([1.   , 0.583, 0.166], dtype=float32)
    """
    return lax.exp(logsf(x, a, b, loc, scale))
