"""The negative binomial distribution: failures before the n-th success."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import typed_as_outcome


@typed_as_outcome
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of ``k``."""
    k, n, p, loc = real_arguments("nbinom.logpmf", k, n, p, loc)
    count = k - loc
    inside = count >= 0
    safe = gnp.where(inside, count, 0)
    ways = lax.lgamma(safe + n) - lax.lgamma(safe + 1) - lax.lgamma(n)
    value = ways + special.xlogy(n, p) + special.xlog1py(safe, -p)
    return gnp.where(inside, value, -np.inf)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of ``k``."""
    return lax.exp(logpmf(k, n, p, loc))
