"""The uniform distribution on [loc, loc + scale]."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.numpy._arguments import strongly_typed
from gnomon.scipy._gamma_functions import real_arguments


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, loc, scale = real_arguments("uniform.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return gnp.where((z < 0) | (z > 1), -np.inf, -lax.log(scale))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return lax.exp(logpdf(x, loc, scale))


@strongly_typed
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, loc, scale = real_arguments("uniform.cdf", x, loc, scale)
    z = (x - loc) / scale
    # The derivative at the ends of the support is that from inside; `clip` would halve it.
    return gnp.where(z < 0, 0, gnp.where(z > 1, 1, z))


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function, the inverse of `cdf`."""
    q, loc, scale = real_arguments("uniform.ppf", q, loc, scale)
    inside = (q >= 0) & (q <= 1)
    return gnp.where(inside, q * scale + loc, np.nan)
