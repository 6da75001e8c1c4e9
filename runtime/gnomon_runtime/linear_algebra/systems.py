"""Linear systems and determinants, by factorizations that are not returned."""

from __future__ import annotations

import math

import numpy as np

from gnomon_runtime.linear_algebra import elimination, unthreaded
from gnomon_runtime.linear_algebra.members import by_member, check_finite, nan_like
from gnomon_runtime.linear_algebra.substitution import substitute


def solve(a: np.ndarray, b: np.ndarray, *, transpose_a: bool) -> np.ndarray:
    """Solve ``a x = b``, or ``a^T x = b``, for general matrices."""
    if transpose_a:
        a = a.swapaxes(-1, -2)
    try:
        return unthreaded.solve(a, b)
    except np.linalg.LinAlgError:
        # Some system has a zero pivot: substitution gives such systems infinities and nan.
        lu, _, permutation = elimination.factor(a)
        rhs = np.take_along_axis(b, permutation[..., None], axis=-2)
        half = substitute(lu, rhs, lower=True, unit_diagonal=True)
        return substitute(lu, half, lower=False, unit_diagonal=False)


def slogdet(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sign (complex: the phase) of the determinant, and the logarithm of its magnitude."""
    sign, log = unthreaded.slogdet(a)
    # NumPy only counts the signs of pivots, which ignores nan.
    return np.where(np.isnan(log), np.nan, sign).astype(a.dtype), log


def cofactors(a: np.ndarray) -> np.ndarray:
    """The derivative of the determinant by each element of a matrix."""

    # Products of all singular values but one need no division, and are right for any rank.
    def products(a: np.ndarray) -> np.ndarray:
        u, s, vh = unthreaded.svd(check_finite(a), True)
        phase = unthreaded.det(u) * unthreaded.det(vh)
        ones = np.ones((*s.shape[:-1], 1), s.dtype)
        before = np.cumprod(np.concatenate([ones, s[..., :-1]], -1), -1)
        after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], -1), -1)[..., ::-1]
        others = (before * after)[..., None, :]
        result: np.ndarray = phase[..., None, None] * ((u.conj() * others) @ vh.conj())
        return result

    if not a.size:
        return a
    found: np.ndarray = by_member(products, a, lambda: nan_like(a.shape[-2:], a.dtype))
    return found


def tridiagonal_solve(dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Eliminate with row swaps, as LAPACK's gtsv, for all members of a batch at once."""
    *batch, n, k = b.shape
    if not b.size:
        return b
    count = math.prod(batch)
    lower, diagonal, upper = (x.reshape(count, n).copy() for x in (dl, d, du))
    x = b.reshape(count, n, k).copy()
    upper[:, -1] = 0
    second = np.zeros_like(upper)
    for i in range(n - 1):
        here, below = diagonal[:, i].copy(), lower[:, i + 1]
        swap = np.abs(below) > np.abs(here)
        pivot, other = np.where(swap, below, here), np.where(swap, here, below)
        factor = other / np.where(pivot == 0, 1, pivot)
        next_diagonal, next_upper = diagonal[:, i + 1].copy(), upper[:, i + 1].copy()
        here_upper = upper[:, i].copy()
        diagonal[:, i] = pivot
        upper[:, i] = np.where(swap, next_diagonal, here_upper)
        second[:, i] = np.where(swap, next_upper, 0)
        diagonal[:, i + 1] = np.where(
            swap, here_upper - factor * next_diagonal, next_diagonal - factor * here_upper
        )
        upper[:, i + 1] = np.where(swap, -factor * next_upper, next_upper)
        first, following = x[:, i].copy(), x[:, i + 1].copy()
        swap_rows, factors = swap[:, None], factor[:, None]
        x[:, i] = np.where(swap_rows, following, first)
        x[:, i + 1] = np.where(swap_rows, first, following) - factors * x[:, i]
    for i in reversed(range(n)):
        if i + 1 < n:
            x[:, i] -= upper[:, i, None] * x[:, i + 1]
        if i + 2 < n:
            x[:, i] -= second[:, i, None] * x[:, i + 2]
        x[:, i] /= diagonal[:, i, None]
    x[(diagonal == 0).any(-1)] = np.nan
    return x.reshape(b.shape)
