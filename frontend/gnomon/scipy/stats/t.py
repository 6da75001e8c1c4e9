"""Student's t distribution with df degrees of freedom."""

from __future__ import annotations

import math

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import typed_as_outcome


@typed_as_outcome
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of Student's t distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      df: the degrees of freedom, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.t.logpdf(gnp.array([0.0, 1.0, 4.0]), 5.0).round(4)
      Array([-0.9686, -1.5156, -5.2739], dtype=float32)
    """
    x, df, loc, scale = real_arguments("t.logpdf", x, df, loc, scale)
    z = (x - loc) / scale
    half = df / 2
    normalizer = lax.lgamma(half + 0.5) - lax.lgamma(half)
    normalizer = normalizer - 0.5 * lax.log(math.pi * df) - lax.log(scale)
    return normalizer - (half + 0.5) * lax.log1p(z * z / df)


@typed_as_outcome
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of Student's t distribution.

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      df: the degrees of freedom, positive.
      loc: the shift of the distribution.
      scale: the factor by which the distribution is stretched, positive.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.t.pdf(gnp.array([0.0, 1.0, 4.0]), 5.0).round(4)
      Array([0.3796, 0.2197, 0.0051], dtype=float32)
    """
    return lax.exp(logpdf(x, df, loc, scale))
