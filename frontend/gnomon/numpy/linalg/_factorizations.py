"""Factorizations of matrices, with NumPy's names and arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.lax import linalg as lax_linalg
from gnomon.lax._creation import converted
from gnomon.lax.linalg._factorizations import eigenvalues, geqrf
from gnomon.numpy._dispatch import broadcast_to_shape
from gnomon.numpy._manipulation import expand_dims, matrix_transpose
from gnomon.numpy._taking import take_along_axis
from gnomon.numpy.linalg._arguments import adjoint, inexact


class EigResult(NamedTuple):
    """The result of `eig`."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """The result of `qr`."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """The result of `svd`."""

    U: Array
    S: Array
    Vh: Array


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The triangular factor of positive definite matrices: ``L @ L^H = a``, or ``U^H @ U = a``.

    Args:
      a: ``[..., n, n]``, symmetric or (complex) Hermitian.
      upper: return the upper triangular factor.
      symmetrize_input: factor ``(a + a^H) / 2``; otherwise only the lower triangle is read.
    Returns:
      ``[..., n, n]``; nan if a matrix is not positive definite.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.cholesky(gnp.array([[4.0, 2.0], [2.0, 5.0]]))
      Array([[2., 0.],
             [1., 2.]], dtype=float32)
    """
    factor = lax_linalg.cholesky(inexact("cholesky", a), symmetrize_input=symmetrize_input)
    return adjoint(factor) if upper else factor


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """The singular value decomposition ``U @ diag(S) @ Vh = a``.

    Args:
      a: ``[..., m, n]``.
      full_matrices: return square U and Vh; otherwise U has ``min(m, n)`` columns, and Vh as many
        rows.
      compute_uv: whether to return U and Vh.
      hermitian: whether the matrices are Hermitian; they are then decomposed by `eigh`.
      subset_by_index: only ``None`` and ``(0, min(m, n))`` are supported.
    Returns:
      ``(U, S, Vh)``, or only S, which is real and descends.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.svd(gnp.array([[0.0, 2.0], [1.0, 0.0]])).S
      Array([2., 1.], dtype=float32)
    """
    x = inexact("svd", a)
    if hermitian:
        return _hermitian_svd(x, compute_uv)
    found = lax_linalg.svd(
        x, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
    )
    return SVDResult(*found) if compute_uv else found


def _hermitian_svd(x: Array, compute_uv: bool) -> Any:
    if not compute_uv:
        return lax.rev(lax.sort(lax.abs(eigenvalues(x))), (x.ndim - 2,))
    vectors, values = lax_linalg.eigh(x)
    size = lax.abs(values)
    rank = values.ndim
    places = lax.broadcasted_iota(np.dtype(np.int32), values.shape, rank - 1)
    ordered, places = lax.sort((size, places), dimension=rank - 1, num_keys=1)
    ordered = lax.rev(ordered, (rank - 1,))
    places = lax.rev(places, (rank - 1,))
    # A row of the last factor may not be 0 where the eigenvalue is.
    signs = lax.select(values < 0, lax.full_like(values, -1), lax.full_like(values, 1))
    signs = take_along_axis(signs, places, axis=-1)
    u = take_along_axis(vectors, expand_dims(places, -2), axis=-1)
    turned = lax.mul(u, broadcast_to_shape(expand_dims(converted(signs, u.dtype), -2), u.shape))
    return SVDResult(u, ordered, adjoint(turned))


def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of matrices, descending.

    Args:
      x: an array of matrices ``[..., m, n]``.
    Returns:
      A real array ``[..., min(m, n)]``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.svdvals(gnp.array([[0.0, 2.0], [1.0, 0.0]]))
      Array([2., 1.], dtype=float32)

    See also:
      `svd`
    """
    result: Array = svd(x, compute_uv=False)
    return result


def eig(a: ArrayLike) -> EigResult:
    """The eigenvalues and right eigenvectors of general matrices.

    The vectors cannot be differentiated; `gnomon.lax.linalg.eig` has an option for that.

    Args:
      a: an array of matrices ``[..., n, n]``.
    Returns:
      A named tuple ``(eigenvalues, eigenvectors)`` of complex arrays ``[..., n]`` and ``[..., n,
      n]``. The vectors are columns of length one; the values are in no particular order.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.eig(gnp.array([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
      Array([0.+1.j, 0.-1.j], dtype=complex64)

    See also:
      `eigh` for symmetric matrices, `eigvals`
    """
    values, vectors = lax_linalg.eig(inexact("eig", a), compute_left_eigenvectors=False)
    return EigResult(values, vectors)


def eigvals(a: ArrayLike) -> Array:
    """The eigenvalues of general matrices.

    Args:
      a: an array of matrices ``[..., n, n]``.
    Returns:
      A complex array ``[..., n]``, also of real matrices, in no particular order.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.eigvals(gnp.array([[0.0, 1.0], [-1.0, 0.0]]))
      Array([0.+1.j, 0.-1.j], dtype=complex64)

    See also:
      `eigvalsh`, `eig`
    """
    return lax_linalg.eig(
        inexact("eigvals", a), compute_left_eigenvectors=False, compute_right_eigenvectors=False
    )[0]


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Ascending eigenvalues and eigenvectors (columns) of symmetric or Hermitian matrices.

    Args:
      a: ``[..., n, n]``.
      UPLO: which triangle is read if ``symmetrize_input`` is false.
      symmetrize_input: decompose ``(a + a^H) / 2``.
    Raises:
      ValueError: UPLO is not ``None``, ``"L"`` or ``"U"``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.eigh(gnp.array([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
      Array([1., 3.], dtype=float32)
    """
    vectors, values = lax_linalg.eigh(
        inexact("eigh", a), lower=_is_lower(UPLO), symmetrize_input=symmetrize_input
    )
    return EighResult(values, vectors)


def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The eigenvalues of symmetric or Hermitian matrices, ascending.

    Args:
      a: an array of matrices ``[..., n, n]``.
      UPLO: "L" reads the lower triangle, "U" the upper one, if the matrices are not symmetrized.
      symmetrize_input: use the mean of each matrix and its conjugate transpose.
    Returns:
      A real array ``[..., n]``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.eigvalsh(gnp.array([[2.0, 1.0], [1.0, 2.0]]))
      Array([1., 3.], dtype=float32)

    See also:
      `eigh`
    """
    return eigenvalues(
        inexact("eigvalsh", a), lower=_is_lower(UPLO), symmetrize_input=symmetrize_input
    )


def _is_lower(triangle: str | None) -> bool:
    if triangle not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {triangle}")
    return triangle != "U"


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """The QR factorization.

    Args:
      a: ``[..., m, n]``.
      mode: ``"reduced"`` (or ``"full"``); ``"complete"`` for a square Q; ``"r"`` for only R; or
        ``"raw"`` for LAPACK's reflectors (transposed) and their factors.
    Returns:
      ``(Q, R)``, or R.
    Raises:
      ValueError: the mode is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.qr(gnp.array([[3.0, 1.0], [4.0, 2.0]]), mode="r")
      Array([[-5. , -2.2],
             [ 0. ,  0.4]], dtype=float32)
    """
    x = inexact("qr", a)
    if mode == "raw":
        packed, taus = geqrf(x)
        return QRResult(matrix_transpose(packed), taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, r = lax_linalg.qr(x, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)
