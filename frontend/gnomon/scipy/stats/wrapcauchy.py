"""The wrapped Cauchy distribution with a parameter c in (0, 1), on [0, 2 pi]."""

from __future__ import annotations

import math

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments


def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The logarithm of the density of the wrapped Cauchy distribution.

    Args:
      x: the angle in radians, in [0, 2 pi], an array or scalar that broadcasts with the parameters.
      c: the concentration, in (0, 1).
    Returns:
      An array of the broadcast shape; -inf outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.wrapcauchy.logpdf(gnp.array([0.0, 1.0, 3.0]), 0.5).round(4)
      Array([-0.7393, -1.7826, -2.932 ], dtype=float32)
    """
    x, c = real_arguments("wrapcauchy.logpdf", x, c)
    outside, valid = (x < 0) | (x > 2 * math.pi), (c > 0) & (c < 1)
    safe = gnp.where(valid, c, 0.5)
    # 1 + c² - 2 c cos(x), which would cancel near x = 0 and c = 1.
    gap, sine = 1 - safe, lax.sin(x / 2)
    spread = gap * gap + 4 * safe * sine * sine
    value = lax.log(gap * (1 + safe)) - lax.log(2 * math.pi * spread)
    return gnp.where(valid, gnp.where(outside, -np.inf, value), np.nan)


def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The density of the wrapped Cauchy distribution.

    Args:
      x: the angle in radians, in [0, 2 pi], an array or scalar that broadcasts with the parameters.
      c: the concentration, in (0, 1).
    Returns:
      An array of the broadcast shape; 0 outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.wrapcauchy.pdf(gnp.array([0.0, 1.0, 3.0]), 0.5).round(4)
      Array([0.4775, 0.1682, 0.0533], dtype=float32)
    """
    return lax.exp(logpdf(x, c))
