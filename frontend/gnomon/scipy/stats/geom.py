"""The geometric distribution: the number of trials up to the first success."""

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
    """The logarithm of the probabilities of the geometric distribution.

    Args:
      k: the number of trials up to and with the first success, an array or scalar that broadcasts
        with the parameters.
      p: the probability of success, in (0, 1].
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape; -inf below 1. Numbers between integers are not refused.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.geom.logpmf(gnp.array([0, 1, 2]), 0.5).round(4)
      Array([   -inf, -0.6931, -1.3863], dtype=float32)
    """
    k, p, loc = real_arguments("geom.logpmf", k, p, loc)
    n = k - loc
    value = special.xlog1py(n - 1, -p) + lax.log(p)
    return nan_unless((p > 0) & (p <= 1), gnp.where(n <= 0, -np.inf, value))


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probabilities of the geometric distribution.

    Args:
      k: the number of trials up to and with the first success, an array or scalar that broadcasts
        with the parameters.
      p: the probability of success, in (0, 1].
      loc: the shift of the distribution.
    Returns:
      An array of the broadcast shape; 0 below 1. Numbers between integers are not refused.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.geom.pmf(gnp.array([0, 1, 2]), 0.5).round(4)
      Array([0.  , 0.5 , 0.25], dtype=float32)
    """
    return lax.exp(logpmf(k, p, loc))
