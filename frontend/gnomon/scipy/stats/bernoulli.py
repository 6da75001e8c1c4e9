"""The Bernoulli distribution: 1 with probability p, otherwise 0."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import nan_unless, typed_as_outcome


@typed_as_outcome
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of ``k``."""
    k, p, loc = real_arguments("bernoulli.logpmf", k, p, loc)
    n = k - loc
    value = special.xlogy(n, p) + special.xlog1py(1 - n, -p)
    value = gnp.where(gnp.equal(n, 0) | gnp.equal(n, 1), value, -np.inf)
    return nan_unless((p >= 0) & (p <= 1), value)


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of ``k``."""
    return lax.exp(logpmf(k, p, loc))


@typed_as_outcome
def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """The distribution function."""
    k, p = real_arguments("bernoulli.cdf", k, p)
    value = gnp.where(k < 0, 0, gnp.where(k < 1, 1 - p, 1))
    return gnp.where(gnp.isnan(k) | gnp.isnan(p) | (p < 0) | (p > 1), np.nan, value)


@typed_as_outcome
def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The quantile function, the inverse of `cdf`."""
    q, p = real_arguments("bernoulli.ppf", q, p)
    value = gnp.where(q <= 1 - p, lax.full_like(q, 0), lax.full_like(q, 1))
    lost = (q < 0) | (q > 1) | (p < 0) | (p > 1) | gnp.isnan(q) | gnp.isnan(p)
    value = gnp.where(gnp.equal(q, 0), -1.0, value)
    return gnp.where(lost, np.nan, value)
