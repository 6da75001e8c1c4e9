"""The Dirichlet distribution with parameters alpha, on vectors that add up to one."""

from __future__ import annotations

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.numpy._arguments import promoted
from gnomon.scipy import special


def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density.

    Args:
      x: vectors along the first dimension. If they have one entry less than ``alpha``, the last
        entry is one minus the sum of the others.
      alpha: a vector of positive parameters.
    Raises:
      ValueError: ``alpha`` is not a vector, or the sizes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.dirichlet.logpdf(gnp.array([0.2, 0.3, 0.5]), gnp.array([1.0, 2.0, 3.0])).round(4)
      Array(1.5041, dtype=float32)
    """
    x, alpha = promoted("dirichlet.logpdf", x, alpha, inexact=True)
    if alpha.ndim != 1:
        raise ValueError(f"dirichlet: alpha must be a vector, got shape {alpha.shape}")
    if x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(
            f"dirichlet: x must have as many entries as alpha ({alpha.shape[0]}), or one less, "
            f"got shape {x.shape}"
        )
    if x.shape[0] != alpha.shape[0]:
        x = gnp.concatenate([x, 1 - gnp.sum(x, axis=0, keepdims=True)], axis=0)
    normalizer = gnp.sum(lax.lgamma(alpha)) - lax.lgamma(gnp.sum(alpha))
    powers = gnp.reshape(alpha - 1, (-1,) + (1,) * (x.ndim - 1))
    value = gnp.sum(special.xlogy(powers, x), axis=0) - normalizer
    inside = gnp.all(x >= 0, axis=0) & (gnp.abs(gnp.sum(x, axis=0) - 1) < 1e-6)
    return gnp.where(inside, value, -np.inf)


def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density of the Dirichlet distribution.

    Args:
      x: vectors along the first dimension; the last of their n entries may be left out.
      alpha: the n positive parameters.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.dirichlet.pdf(gnp.array([0.2, 0.3, 0.5]), gnp.array([1.0, 2.0, 3.0])).round(4)
      Array(4.5, dtype=float32)
    """
    return lax.exp(logpdf(x, alpha))
