"""The Poisson distribution of a rate mu."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments


def logpmf(k: Any, mu: Any, loc: Any = 0) -> Array:
    """The logarithm of the probability of a number."""
    k, mu, loc = real_arguments("poisson.logpmf", k, mu, loc)
    n = k - loc
    inside = (n >= 0) & gnp.equal(n, lax.floor(n))
    safe = gnp.where(inside, n, 0)
    value = special.xlogy(safe, mu) - lax.lgamma(safe + 1) - mu
    return gnp.where(inside, value, -np.inf)


def pmf(k: Any, mu: Any, loc: Any = 0) -> Array:
    """The probability of a number."""
    return lax.exp(logpmf(k, mu, loc))


def cdf(k: Any, mu: Any, loc: Any = 0) -> Array:
    """The distribution function."""
    k, mu, loc = real_arguments("poisson.cdf", k, mu, loc)
    n = lax.floor(k - loc)
    safe = gnp.maximum(n, 0)
    return gnp.where(n < 0, 0, lax.igammac(safe + 1, mu))
