"""The generalized normal distribution with the exponent beta."""

from __future__ import annotations

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments


def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density."""
    x, beta = real_arguments("gennorm.logpdf", x, beta)
    return lax.log(beta / 2) - lax.lgamma(1 / beta) - lax.pow(lax.abs(x), beta)


def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The density."""
    return lax.exp(logpdf(x, beta))


def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The distribution function."""
    x, beta = real_arguments("gennorm.cdf", x, beta)
    part = lax.igamma(1 / beta, lax.pow(lax.abs(x), beta))
    return 0.5 * (1 + lax.sign(x) * part)
