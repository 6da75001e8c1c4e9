"""Samples by factorizations: orthogonal matrices, and normal vectors with a covariance."""

from __future__ import annotations

import operator

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon.dialects.types import is_floating
from gnomon.lax._operands import as_shape
from gnomon.numpy._arguments import promoted
from gnomon.numpy._dispatch import broadcast_to_shape
from gnomon.random._samplers import normal


@takes_out_sharding
def orthogonal(
    key: ArrayLike,
    n: int,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    m: int | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Matrices drawn uniformly from the orthogonal (complex: unitary) group (Mezzadri 2007).

    Args:
      key: a key.
      n: the number of rows.
      shape: the batch dimensions.
      dtype: floating or complex.
      m: the number of columns, by default ``n``. The rows or columns, whichever are fewer, are
        orthonormal.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Returns:
      ``[*shape, n, m]``.

    Example:
      >>> import gnomon
      >>> q = orthogonal(gnomon.random.key(0), 3)
      >>> (q @ q.T).round(3)[0, 0]
      Array(1., dtype=float32)
    """
    rows = operator.index(n)
    columns = rows if m is None else operator.index(m)
    if min(rows, columns) < 0:
        raise ValueError(f"random.orthogonal: negative dimensions, got {rows} and {columns}")
    batch = as_shape("random.orthogonal", shape)
    z = normal(
        key, (*batch, max(rows, columns), min(rows, columns)), float if dtype is None else dtype
    )
    q, r = gnp.linalg.qr(z)
    x = q * gnp.expand_dims(gnp.sign(gnp.linalg.diagonal(r)), -2)
    return gnp.matrix_transpose(x) if rows < columns else x


@takes_out_sharding
def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    method: str = "cholesky",
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Normal vectors with a mean and a covariance.

    Args:
      key: a key.
      mean: ``[..., n]``.
      cov: a positive definite matrix ``[..., n, n]``; the methods ``"svd"`` and ``"eigh"`` also
        take semidefinite ones.
      shape: the batch dimensions, by default those of ``mean`` and ``cov``, broadcast.
      dtype: floating.
      method: how ``cov`` is factored: ``"cholesky"``, ``"svd"`` or ``"eigh"``.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Returns:
      ``[*shape, n]``.
    Raises:
      ValueError: the method is unknown, or the shapes do not fit.

    Example:
      >>> import gnomon, gnomon.numpy as gnp
      >>> multivariate_normal(gnomon.random.key(0), gnp.zeros(2), gnp.eye(2), (3,)).shape
      (3, 2)
    """
    center, covariance = promoted("random.multivariate_normal", mean, cov, inexact=True)
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError("method must be one of {'svd', 'eigh', 'cholesky'}")
    kind = (
        center.dtype
        if dtype is None
        else _dtypes.check_user_dtype(dtype, "random.multivariate_normal")
    )
    if not is_floating(kind):
        raise ValueError(
            f"dtype argument to `multivariate_normal` must be a float dtype, got {kind}"
        )
    if center.ndim < 1 or covariance.ndim < 2 or covariance.shape[-2:] != 2 * center.shape[-1:]:
        raise ValueError(
            "multivariate_normal requires a mean [..., n] and a covariance [..., n, n], got "
            f"{center.shape} and {covariance.shape}"
        )
    own = tuple(lax.broadcast_shapes(center.shape[:-1], covariance.shape[:-2]))
    batch = own if shape is None else as_shape("random.multivariate_normal", shape)
    if tuple(lax.broadcast_shapes(batch, own)) != batch:
        raise ValueError(
            f"multivariate_normal: shape {batch} does not fit the batch dimensions {own} of the "
            "mean and the covariance"
        )
    if method == "svd":
        u, s, _ = gnp.linalg.svd(covariance)
        factor = u * gnp.expand_dims(gnp.sqrt(s), -2)
    elif method == "eigh":
        values, vectors = gnp.linalg.eigh(covariance)
        factor = vectors * gnp.expand_dims(gnp.sqrt(values), -2)
    else:
        factor = gnp.linalg.cholesky(covariance)
    samples = normal(key, (*batch, center.shape[-1]), kind)
    moved = gnp.einsum("...ij,...j->...i", factor, samples)
    return broadcast_to_shape(center, moved.shape) + moved
