"""Factorizations: LU, QR, singular values, eigenvectors, Schur and Hessenberg forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.dialects.types import is_complex
from gnomon.lax import linalg as lax_linalg
from gnomon.lax.linalg._factorizations import eigenvalues
from gnomon.numpy._arguments import promoted
from gnomon.numpy._dispatch import broadcast_to_shape
from gnomon.numpy._indexing import getitem
from gnomon.numpy.linalg._arguments import adjoint, inexact, product


def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    """The LU factorization with pivoting: ``P @ L @ U = a``.

    Args:
      a: ``[..., m, n]``.
      permute_l: return ``P @ L`` instead of P and L.
      overwrite_a, check_finite: ignored.
    Returns:
      ``(p, l, u)``, or ``(p @ l, u)``: ``[..., m, m]``, ``[..., m, k]``, ``[..., k, n]`` with
      ``k = min(m, n)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> lu(gnp.array([[1.0, 2.0], [4.0, 6.0]]), permute_l=True)[0]
      Array([[0.25, 1.  ],
             [1.  , 0.  ]], dtype=float32)
    """
    x = inexact("lu", a)
    factors, _, permutation = lax_linalg.lu(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    rows = gnp.arange(m, dtype=permutation.dtype)[:, None]
    p = lax.eq(
        *(
            broadcast_to_shape(v, (*x.shape[:-2], m, m))
            for v in (gnp.expand_dims(permutation, -2), rows)
        )
    )
    lower = gnp.tril(getitem(factors, (..., slice(None), slice(0, k))), -1)
    lower = lower + lax.broadcast_to_rank(gnp.eye(m, k, dtype=x.dtype), lower.ndim)
    upper = gnp.triu(getitem(factors, (..., slice(0, k), slice(None))))
    if permute_l:
        return product(p.astype(x.dtype), lower), upper
    return lax.real(p.astype(x.dtype)) if is_complex(x.dtype) else p.astype(x.dtype), lower, upper


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """The QR factorization.

    Args:
      a: ``[..., m, n]``.
      mode: ``"full"`` for a square Q, ``"economic"`` for a Q of ``min(m, n)`` columns, ``"r"`` for
        only R.
      pivoting: permute the columns so that the diagonal of R descends.
      overwrite_a, lwork, check_finite: ignored.
    Returns:
      ``(q, r)`` or ``(r,)``; with pivoting, the permutation is the last element.
    Raises:
      ValueError: the mode is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> qr(gnp.array([[3.0, 1.0], [4.0, 2.0]]), mode="r")
      (Array([[-5. , -2.2],
             [ 0. ,  0.4]], dtype=float32),)
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, *others = lax_linalg.qr(
        inexact("qr", a), pivoting=pivoting, full_matrices=mode != "economic"
    )
    return tuple(others) if mode == "r" else (q, *others)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """The singular value decomposition ``u @ diag(s) @ vh``.

    Args:
      a: an array of matrices ``[..., m, n]``.
      full_matrices: whether ``u`` and ``vh`` are square; otherwise they have ``min(m, n)`` columns
        and rows.
      compute_uv: False returns only the singular values.
      overwrite_a, check_finite, lapack_driver: ignored.
    Returns:
      ``(u, s, vh)``, or ``s``. The singular values ``[..., min(m, n)]`` descend.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import linalg
      >>> linalg.svd(gnp.array([[0.0, 2.0], [1.0, 0.0]]), compute_uv=False)
      Array([2., 1.], dtype=float32)
      >>> [part.shape for part in linalg.svd(gnp.ones((3, 2)), full_matrices=False)]
      [(3, 2), (2,), (2, 2)]
    """
    return lax_linalg.svd(inexact("svd", a), full_matrices=full_matrices, compute_uv=compute_uv)


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Ascending eigenvalues, and eigenvectors as columns, of ``(a + a^H) / 2``.

    Args:
      a: ``[..., n, n]``.
      eigvals_only: return only the eigenvalues.
      lower, overwrite_a, overwrite_b, turbo, check_finite: ignored.
      b, eigvals: must be None.
      type: must be 1.
    Raises:
      NotImplementedError: ``b`` or ``eigvals`` is given, or ``type`` is not 1.

    Example:
      >>> import gnomon.numpy as gnp
      >>> eigh(gnp.array([[2.0, 1.0], [1.0, 2.0]]), eigvals_only=True)
      Array([1., 3.], dtype=float32)
    """
    if b is not None:
        raise NotImplementedError("Only the b=None case of eigh is implemented")
    if type != 1:
        raise NotImplementedError("Only the type=1 case of eigh is implemented.")
    if eigvals is not None:
        raise NotImplementedError("Only the eigvals=None case of eigh is implemented.")
    x = inexact("eigh", a)
    if eigvals_only:
        return eigenvalues(x, lower=lower)
    vectors, values = lax_linalg.eigh(x, lower=lower)
    return values, vectors


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Array | None = None,
) -> Any:
    """Eigenvalues and eigenvectors of a tridiagonal symmetric or Hermitian matrix.

    Args:
      d: the (real) diagonal ``[n]``.
      e: the diagonal above it, ``[n - 1]``.
      eigvals_only: return only the eigenvalues.
      select: ``"a"`` for all eigenvalues, or ``"i"`` for those with indices in ``select_range``,
        including both ends.
      select_range: see ``select``.
      tol, key: ignored.
    Raises:
      NotImplementedError: ``select`` is ``"v"``.
      ValueError: ``select`` is unknown, or the range is missing or empty.

    Example:
      >>> import gnomon.numpy as gnp
      >>> eigh_tridiagonal(gnp.array([2.0, 2.0]), gnp.array([1.0]), eigvals_only=True)
      Array([1., 3.], dtype=float32)
    """
    if select == "v":
        raise NotImplementedError("eigh_tridiagonal(..., select='v') is not implemented")
    if select not in ("a", "i"):
        raise ValueError("'select must have a value in {'a', 'i', 'v'}.")
    diagonal, off_diagonal = promoted("scipy.linalg.eigh_tridiagonal", d, e, inexact=True)
    chosen = slice(None)
    if select == "i":
        if select_range is None:
            raise ValueError("for select='i', select_range must be specified.")
        if select_range[0] > select_range[1]:
            raise ValueError("Got empty index range in select_range.")
        chosen = slice(int(select_range[0]), int(select_range[1]) + 1)
    above = gnp.diag(off_diagonal, 1)
    matrix = gnp.diag(diagonal) + above + adjoint(above)
    values, vectors = gnp.linalg.eigh(matrix)
    values = getitem(values, chosen)
    return values if eigvals_only else (values, getitem(vectors, (slice(None), chosen)))


def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """The Schur form ``(t, z)``: ``z @ t @ z^H = a``.

    Args:
      a: ``[..., n, n]``.
      output: ``"real"`` gives a real matrix a real form with 2 by 2 blocks; ``"complex"`` gives a
        triangular form.
    Raises:
      ValueError: ``output`` is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> schur(gnp.array([[2.0, 3.0], [0.0, 1.0]]))[0]
      Array([[2., 3.],
             [0., 1.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ValueError(
            f"Expected 'output' to be either 'real' or 'complex', got output={output!r}."
        )
    x = inexact("schur", a)
    if output == "complex":
        x = x.astype(np.result_type(x.dtype, np.complex64))
    form, vectors = lax_linalg.schur(x)
    return form, vectors


def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The Hessenberg form: ``q @ h @ q^H = a`` with zeros below the first subdiagonal of h.

    Args:
      a: ``[..., n, n]``.
      calc_q: return ``(h, q)``.
      overwrite_a, check_finite: ignored.

    Example:
      >>> import gnomon.numpy as gnp
      >>> hessenberg(gnp.array([[1.0, 2.0], [3.0, 4.0]]))
      Array([[1., 2.],
             [3., 4.]], dtype=float32)
    """
    x = inexact("hessenberg", a)
    packed, taus = lax_linalg.hessenberg(x)
    h = gnp.triu(packed, -1)
    if not calc_q:
        return h
    n = x.shape[-1]
    if n < 2:
        return h, broadcast_to_shape(gnp.eye(n, dtype=x.dtype), x.shape)
    vectors = getitem(packed, (..., slice(1, None), slice(0, n - 1)))
    q = lax_linalg.householder_product(vectors, taus)
    widths = [(0, 0)] * (x.ndim - 2) + [(1, 0), (1, 0)]
    corner = gnp.zeros((n, n), x.dtype).at[0, 0].set(1)
    return h, gnp.pad(q, widths) + lax.broadcast_to_rank(corner, x.ndim)
