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
from gnomon.scipy.stats._support import log_of_probability, nan_unless, on_support, typed_as_outcome


@typed_as_outcome
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, df, loc, scale = real_arguments("chi2.logpdf", x, df, loc, scale)
    z = (x - loc) / scale
    inside = z >= 0
    safe, half = gnp.where(inside, z, 1), df / 2
    normalizer = half * math.log(2) + lax.lgamma(half) + lax.log(scale)
    value = special.xlogy(half - 1, safe) - safe / 2 - normalizer
    return gnp.where(inside, value, -np.inf)


@typed_as_outcome
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return lax.exp(logpdf(x, df, loc, scale))


@typed_as_outcome
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, df, loc, scale = real_arguments("chi2.cdf", x, df, loc, scale)
    z = (x - loc) / scale / 2
    value = on_support(lambda z: lax.igamma(df / 2, z), z, (0, np.inf), (0, 1), 1.0)
    return nan_unless(df > 0, value)


@typed_as_outcome
def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    return log_of_probability(cdf(x, df, loc, scale))


@typed_as_outcome
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function, one minus the distribution function."""
    x, df, loc, scale = real_arguments("chi2.sf", x, df, loc, scale)
    z = (x - loc) / scale / 2
    value = on_support(lambda z: lax.igammac(df / 2, z), z, (0, np.inf), (1, 0), 1.0)
    return nan_unless(df > 0, value)


@typed_as_outcome
def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function."""
    return log_of_probability(sf(x, df, loc, scale))
