"""The beta-binomial distribution: successes in n trials with a beta-distributed probability."""

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
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of ``k``."""
    k, n, a, b, loc = real_arguments("betabinom.logpmf", k, n, a, b, loc)
    count = lax.floor(k) - loc
    inside = (count >= 0) & (count <= n)
    safe = gnp.where(inside, count, 0)
    ways = -lax.log1p(n) - special.betaln(n - safe + 1, safe + 1)
    value = ways + special.betaln(safe + a, n - safe + b) - special.betaln(a, b)
    value = gnp.where(inside, value, -np.inf)
    return gnp.where((n < 0) | (a <= 0) | (b <= 0), np.nan, value)


def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of ``k``."""
    return lax.exp(logpmf(k, n, a, b, loc))
