"""The gamma distribution with shape parameter a."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import log_of_probability, nan_unless, on_support, typed_as_outcome


@typed_as_outcome
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, a, loc, scale = real_arguments("gamma.logpdf", x, a, loc, scale)
    z = (x - loc) / scale
    inside = z >= 0
    safe = gnp.where(inside, z, 1)
    value = special.xlogy(a - 1, safe) - safe - lax.lgamma(a) - lax.log(scale)
    return gnp.where(inside, value, -np.inf)


@typed_as_outcome
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return lax.exp(logpdf(x, a, loc, scale))


@typed_as_outcome
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, a, loc, scale = real_arguments("gamma.cdf", x, a, loc, scale)
    z = (x - loc) / scale
    value = on_support(lambda z: lax.igamma(a, z), z, (0, np.inf), (0, 1), 1.0)
    return nan_unless(a > 0, value)


@typed_as_outcome
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    return log_of_probability(cdf(x, a, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function, one minus the distribution function."""
    x, a, loc, scale = real_arguments("gamma.sf", x, a, loc, scale)
    z = (x - loc) / scale
    value = on_support(lambda z: lax.igammac(a, z), z, (0, np.inf), (1, 0), 1.0)
    return nan_unless(a > 0, value)


def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function."""
    return log_of_probability(sf(x, a, loc, scale))
