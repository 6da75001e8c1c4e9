"""The von Mises distribution with concentration kappa, on the circle."""

from __future__ import annotations

import math

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import nan_unless


def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The logarithm of the density."""
    x, kappa = real_arguments("vonmises.logpdf", x, kappa)
    normalizer = lax.log(2 * math.pi * lax.bessel_i0e(kappa))
    return nan_unless(kappa >= 0, kappa * (lax.cos(x) - 1) - normalizer)


def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The density."""
    return lax.exp(logpdf(x, kappa))
