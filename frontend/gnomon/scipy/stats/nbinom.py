"""The negative binomial distribution: failures before the n-th success."""

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
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probabilities of the negative binomial distribution.

    Args:
      k: the number of failures before the n-th success, an array or scalar that broadcasts with the
        parameters.
      n: the number of successes, positive.
      p: the probability of success, in (0, 1].
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape; -inf below 0. Numbers between integers are not refused.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.nbinom.logpmf(gnp.array([-1, 0, 2]), 3, 0.5).round(4)
      Array([   -inf, -2.0794, -1.674 ], dtype=float32)
    """
    k, n, p, loc = real_arguments("nbinom.logpmf", k, n, p, loc)
    count = k - loc
    inside = count >= 0
    safe = gnp.where(inside, count, 0)
    ways = zero_where(gnp.equal(safe, 0), -lax.log(n + safe) - special.betaln(n, safe + 1))
    value = ways + special.xlogy(n, p) + special.xlog1py(safe, -p)
    value = gnp.where(inside, value, -np.inf)
    return nan_unless((n > 0) & (p > 0) & (p <= 1) & ~gnp.isnan(count), value)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probabilities of the negative binomial distribution.

    Args:
      k: the number of failures before the n-th success, an array or scalar that broadcasts with the
        parameters.
      n: the number of successes, positive.
      p: the probability of success, in (0, 1].
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape; 0 below 0. Numbers between integers are not refused.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.nbinom.pmf(gnp.array([-1, 0, 2]), 3, 0.5).round(4)
      Array([0.    , 0.125 , 0.1875], dtype=float32)
    """
    return lax.exp(logpmf(k, n, p, loc))
