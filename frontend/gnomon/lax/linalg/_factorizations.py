"""Factorizations, one function for each op of the dialect."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.lax._creation import full
from gnomon.lax._elementwise import add, mul
from gnomon.lax._operands import accept, argument, constant_like
from gnomon.lax._structural import concatenate
from gnomon.lax.linalg._operands import (
    adjoint,
    as_matrices,
    as_matrix,
    check_matrix,
    matmul,
    symmetrized,
    transposed,
    triangle,
)


class EigImplementation(enum.Enum):
    """The names of JAX's implementations of `eig`; all select the only one of gnomon."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """The names of JAX's implementations of `eigh`; all select the only one of gnomon."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """The names of JAX's algorithms of `svd`; all select the only one of gnomon."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular ``L`` with ``L @ L^H = x``.

    Args:
      x: positive definite matrices ``[..., n, n]``, symmetric or (complex) Hermitian.
      symmetrize_input: factor ``(x + x^H) / 2``; otherwise the upper triangle is not read.
    Returns:
      ``[..., n, n]``; nan if a matrix is not positive definite.

    Example:
      >>> import gnomon.numpy as gnp
      >>> cholesky(gnp.array([[4.0, 2.0], [2.0, 5.0]]))
      Array([[2., 0.],
             [1., 2.]], dtype=float32)
    """
    if symmetrize_input:
        return bind(ops.cholesky, symmetrized("cholesky", x))
    return bind(ops.cholesky, as_matrix("cholesky", x, square=True))


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Eigenvalues and eigenvectors of general matrices.

    Args:
      x: ``[..., n, n]``.
      compute_left_eigenvectors, compute_right_eigenvectors: which eigenvectors to return.
      enable_eigvec_derivs: differentiate the eigenvectors, too. Each has length one and a real
        largest component. The derivative is valid if the eigenvalues are distinct and no vector
        has two components of the largest magnitude.
      implementation, use_magma: ignored; there is only one implementation.
    Returns:
      A list of complex arrays: the eigenvalues ``[..., n]``, then the left and the right
      eigenvectors that were requested, as columns of ``[..., n, n]``.
    Raises:
      NotImplementedError: eigenvectors are differentiated without ``enable_eigvec_derivs``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> a = gnp.array([[0.0, 1.0], [-1.0, 0.0]])
      >>> eig(a, compute_left_eigenvectors=False)[0]
      Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return list(
        bind(
            ops.eig,
            as_matrix("eig", x, square=True),
            compute_left=bool(compute_left_eigenvectors),
            compute_right=bool(compute_right_eigenvectors),
            enable_eigvec_derivs=bool(enable_eigvec_derivs),
        )
    )


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Eigenvectors and eigenvalues of symmetric or Hermitian matrices.

    Args:
      x: ``[..., n, n]``.
      lower: which triangle is read if ``symmetrize_input`` is false.
      symmetrize_input: factor ``(x + x^H) / 2``.
      sort_eigenvalues: ignored; they always ascend.
      subset_by_index: only ``None`` and ``(0, n)``.
      implementation: ignored; there is only one.
    Returns:
      ``(v, w)``: eigenvectors as columns ``[..., n, n]``, ascending real eigenvalues ``[..., n]``.
      The derivative of the vectors is not finite where eigenvalues are equal.

    Example:
      >>> import gnomon.numpy as gnp
      >>> v, w = eigh(gnp.array([[2.0, 1.0], [1.0, 2.0]]))
      >>> w
      Array([1., 3.], dtype=float32)
    """
    a = _as_hermitian(x, symmetrize_input)
    check_whole("eigh", subset_by_index, a.shape[-1])
    vectors, values = bind(ops.eigh, a, lower=bool(lower))
    return vectors, values


def eigenvalues(x: ArrayLike, *, lower: bool = True, symmetrize_input: bool = True) -> Array:
    """The second result of `eigh`, without the first."""
    return bind(ops.eigvalsh, _as_hermitian(x, symmetrize_input), lower=bool(lower))


def _as_hermitian(x: ArrayLike, symmetrize: bool) -> Array:
    return symmetrized("eigh", x) if symmetrize else as_matrix("eigh", x, square=True)


def check_whole(function: str, subset: tuple[int, int] | None, count: int) -> None:
    if subset is not None and tuple(subset) != (0, count):
        raise NotImplementedError(
            f"lax.linalg.{function}: subset_by_index={subset} is not supported on the CPU; "
            f"compute all and slice, or pass (0, {count})"
        )


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The product of Householder reflectors ``I - tau v v^H``.

    Args:
      a: ``[..., m, n]`` with ``m >= n``; the vectors are below the diagonal, without their leading
        ones.
      taus: ``[..., k]`` with ``k <= n``: the factor of each reflector.
    Returns:
      The first ``n`` columns of the product, ``[..., m, n]``.
    Raises:
      ValueError: the shapes do not fit.
      TypeError: the batch dimensions differ.

    Example:
      >>> import gnomon.numpy as gnp
      >>> householder_product(gnp.zeros((3, 2)), gnp.array([2.0, 0.0]))
      Array([[-1.,  0.],
             [ 0.,  1.],
             [ 0.,  0.]], dtype=float32)
    """
    matrices, factors = as_matrices("householder_product", a, taus)
    check_matrix("householder_product", matrices, square=False)
    m, n = matrices.shape[-2:]
    if m < n:
        raise ValueError(
            "lax.linalg.householder_product takes a with rows >= columns, got shape "
            f"{matrices.shape}"
        )
    batched_alike = factors.ndim >= 1 and factors.shape[:-1] == matrices.shape[:-2]
    if not batched_alike or factors.shape[-1] > n:
        raise (ValueError if batched_alike else TypeError)(
            f"lax.linalg.householder_product: taus of shape {factors.shape} do not fit a of shape "
            f"{matrices.shape}; expected {(*matrices.shape[:-2], 'k')} with k <= {n}"
        )
    return bind(ops.householder_product, matrices, factors)


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """Gaussian elimination with partial pivoting.

    Args:
      x: ``[..., m, n]``.
    Returns:
      ``(lu, pivots, permutation)``: the factors ``[..., m, n]``, with L below the diagonal and
      without its ones; the row that each step swaps with; and the permutation for which
      ``x[permutation] = L @ U``. The last two are int32.

    Example:
      >>> import gnomon.numpy as gnp
      >>> factors, pivots, permutation = lu(gnp.array([[1.0, 2.0], [4.0, 6.0]]))
      >>> factors
      Array([[4.  , 6.  ],
             [0.25, 0.5 ]], dtype=float32)
      >>> permutation
      Array([1, 0], dtype=int32)
    """
    factors, pivots, permutation = bind(ops.lu, as_matrix("lu", x))
    return factors, pivots, permutation


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The permutation of the rows that the pivots of `lu` describe.

    Args:
      pivots: int32 ``[..., k]``; step ``i`` swaps row ``i`` with row ``pivots[i]``, if there is
        such a row.
      permutation_size: the number of rows, at least ``k``.
    Returns:
      int32 ``[..., permutation_size]``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> lu_pivots_to_permutation(gnp.array([2, 1, 2]), 4)
      Array([2, 1, 0, 3], dtype=int32)
    """
    swaps = argument("linalg.lu_pivots_to_permutation", pivots, 0)
    accept("linalg.lu_pivots_to_permutation", swaps, frozenset((np.dtype(np.int32),)), 0)
    if swaps.ndim < 1 or permutation_size < swaps.shape[-1]:
        raise ValueError(
            f"lax.linalg.lu_pivots_to_permutation: pivots of shape {swaps.shape} need a "
            f"permutation of at least as many rows, got permutation_size={permutation_size}"
        )
    return bind(ops.lu_pivots_to_permutation, swaps, size=int(permutation_size))


def geqrf(x: ArrayLike) -> tuple[Array, Array]:
    """A QR factorization in LAPACK's form: R, the reflectors below it, and their factors."""
    packed, taus = bind(ops.geqrf, as_matrix("geqrf", x))
    return packed, taus


def ormqr(
    a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False
) -> Array:
    """Multiply by the square matrix Q that reflectors define; see `householder_product`.

    Args:
      a: ``[..., m, n]``, vectors below the diagonal.
      taus: ``[..., k]``.
      c: ``[..., m, columns]``, or ``[..., rows, m]`` unless ``left``.
      left: compute ``Q @ c``; otherwise ``c @ Q``.
      transpose: use ``Q^H`` instead of Q.
    Raises:
      ValueError: the shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> ormqr(gnp.zeros((2, 1)), gnp.array([2.0]), gnp.ones((2, 1)))
      Array([[-1.],
             [ 1.]], dtype=float32)
    """
    vectors, factors, other = as_matrices("ormqr", a, taus, c)
    check_matrix("ormqr", vectors, square=False)
    check_matrix("ormqr", other, square=False)
    *batch, m, n = vectors.shape
    if other.shape[-2 if left else -1] != m:
        raise ValueError(
            f"lax.linalg.ormqr: c of shape {other.shape} does not have {m} "
            f"{'rows' if left else 'columns'}, as a of shape {vectors.shape} asks for"
        )
    if n < m:
        rest = full((*batch, m, m - n), 0, vectors.dtype)
        vectors = concatenate([vectors, rest], vectors.ndim - 1)
    elif n > m:
        start, limit = (0,) * vectors.ndim, (*batch, m, m)
        vectors = bind(ops.slice, vectors, start=start, limit=limit, strides=(1,) * vectors.ndim)
    q = householder_product(vectors, factors)
    q = adjoint(q) if transpose else q
    return matmul(q, other) if left else matmul(other, q)


def qr(
    x: ArrayLike,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> tuple[Array, ...]:
    """``Q @ R = x`` with orthonormal columns in Q and an upper triangular R.

    Args:
      x: ``[..., m, n]``.
      pivoting: permute the columns so that the diagonal of R descends.
      full_matrices: return a square Q; otherwise Q is ``[..., m, k]`` and R is ``[..., k, n]`` with
        ``k = min(m, n)``.
      use_magma: ignored.
    Returns:
      ``(q, r)``, with pivoting ``(q, r, p)`` and ``q @ r = x[..., p]``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> q, r = qr(gnp.array([[3.0, 1.0], [4.0, 2.0]]))
      >>> r
      Array([[-5. , -2.2],
             [ 0. ,  0.4]], dtype=float32)
    """
    a = as_matrix("qr", x)
    return tuple(bind(ops.qr, a, full_matrices=bool(full_matrices), pivoting=bool(pivoting)))


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> tuple[Array, ...]:
    """The Schur form: ``q @ t @ q^H = x`` with a unitary q and a triangular t.

    Args:
      x: ``[..., n, n]``. The form of a real matrix is real; pairs of complex eigenvalues become
        blocks of two rows and columns.
      compute_schur_vectors: whether to return q.
      sort_eig_vals, select_callable: ignored.
    Returns:
      ``(t, q)``, or ``(t,)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> t, q = schur(gnp.array([[2.0, 3.0], [0.0, 1.0]]))
      >>> t
      Array([[2., 3.],
             [0., 1.]], dtype=float32)
    """
    a = as_matrix("schur", x, square=True)
    return tuple(bind(ops.schur, a, compute_schur_vectors=bool(compute_schur_vectors)))


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """Reduce square matrices to Hessenberg form, by Householder reflectors.

    Args:
      a: an array of matrices ``[..., n, n]``.
    Returns:
      ``(a, taus)``: the form on and above the first subdiagonal, the reflectors' vectors below, and
      their factors ``[..., n - 1]``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> gnp.triu(lax.linalg.hessenberg(gnp.array([[1.0, 2.0], [3.0, 4.0]]))[0], -1)
      Array([[1., 2.],
             [3., 4.]], dtype=float32)
      >>> lax.linalg.hessenberg(gnp.eye(3))[1]
      Array([0., 0.], dtype=float32)

    See also:
      `householder_product`, which makes the unitary matrix of the reflectors
    """
    packed, taus = bind(ops.hessenberg, as_matrix("hessenberg", a, square=True))
    return packed, taus


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """Reduce symmetric or Hermitian matrices ``[..., n, n]`` to tridiagonal form.

    Args:
      a: an array of matrices ``[..., n, n]``.
      lower: which triangle is read and overwritten with the reflectors.
    Returns:
      ``(a, d, e, taus)``: the vectors of the reflectors outside of the tridiagonal form, its
      diagonal ``[..., n]`` and off-diagonal ``[..., n - 1]``, which are real, and the factors of
      the reflectors.

    Example:
      >>> import gnomon.numpy as gnp
      >>> tridiagonal(gnp.array([[1.0, 2.0], [2.0, 3.0]]))[2]
      Array([2.], dtype=float32)
    """
    packed, d, e, taus = bind(
        ops.tridiagonal, as_matrix("tridiagonal", a, square=True), lower=bool(lower)
    )
    return packed, d, e, taus


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """The singular value decomposition ``u @ diag(s) @ vh = x``.

    Args:
      x: ``[..., m, n]``.
      full_matrices: return square u and vh; otherwise they have ``k = min(m, n)`` columns and rows.
      compute_uv: whether to compute the vectors.
      subset_by_index: only ``None`` and ``(0, k)``.
      algorithm: ignored; there is only one.
    Returns:
      ``(u, s, vh)``, or only ``s``, which is real and descends.
    Raises:
      NotImplementedError: the result is differentiated with ``full_matrices`` and ``m != n``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> svd(gnp.array([[0.0, 2.0], [1.0, 0.0]]), compute_uv=False)
      Array([2., 1.], dtype=float32)
    """
    a = as_matrix("svd", x)
    check_whole("svd", subset_by_index, min(a.shape[-2:]))
    found = bind(ops.svd, a, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv))
    if not compute_uv:
        return found[0]
    s, u, vh = found
    return u, s, vh


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """``alpha * a @ a^T + beta * c``.

    Args:
      a_matrix: ``[..., m, n]``.
      c_matrix: symmetric, ``[..., m, m]``.
      alpha, beta: numbers.
      symmetrize_output: mirror the lower triangle.

    Example:
      >>> import gnomon.numpy as gnp
      >>> symmetric_product(gnp.ones((2, 3)), gnp.ones((2, 2)), beta=1.0)
      Array([[4., 4.],
             [4., 4.]], dtype=float32)
    """
    a, c = as_matrices("symmetric_product", a_matrix, c_matrix)
    check_matrix("symmetric_product", a, square=False)
    if c.shape != (*a.shape[:-1], a.shape[-2]):
        raise ValueError(
            f"lax.linalg.symmetric_product: c of shape {c.shape} does not fit a of shape {a.shape}"
        )
    product = matmul(a, transposed(a))
    result = add(mul(product, constant_like(product, alpha)), mul(c, constant_like(c, beta)))
    if symmetrize_output:
        mirrored = transposed(triangle(result, lower=True, offset=-1))
        result = add(triangle(result, lower=True), mirrored)
    return result
