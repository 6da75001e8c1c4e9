"""The uniform distribution on [loc, loc + scale]."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.numpy._arguments import strongly_typed
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy.stats._support import nan_for_invalid, nan_unless


@nan_for_invalid()
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the uniform distribution on [loc, loc + scale].

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the lower end of the support.
      scale: the length of the support.
    Returns:
      An array of the broadcast shape; -inf outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.uniform.logpdf(gnp.array([-1.0, 0.5, 5.0]), 0.0, 4.0).round(4)
      Array([   -inf, -1.3863,    -inf], dtype=float32)
    """
    x, loc, scale = real_arguments("uniform.logpdf", x, loc, scale)
    z = (x - loc) / scale
    value = gnp.where((z < 0) | (z > 1), -np.inf, -lax.log(scale))
    return nan_unless(~gnp.isnan(z), value)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the uniform distribution on [loc, loc + scale].

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the lower end of the support.
      scale: the length of the support.
    Returns:
      An array of the broadcast shape; 0 outside of the support.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.uniform.pdf(gnp.array([-1.0, 0.5, 5.0]), 0.0, 4.0).round(4)
      Array([0.  , 0.25, 0.  ], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


@strongly_typed
@nan_for_invalid()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function of the uniform distribution on [loc, loc + scale].

    Args:
      x: the point, an array or scalar that broadcasts with the parameters.
      loc: the lower end of the support.
      scale: the length of the support.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.uniform.cdf(gnp.array([-1.0, 0.5, 5.0]), 0.0, 4.0).round(4)
      Array([0.   , 0.125, 1.   ], dtype=float32)
    """
    x, loc, scale = real_arguments("uniform.cdf", x, loc, scale)
    z = (x - loc) / scale
    # The derivative at the ends of the support is that from inside; `clip` would halve it.
    return gnp.where(z < 0, 0, gnp.where(z > 1, 1, z))


@nan_for_invalid()
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile function of the uniform distribution on [loc, loc + scale].

    Args:
      q: probabilities, an array or scalar; nan outside of [0, 1].
      loc: the lower end of the support.
      scale: the length of the support.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.uniform.ppf(gnp.array([0.25, 0.5]), 0.0, 4.0).round(4)
      Array([1., 2.], dtype=float32)
    """
    q, loc, scale = real_arguments("uniform.ppf", q, loc, scale)
    inside = (q >= 0) & (q <= 1)
    return gnp.where(inside, q * scale + loc, np.nan)
