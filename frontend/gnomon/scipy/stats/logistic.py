"""The logistic distribution about ``loc``."""

from __future__ import annotations

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import typed_as_outcome


@typed_as_outcome
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, loc, scale = real_arguments("logistic.logpdf", x, loc, scale)
    z = (x - loc) / scale
    half = z / 2
    return -2 * gnp.logaddexp(half, -half) - lax.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, loc, scale = real_arguments("logistic.cdf", x, loc, scale)
    return special.expit((x - loc) / scale)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The survival function, one minus the distribution function."""
    x, loc, scale = real_arguments("logistic.sf", x, loc, scale)
    return special.expit((loc - x) / scale)


@typed_as_outcome
def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function, the inverse of `cdf`."""
    x, loc, scale = real_arguments("logistic.ppf", x, loc, scale)
    return special.logit(x) * scale + loc


@typed_as_outcome
def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of `sf`."""
    x, loc, scale = real_arguments("logistic.isf", x, loc, scale)
    return loc - special.logit(x) * scale
