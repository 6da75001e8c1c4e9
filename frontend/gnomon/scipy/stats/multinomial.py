"""The multinomial distribution: counts of the outcomes of n trials."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.numpy._arguments import promoted
from gnomon.scipy import special


def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of counts.

    Args:
      x: counts along the last dimension.
      n: the number of trials.
      p: the probabilities of the outcomes along the last dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.multinomial.logpmf(gnp.array([1, 2]), 3, gnp.array([0.5, 0.5])).round(4)
      Array(-0.9808, dtype=float32)
    """
    (p,) = promoted("multinomial.logpmf", p, inexact=True)
    x = gnp.astype(gnp.asarray(x), p.dtype)
    n = gnp.astype(gnp.asarray(n), p.dtype)
    value = lax.lgamma(n + 1) + gnp.sum(special.xlogy(x, p) - special.gammaln(x + 1), axis=-1)
    return gnp.where(gnp.equal(gnp.sum(x, axis=-1), n), value, -np.inf)


def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probabilities of the multinomial distribution.

    Args:
      x: the counts of the outcomes, along the last dimension.
      n: the number of trials.
      p: the probabilities of the outcomes, along the last dimension.
    Returns:
      An array without the last dimension; 0 where the counts do not add up to ``n``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.multinomial.pmf(gnp.array([1, 2]), 3, gnp.array([0.5, 0.5])).round(4)
      Array(0.375, dtype=float32)
    """
    return lax.exp(logpmf(x, n, p))
