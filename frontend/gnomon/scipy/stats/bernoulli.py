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
    """The logarithm of the probabilities of the Bernoulli distribution.

    Args:
      k: the outcome, an array or scalar that broadcasts with the parameters.
      p: the probability of 1, in [0, 1].
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape; -inf for impossible outcomes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.bernoulli.logpmf(gnp.array([0, 1, 2]), 0.3).round(4)
      Array([-0.3567, -1.204 ,    -inf], dtype=float32)
    """
    k, p, loc = real_arguments("bernoulli.logpmf", k, p, loc)
    n = k - loc
    value = special.xlogy(n, p) + special.xlog1py(1 - n, -p)
    value = gnp.where(gnp.equal(n, 0) | gnp.equal(n, 1), value, -np.inf)
    return nan_unless((p >= 0) & (p <= 1) & ~gnp.isnan(n), value)


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probabilities of the Bernoulli distribution.

    Args:
      k: the outcome, an array or scalar that broadcasts with the parameters.
      p: the probability of 1, in [0, 1].
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape; 0 for impossible outcomes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.bernoulli.pmf(gnp.array([0, 1, 2]), 0.3).round(4)
      Array([0.7, 0.3, 0. ], dtype=float32)
    """
    return lax.exp(logpmf(k, p, loc))


@typed_as_outcome
def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """The distribution function of the Bernoulli distribution.

    Args:
      k: the outcome, an array or scalar that broadcasts with the parameters.
      p: the probability of 1, in [0, 1].
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.bernoulli.cdf(gnp.array([0, 1, 2]), 0.3).round(4)
      Array([0.7, 1. , 1. ], dtype=float32)
    """
    k, p = real_arguments("bernoulli.cdf", k, p)
    value = gnp.where(k < 0, 0, gnp.where(k < 1, 1 - p, 1))
    return gnp.where(gnp.isnan(k) | gnp.isnan(p) | (p < 0) | (p > 1), np.nan, value)


@typed_as_outcome
def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The quantile function of the Bernoulli distribution, the inverse of `cdf`.

    Args:
      q: probabilities, an array or scalar; nan outside of [0, 1].
      p: the probability of 1, in [0, 1].
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.bernoulli.ppf(gnp.array([0.2, 0.9]), 0.3).round(4)
      Array([0., 1.], dtype=float32)
    """
    q, p = real_arguments("bernoulli.ppf", q, p)
    value = gnp.where(q <= 1 - p, lax.full_like(q, 0), lax.full_like(q, 1))
    lost = (q < 0) | (q > 1) | (p < 0) | (p > 1) | gnp.isnan(q) | gnp.isnan(p)
    value = gnp.where(gnp.equal(q, 0), -1.0, value)
    return gnp.where(lost, np.nan, value)
