"""The Cauchy distribution about ``loc``."""

from __future__ import annotations

import math

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import log_of_probability, typed_as_outcome


@typed_as_outcome
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, loc, scale = real_arguments("cauchy.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -lax.log(math.pi * scale) - lax.log1p(z * z)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return lax.exp(logpdf(x, loc, scale))


@typed_as_outcome
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, loc, scale = real_arguments("cauchy.cdf", x, loc, scale)
    return gnp.arctan2(lax.full_like(x, 1), (loc - x) / scale) / math.pi


@typed_as_outcome
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    return log_of_probability(cdf(x, loc, scale))


@typed_as_outcome
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function, one minus the distribution function."""
    x, loc, scale = real_arguments("cauchy.sf", x, loc, scale)
    return gnp.arctan2(lax.full_like(x, 1), (x - loc) / scale) / math.pi


@typed_as_outcome
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function."""
    return log_of_probability(sf(x, loc, scale))


@typed_as_outcome
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function, the inverse of `cdf`."""
    q, loc, scale = real_arguments("cauchy.ppf", q, loc, scale)
    return loc + scale * lax.tan(math.pi * (q - 0.5))


@typed_as_outcome
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of `sf`."""
    q, loc, scale = real_arguments("cauchy.isf", q, loc, scale)
    return loc + scale * lax.tan(math.pi * (0.5 - q))
