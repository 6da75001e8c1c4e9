"""The multivariate normal distribution with a given mean and covariance."""

from __future__ import annotations

import math

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.numpy._arguments import promoted


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """The logarithm of the density.

    Args:
      x: points along the last dimension.
      mean: the mean, which broadcasts with ``x``.
      cov: a positive definite matrix, or a number: the variance of each coordinate.
      allow_singular: None; singular covariances are not supported.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.multivariate_normal.logpdf(gnp.zeros(2), gnp.zeros(2), gnp.eye(2)).round(4)
      Array(-1.8379, dtype=float32)
    """
    if allow_singular is not None:
        raise NotImplementedError("multivariate_normal: allow_singular is not supported")
    x, mean, cov = promoted("multivariate_normal.logpdf", x, mean, cov, inexact=True)
    if not mean.shape:
        return -0.5 * gnp.square(x - mean) / cov - 0.5 * (math.log(2 * math.pi) + lax.log(cov))
    size = mean.shape[-1]
    if not cov.shape:
        distance = gnp.sum(gnp.square(x - mean), axis=-1) / cov
        return -0.5 * distance - size / 2 * (math.log(2 * math.pi) + lax.log(cov))
    if cov.ndim < 2 or cov.shape[-2:] != (size, size):
        raise ValueError(
            f"multivariate_normal: cov must be a matrix of shape {(size, size)}, got {cov.shape}"
        )
    factor = gnp.linalg.cholesky(cov)
    difference = gnp.broadcast_arrays(x - mean, gnp.zeros((*cov.shape[:-1],), cov.dtype))[0]
    batch = difference.shape[:-1]
    factor_of_each = gnp.broadcast_to(factor, (*batch, size, size))
    whitened = lax.linalg.triangular_solve(
        factor_of_each, difference[..., None], left_side=True, lower=True
    )[..., 0]
    half_log_determinant = gnp.sum(lax.log(gnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    distance = gnp.sum(gnp.square(whitened), axis=-1)
    return -0.5 * distance - size / 2 * math.log(2 * math.pi) - half_log_determinant


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density of the multivariate normal distribution.

    Args:
      x: the points, an array ``[..., n]``.
      mean: the mean, an array that broadcasts with ``x``.
      cov: a positive definite matrix ``[..., n, n]``, or a number: the variance of each coordinate.
    Returns:
      An array of the leading dimensions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import stats
      >>> stats.multivariate_normal.pdf(gnp.zeros(2), gnp.zeros(2), gnp.eye(2)).round(4)
      Array(0.1592, dtype=float32)
    """
    return lax.exp(logpdf(x, mean, cov))
