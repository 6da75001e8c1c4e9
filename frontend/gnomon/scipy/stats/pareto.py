"""The Pareto distribution with shape parameter b."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import typed_as_outcome


@typed_as_outcome
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, b, loc, scale = real_arguments("pareto.logpdf", x, b, loc, scale)
    z = (x - loc) / scale
    inside = z >= 1
    safe = gnp.where(inside, z, 1)
    value = lax.log(b / scale) - (b + 1) * lax.log(safe)
    return gnp.where(inside, value, -np.inf)


@typed_as_outcome
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return lax.exp(logpdf(x, b, loc, scale))


@typed_as_outcome
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function."""
    x, b, loc, scale = real_arguments("pareto.logsf", x, b, loc, scale)
    z = (x - loc) / scale
    # The derivative at the edge of the support is that from inside; `maximum` would halve it.
    return -b * lax.log(gnp.where(z < 1, 1, z))


@typed_as_outcome
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function, one minus the distribution function."""
    return lax.exp(logsf(x, b, loc, scale))


@typed_as_outcome
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return -lax.expm1(logsf(x, b, loc, scale))


def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    x, b, loc, scale = real_arguments("pareto.logcdf", x, b, loc, scale)
    z = (x - loc) / scale
    below = z < 1
    value = lax.log(-lax.expm1(-b * lax.log(gnp.where(below, 2, z))))
    return gnp.where(below, -np.inf, value)


@typed_as_outcome
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function, the inverse of `cdf`."""
    q, b, loc, scale = real_arguments("pareto.ppf", q, b, loc, scale)
    inside = (q >= 0) & (q <= 1)
    safe = gnp.where(inside, q, 0.5)
    value = scale * lax.exp(-lax.log1p(-safe) / b) + loc
    return gnp.where(inside, value, np.nan)
