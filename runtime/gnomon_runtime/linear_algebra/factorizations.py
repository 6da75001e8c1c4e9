"""Factorizations of batches of matrices; for a matrix without a factorization, they are nan."""

from __future__ import annotations

import math

import numpy as np

from gnomon_runtime.linear_algebra import reflectors, shifted_qr, unthreaded
from gnomon_runtime.linear_algebra.members import (
    by_member,
    check_finite,
    complex_dtype,
    nan_like,
    real_dtype,
)


def cholesky(a: np.ndarray) -> np.ndarray:
    """The lower triangular L with ``L L^H = a``."""
    # LAPACK fails at the first pivot that is not positive, but nan pivots propagate.
    factor: np.ndarray = by_member(
        unthreaded.cholesky, a, lambda: np.tril(nan_like(a.shape[-2:], a.dtype))
    )
    return factor


def eigh(a: np.ndarray, *, lower: bool) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors and ascending eigenvalues of Hermitian matrices."""
    n = a.shape[-1]

    def factor(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = unthreaded.eigh(a, "L" if lower else "U")
        return vectors, values

    def failed() -> tuple[np.ndarray, np.ndarray]:
        return nan_like((n, n), a.dtype), nan_like((n,), real_dtype(a.dtype))

    found: tuple[np.ndarray, np.ndarray] = by_member(factor, a, failed)
    return found


def eigvalsh(a: np.ndarray, *, lower: bool) -> np.ndarray:
    """Ascending eigenvalues of Hermitian matrices."""

    def factor(a: np.ndarray) -> np.ndarray:
        return unthreaded.eigvalsh(a, "L" if lower else "U")

    found: np.ndarray = by_member(factor, a, lambda: nan_like((a.shape[-1],), real_dtype(a.dtype)))
    return found


def eig(
    a: np.ndarray, *, compute_left: bool, compute_right: bool, enable_eigvec_derivs: bool
) -> tuple[np.ndarray, ...]:
    """Eigenvalues of general matrices, and left and right eigenvectors on request."""
    dtype = complex_dtype(a.dtype)
    n = a.shape[-1]

    def factor(a: np.ndarray) -> tuple[np.ndarray, ...]:
        if not (compute_left or compute_right):
            return (unthreaded.eigvals(a).astype(dtype),)
        values, right = (x.astype(dtype) for x in unthreaded.eig(a))
        return (
            values,
            *([_left_vectors(a, values)] if compute_left else []),
            *([right] if compute_right else []),
        )

    def failed() -> tuple[np.ndarray, ...]:
        count = compute_left + compute_right
        return (nan_like((n,), dtype), *(nan_like((n, n), dtype) for _ in range(count)))

    found = by_member(factor, a, failed)
    return found if isinstance(found, tuple) else (found,)


def _left_vectors(a: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The left eigenvectors, in the order of the eigenvalues: right ones of the adjoint."""
    mirrored, vectors = unthreaded.eig(a.conj().swapaxes(-1, -2))
    distance = np.abs(values[..., :, None] - mirrored.conj()[..., None, :])
    order = np.empty(values.shape, np.intp)
    # Match each eigenvalue with the nearest one left; within a cluster, any match is correct.
    for i in range(values.shape[-1]):
        nearest = distance[..., i, :].argmin(-1)
        order[..., i] = nearest
        np.put_along_axis(distance, nearest[..., None, None], np.inf, axis=-1)
    result: np.ndarray = np.take_along_axis(vectors, order[..., None, :], -1)
    return result.astype(values.dtype)


def svd(a: np.ndarray, *, full_matrices: bool, compute_uv: bool) -> tuple[np.ndarray, ...]:
    """Singular values, and both matrices of singular vectors on request."""
    m, n = a.shape[-2:]
    k = min(m, n)

    def factor(a: np.ndarray) -> tuple[np.ndarray, ...]:
        if not compute_uv:
            return (unthreaded.svdvals(check_finite(a)),)
        u, s, vh = unthreaded.svd(check_finite(a), full_matrices)
        return s, u, vh

    def failed() -> tuple[np.ndarray, ...]:
        values = nan_like((k,), real_dtype(a.dtype))
        if not compute_uv:
            return (values,)
        u, vh = ((m, m), (n, n)) if full_matrices else ((m, k), (k, n))
        return values, nan_like(u, a.dtype), nan_like(vh, a.dtype)

    found = by_member(factor, a, failed)
    return found if isinstance(found, tuple) else (found,)


def pinv(a: np.ndarray, rtol: np.ndarray) -> np.ndarray:
    """The pseudoinverse; singular values up to ``rtol`` times the largest count as zero."""
    *batch, m, n = a.shape
    if not a.size:
        return np.zeros((*batch, n, m), a.dtype)
    u, s, vh = by_member(
        lambda a: unthreaded.svd(check_finite(a), False),
        a,
        lambda: tuple(
            nan_like(shape, dtype)
            for shape, dtype in (
                ((m, min(m, n)), a.dtype),
                ((min(m, n),), real_dtype(a.dtype)),
                ((min(m, n), n), a.dtype),
            )
        ),
    )
    small = s <= rtol[..., None] * s[..., :1]
    inverse = np.where(small, 0, 1 / np.where(small, 1, s)).astype(a.dtype)
    result: np.ndarray = (vh.conj().swapaxes(-1, -2) * inverse[..., None, :]) @ (
        u.conj().swapaxes(-1, -2)
    )
    return result


def geqrf(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """R with Householder vectors below its diagonal, and their factors."""
    return unthreaded.geqrf(a)


def qr(a: np.ndarray, *, full_matrices: bool, pivoting: bool) -> tuple[np.ndarray, ...]:
    """Q and R; with pivoting, the permutation of the columns too."""
    if not pivoting:
        return unthreaded.qr(a, full_matrices)
    packed, taus, permutation = reflectors.factor_with_pivoting(a)
    *batch, m, n = a.shape
    k = m if full_matrices else min(m, n)
    vectors = np.zeros((*batch, m, k), a.dtype)
    vectors[..., : min(k, n)] = packed[..., : min(k, n)]
    r = np.zeros((*batch, k, n), a.dtype)
    r[..., : min(k, n), :] = np.triu(packed)[..., : min(k, n), :]
    return reflectors.product(vectors, taus), r, permutation


def schur(a: np.ndarray, *, compute_schur_vectors: bool) -> tuple[np.ndarray, ...]:
    """The Schur form, and its vectors on request."""
    n = a.shape[-1]
    members = a.reshape(math.prod(a.shape[:-2]), n, n)
    forms, vectors = np.empty_like(members), np.empty_like(members)
    for i, member in enumerate(members):
        try:
            forms[i], vectors[i] = shifted_qr.schur(member)
        except np.linalg.LinAlgError:
            forms[i] = np.triu(nan_like((n, n), a.dtype))
            vectors[i] = nan_like((n, n), a.dtype)
    found = (forms.reshape(a.shape), vectors.reshape(a.shape))
    return found if compute_schur_vectors else found[:1]


def tridiagonal(a: np.ndarray, *, lower: bool) -> tuple[np.ndarray, ...]:
    """The tridiagonal form of Hermitian matrices, as LAPACK packs it."""
    if lower:
        return reflectors.to_tridiagonal(a)
    # With rows and columns reversed, the upper triangle is a lower one.
    packed, *others = reflectors.to_tridiagonal(a[..., ::-1, ::-1])
    return packed[..., ::-1, ::-1], *(x[..., ::-1] for x in others)
