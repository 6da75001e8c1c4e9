"""Batched Householder reflectors in NumPy, with LAPACK's conventions.

A reflector is ``H = I - tau v v^H`` with ``v[0] = 1``. Functions of one reflector take arrays with
one batch dimension; those of whole matrices, any number.
"""

from __future__ import annotations

import math

import numpy as np

# The number of reflectors that are applied at once, as matrix products.
BLOCK = 32


def reflector(column: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The reflector whose adjoint maps a column to a multiple of the first unit vector.

    Args:
      column: ``[members, length]``.

    Returns:
      v ``[members, length]``, tau ``[members]``, and the real multiple ``[members]``.
    """
    alpha = column[:, 0]
    rest = np.linalg.norm(column[:, 1:], axis=-1)
    size = np.hypot(np.abs(alpha), rest)
    beta = -np.copysign(size, alpha.real)
    # If there is nothing to annihilate, LAPACK takes the identity.
    trivial = (rest == 0) & (alpha.imag == 0)
    beta = np.where(trivial, alpha.real, beta)
    safe = np.where(trivial, 1, beta)
    tau = np.where(trivial, 0, (safe - alpha) / safe)
    v = column / np.where(trivial, 1, alpha - beta)[:, None]
    v = np.where(trivial[:, None], 0, v)
    v[:, 0] = 1
    return v.astype(column.dtype), tau.astype(column.dtype), beta.astype(column.dtype)


def apply_left(a: np.ndarray, v: np.ndarray, tau: np.ndarray) -> None:
    """Apply a reflector from the left in place: ``a -= tau v (v^H a)``."""
    a -= (tau[:, None] * v)[:, :, None] * (v.conj()[:, None, :] @ a)


def apply_right(a: np.ndarray, v: np.ndarray, tau: np.ndarray) -> None:
    """Apply a reflector from the right in place: ``a -= (a v) tau v^H``."""
    a -= (a @ v[:, :, None]) * (tau[:, None] * v.conj())[:, None, :]


def product(a: np.ndarray, taus: np.ndarray) -> np.ndarray:
    """The first columns of ``H_1 H_2 ... H_k``, as LAPACK's orgqr.

    Args:
      a: ``[..., m, n]``, with the reflectors' vectors below the diagonal.
      taus: ``[..., k]``.

    Returns:
      ``[..., m, n]``.
    """
    *batch, m, n = a.shape
    count, k = math.prod(batch), taus.shape[-1]
    vectors, factors = a.reshape(count, m, n), taus.reshape(count, k)
    q = np.zeros_like(vectors)
    q[:, range(min(m, n)), range(min(m, n))] = 1
    for start in reversed(range(0, k, BLOCK)):
        stop = min(start + BLOCK, k)
        v = np.tril(vectors[:, start:, start:stop], -1)
        v[:, range(stop - start), range(stop - start)] = 1
        # H_1 ... H_b = I - V T V^H with T upper triangular (Schreiber & Van Loan 1989).
        adjoint = v.conj().swapaxes(-1, -2)
        overlaps = adjoint @ v
        t = np.zeros((v.shape[0], stop - start, stop - start), a.dtype)
        for j in range(stop - start):
            tau = factors[:, start + j]
            column = t[:, :j, :j] @ overlaps[:, :j, j, None]
            t[:, :j, j] = -tau[:, None] * column[..., 0]
            t[:, j, j] = tau
        q[:, start:, start:] -= v @ (t @ (adjoint @ q[:, start:, start:]))
    return q.reshape(a.shape)


def factor_with_pivoting(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """QR with column pivoting, as LAPACK's geqp3: the next pivot is the longest column left.

    Returns:
      R with the reflectors' vectors below its diagonal, taus, and the permutation of columns.
    """
    *batch, m, n = a.shape
    packed = a.reshape(math.prod(batch), m, n).copy()
    count, k = packed.shape[0], min(m, n)
    members = np.arange(count)
    taus = np.zeros((count, k), a.dtype)
    permutation = np.tile(np.arange(n, dtype=np.int32), (count, 1))
    for j in range(k):
        chosen = j + np.argmax(np.linalg.norm(packed[:, j:, j:], axis=1), axis=-1)
        for array in (packed.swapaxes(-1, -2), permutation):
            other = array[members, chosen]
            array[members, chosen] = array[:, j]
            array[:, j] = other
        v, tau, beta = reflector(packed[:, j:, j])
        apply_left(packed[:, j:, j + 1 :], v, tau.conj())
        packed[:, j, j] = beta
        packed[:, j + 1 :, j] = v[:, 1:]
        taus[:, j] = tau
    return packed.reshape(a.shape), taus.reshape(*batch, k), permutation.reshape(*batch, n)


def to_hessenberg(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduce to upper Hessenberg form, as LAPACK's gehrd: the form with the vectors, and taus."""
    *batch, n, _ = a.shape
    packed = a.reshape(math.prod(batch), n, n).copy()
    taus = np.zeros((packed.shape[0], max(n - 1, 0)), a.dtype)
    for j in range(n - 1):
        v, tau, beta = reflector(packed[:, j + 1 :, j])
        apply_left(packed[:, j + 1 :, j + 1 :], v, tau.conj())
        apply_right(packed[:, :, j + 1 :], v, tau)
        packed[:, j + 1, j] = beta
        packed[:, j + 2 :, j] = v[:, 1:]
        taus[:, j] = tau
    return packed.reshape(a.shape), taus.reshape(*batch, max(n - 1, 0))


def to_tridiagonal(
    a: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Reduce the lower triangles of Hermitian matrices to tridiagonal form, as LAPACK's sytrd.

    Returns:
      The array with the reflectors' vectors below the subdiagonal, the diagonal, the subdiagonal,
      and taus.
    """
    *batch, n, _ = a.shape
    packed = a.reshape(math.prod(batch), n, n).copy()
    lower = np.tril(packed, -1)
    work = lower + lower.conj().swapaxes(-1, -2)
    work[:, range(n), range(n)] = packed[:, range(n), range(n)].real
    taus = np.zeros((packed.shape[0], max(n - 1, 0)), a.dtype)
    for j in range(n - 1):
        v, tau, beta = reflector(work[:, j + 1 :, j])
        apply_left(work[:, j + 1 :, j + 1 :], v, tau.conj())
        apply_right(work[:, j + 1 :, j + 1 :], v, tau)
        work[:, j + 1, j] = beta
        packed[:, j + 1, j] = beta
        packed[:, j + 2 :, j] = v[:, 1:]
        taus[:, j] = tau
    d = np.diagonal(work, 0, -2, -1).real
    e = np.diagonal(work, -1, -2, -1).real
    packed[:, range(n), range(n)] = d
    return (
        packed.reshape(a.shape),
        d.reshape(*batch, n),
        e.reshape(*batch, max(n - 1, 0)),
        taus.reshape(*batch, max(n - 1, 0)),
    )
