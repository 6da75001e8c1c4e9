"""The binomial distribution: successes in n trials."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import nan_unless, zero_where


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probabilities of the binomial distribution.

    Args:
      k: the number of successes, an array or scalar that broadcasts with the parameters.
      n: the number of trials.
      p: the probability of success, in [0, 1].
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape; -inf outside of [0, n]. Numbers between integers are not
      refused.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.binom.logpmf(gnp.array([0, 2, 5]), 4, 0.5).round(4)
      Array([-2.7726, -0.9808,    -inf], dtype=float32, weak_type=True)
    """
    k, n, p, loc = real_arguments("binom.logpmf", k, n, p, loc)
    count = k - loc
    inside = (count >= 0) & (count <= n)
    safe = gnp.where(inside, count, 0)
    ways = -lax.log1p(n) - special.betaln(n - safe + 1, safe + 1)
    ways = zero_where(gnp.equal(safe, 0) | gnp.equal(safe, n), ways)
    value = ways + special.xlogy(safe, p) + special.xlog1py(n - safe, -p)
    value = gnp.where(inside, value, -np.inf)
    return nan_unless((n >= 0) & (p >= 0) & (p <= 1) & ~gnp.isnan(count), value)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probabilities of the binomial distribution.

    Args:
      k: the number of successes, an array or scalar that broadcasts with the parameters.
      n: the number of trials.
      p: the probability of success, in [0, 1].
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape; 0 outside of [0, n]. Numbers between integers are not
      refused.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.binom.pmf(gnp.array([0, 2, 5]), 4, 0.5).round(4)
      Array([0.0625, 0.375 , 0.    ], dtype=float32, weak_type=True)
    """
    return lax.exp(logpmf(k, n, p, loc))
