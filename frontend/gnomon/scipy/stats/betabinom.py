"""The beta-binomial distribution: successes in n trials with a beta-distributed probability."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import nan_unless, typed_as_outcome, zero_where


@typed_as_outcome
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probabilities of the beta-binomial distribution.

    Args:
      k: the number of successes, an array or scalar that broadcasts with the parameters.
      n: the number of trials.
      a, b: the positive parameters of the beta distribution of the probability of success.
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape; -inf outside of [0, n]. Numbers between integers are not
      refused.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.betabinom.logpmf(gnp.array([0, 2, 5]), 4, 2.0, 3.0).round(4)
      Array([-1.5404, -1.3581,    -inf], dtype=float32)
    """
    k, n, a, b, loc = real_arguments("betabinom.logpmf", k, n, a, b, loc)
    count = lax.floor(k) - loc
    inside = (count >= 0) & (count <= n)
    safe = gnp.where(inside, count, 0)
    ways = -lax.log1p(n) - special.betaln(n - safe + 1, safe + 1)
    ways = zero_where(gnp.equal(safe, 0) | gnp.equal(safe, n), ways)
    value = ways + special.betaln(safe + a, n - safe + b) - special.betaln(a, b)
    value = gnp.where(inside, value, -np.inf)
    return nan_unless((n >= 0) & (a > 0) & (b > 0) & ~gnp.isnan(count), value)


def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probabilities of the beta-binomial distribution.

    Args:
      k: the number of successes, an array or scalar that broadcasts with the parameters.
      n: the number of trials.
      a, b: the positive parameters of the beta distribution of the probability of success.
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape; 0 outside of [0, n]. Numbers between integers are not
      refused.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.betabinom.pmf(gnp.array([0, 2, 5]), 4, 2.0, 3.0).round(4)
      Array([0.2143, 0.2571, 0.    ], dtype=float32)
    """
    return lax.exp(logpmf(k, n, a, b, loc))
