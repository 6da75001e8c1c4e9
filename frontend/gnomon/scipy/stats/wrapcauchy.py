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
    """The logarithm of the density."""
    x, c = real_arguments("wrapcauchy.logpdf", x, c)
    inside = (x >= 0) & (x <= 2 * math.pi) & (c > 0) & (c < 1)
    safe = gnp.where(inside, c, 0.5)
    spread = 1 + safe * safe - 2 * safe * lax.cos(x)
    value = lax.log(1 - safe * safe) - lax.log(2 * math.pi * spread)
    return gnp.where(inside, value, gnp.where((c > 0) & (c < 1), -np.inf, np.nan))


def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The density."""
    return lax.exp(logpdf(x, c))
