"""The binomial distribution: successes in n trials."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import nan_unless


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of ``k``."""
    k, n, p, loc = real_arguments("binom.logpmf", k, n, p, loc)
    count = k - loc
    inside = (count >= 0) & (count <= n)
    safe = gnp.where(inside, count, 0)
    ways = lax.lgamma(n + 1) - lax.lgamma(safe + 1) - lax.lgamma(n - safe + 1)
    value = ways + special.xlogy(safe, p) + special.xlog1py(n - safe, -p)
    value = gnp.where(inside, value, -np.inf)
    return nan_unless((n >= 0) & (p >= 0) & (p <= 1), value)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of ``k``."""
    return lax.exp(logpmf(k, n, p, loc))
