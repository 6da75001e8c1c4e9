"""Student's t distribution with df degrees of freedom."""

from __future__ import annotations

import math

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import log_gamma_ratio, real_arguments
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
    # The logarithms of gamma cancel for many degrees of freedom, so there take their ratio.
    is_large, is_normal = half >= 10, gnp.equal(df, np.inf)
    few, many = gnp.where(is_large, 1, half), gnp.where(is_large & ~is_normal, half, 10)
    ratio = gnp.where(
        is_large,
        log_gamma_ratio(many, lax.full_like(many, 0.5)) - 0.5 * lax.log(many),
        lax.lgamma(few + 0.5) - lax.lgamma(few) - 0.5 * lax.log(few),
    )
    # The normal distribution is the limit.
    ratio = gnp.where(is_normal, 0, ratio)
    finite = gnp.where(is_normal, 1, df)
    distance = (finite / 2 + 0.5) * lax.log1p(z * z / finite)
    distance = gnp.where(is_normal, 0.5 * z * z, distance)
    return ratio - 0.5 * math.log(2 * math.pi) - lax.log(scale) - distance


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
