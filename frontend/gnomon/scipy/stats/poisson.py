"""The Poisson distribution with rate mu."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy import special
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import (
    is_not_negative,
    nan_for_invalid,
    nan_unless,
    typed_as_outcome,
)


@nan_for_invalid(mu=is_not_negative)
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probabilities of the Poisson distribution.

    Args:
      k: the outcome, an array or scalar that broadcasts with the parameters.
      mu: the rate, not negative; it is also the mean.
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape; -inf for impossible outcomes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.poisson.logpmf(gnp.array([0, 2, 4]), 2.0).round(4)
      Array([-2.    , -1.3069, -2.4055], dtype=float32, weak_type=True)
    """
    k, mu, loc = real_arguments("poisson.logpmf", k, mu, loc)
    n = k - loc
    inside = (n >= 0) & gnp.equal(n, lax.floor(n))
    safe = gnp.where(inside, n, 0)
    value = special.xlogy(safe, mu) - lax.lgamma(safe + 1) - mu
    return nan_unless(~gnp.isnan(n), gnp.where(inside, value, -np.inf))


def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probabilities of the Poisson distribution.

    Args:
      k: the outcome, an array or scalar that broadcasts with the parameters.
      mu: the rate, not negative; it is also the mean.
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape; 0 for impossible outcomes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.poisson.pmf(gnp.array([0, 2, 4]), 2.0).round(4)
      Array([0.1353, 0.2707, 0.0902], dtype=float32, weak_type=True)
    """
    return lax.exp(logpmf(k, mu, loc))


@typed_as_outcome
@nan_for_invalid(mu=is_not_negative)
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The distribution function of the Poisson distribution.

    Args:
      k: the outcome, an array or scalar that broadcasts with the parameters.
      mu: the rate, not negative; it is also the mean.
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.poisson.cdf(gnp.array([0, 2, 4]), 2.0).round(4)
      Array([0.1353, 0.6767, 0.9473], dtype=float32)
    """
    k, mu, loc = real_arguments("poisson.cdf", k, mu, loc)
    n = lax.floor(k - loc)
    safe = gnp.maximum(n, 0)
    return gnp.where(n < 0, 0, lax.igammac(safe + 1, mu))


# For rates up to 100, the probability of this number or a larger one is negligible.
_SUMMED_NUMBERS = 256


def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy of the Poisson distribution, in nats; nan for negative rates.

    It is computed from the definition for small rates, and by a series in 1 / mu for others.

    Args:
      mu: the rate, an array or scalar.
      loc: the shift, which does not change the entropy.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.poisson.entropy(gnp.array([0.0, 2.0])).round(4)
      Array([0.    , 1.7049], dtype=float32)
    """
    mu, loc = real_arguments("poisson.entropy", mu, loc)
    mu = gnp.broadcast_to(mu, lax.broadcast_shapes(mu.shape, loc.shape))
    # From this rate on, the series is as accurate as the dtype; a sum in float32 would lose digits.
    bound = 100.0 if mu.dtype == np.float64 else 25.0
    small = mu < bound
    rate = gnp.where(small & (mu > 0), mu, 1)[..., None]
    terms = logpmf(gnp.arange(_SUMMED_NUMBERS, dtype=mu.dtype), rate)
    # exp(t) t vanishes where t is -inf.
    summed = -gnp.sum(gnp.where(terms > -np.inf, lax.exp(terms) * terms, 0), axis=-1)
    large = gnp.where(small, bound, mu)
    inverse = 1 / large
    series = inverse * (1 / 12 + inverse * (1 / 24 + inverse * (19 / 360)))
    asymptotic = 0.5 * lax.log(2 * np.pi * np.e * large) - series
    positive = gnp.where(small, summed, asymptotic)
    return gnp.where(mu > 0, positive, gnp.where(gnp.equal(mu, 0), 0, np.nan))
