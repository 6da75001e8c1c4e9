"""The exponential distribution with a given scale, on [loc, inf)."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, loc, scale = real_arguments("expon.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return gnp.where(z < 0, -np.inf, -z - lax.log(scale))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return lax.exp(logpdf(x, loc, scale))


def _distance(x: Array, loc: Array, scale: Array) -> Array:
    """The standardized argument, at least 0."""
    z = (x - loc) / scale
    # The derivative at the edge of the support is that from inside; `maximum` would halve it.
    return gnp.where(z < 0, 0, z)


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, loc, scale = real_arguments("expon.cdf", x, loc, scale)
    return -lax.expm1(-_distance(x, loc, scale))


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    x, loc, scale = real_arguments("expon.logcdf", x, loc, scale)
    z = (x - loc) / scale
    below = z < 0
    return gnp.where(below, -np.inf, lax.log(-lax.expm1(-gnp.where(below, 1, z))))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function, one minus the distribution function."""
    x, loc, scale = real_arguments("expon.sf", x, loc, scale)
    return lax.exp(-_distance(x, loc, scale))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function."""
    x, loc, scale = real_arguments("expon.logsf", x, loc, scale)
    return -_distance(x, loc, scale)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function, the inverse of `cdf`."""
    q, loc, scale = real_arguments("expon.ppf", q, loc, scale)
    inside = (q >= 0) & (q <= 1)
    return gnp.where(inside, loc - scale * lax.log1p(-q), np.nan)
