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


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, loc, scale = real_arguments("expon.cdf", x, loc, scale)
    return -lax.expm1(-gnp.maximum((x - loc) / scale, 0))


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    x, loc, scale = real_arguments("expon.logcdf", x, loc, scale)
    return lax.log(cdf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function, one minus the distribution function."""
    x, loc, scale = real_arguments("expon.sf", x, loc, scale)
    return lax.exp(-gnp.maximum((x - loc) / scale, 0))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function."""
    x, loc, scale = real_arguments("expon.logsf", x, loc, scale)
    return -gnp.maximum((x - loc) / scale, 0)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function, the inverse of `cdf`."""
    q, loc, scale = real_arguments("expon.ppf", q, loc, scale)
    inside = (q >= 0) & (q <= 1)
    return gnp.where(inside, loc - scale * lax.log1p(-q), np.nan)
