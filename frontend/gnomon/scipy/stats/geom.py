"""The geometric distribution: the number of trials up to the first success."""

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
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of ``k``."""
    k, p, loc = real_arguments("geom.logpmf", k, p, loc)
    n = k - loc
    value = special.xlog1py(n - 1, -p) + lax.log(p)
    return gnp.where(n <= 0, -np.inf, value)


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of ``k``."""
    return lax.exp(logpmf(k, p, loc))
