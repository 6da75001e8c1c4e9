"""Gaussian elimination with partial pivoting in NumPy, over batches, in blocks of columns."""

from __future__ import annotations

import math

import numpy as np

from gnomon.dialects.linear_algebra.substitution import substitute

BLOCK = 32


def factor(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``a[permutation] = L U``: LAPACK's getrf.

    Args:
      a: ``[..., m, n]``.
    Returns:
      L (without its unit diagonal) and U in one array; the row that each step's row was swapped
      with; and the permutation of the rows that these swaps make.
    """
    *batch, m, n = a.shape
    lu = a.reshape(math.prod(batch), m, n).copy()
    count, k = lu.shape[0], min(m, n)
    members = np.arange(count)
    pivots = np.empty((count, k), np.int32)
    for start in range(0, k, BLOCK):
        stop = min(start + BLOCK, k)
        for j in range(start, stop):
            pivots[:, j] = chosen = j + np.argmax(_magnitude(lu[:, j:, j]), axis=-1)
            if count == 1:
                if chosen[0] != j:
                    lu[0, [j, chosen[0]]] = lu[0, [chosen[0], j]]
            else:
                upper = lu[members, chosen]
                lu[members, chosen] = lu[:, j]
                lu[:, j] = upper
            pivot = lu[:, j, j, None]
            # A column of zeros is left alone, as LAPACK leaves it.
            lu[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)
            if j + 1 < stop:
                lu[:, j + 1 :, j + 1 : stop] -= (
                    lu[:, j + 1 :, j, None] * lu[:, j, None, j + 1 : stop]
                )
        if stop < n:
            lu[:, start:stop, stop:] = substitute(
                lu[:, start:stop, start:stop],
                lu[:, start:stop, stop:],
                lower=True,
                unit_diagonal=True,
            )
            lu[:, stop:, stop:] -= lu[:, stop:, start:stop] @ lu[:, start:stop, stop:]
    pivots = pivots.reshape(*batch, k)
    return lu.reshape(a.shape), pivots, permutation_of(pivots, m)


def _magnitude(column: np.ndarray) -> np.ndarray:
    """What pivots are chosen by: BLAS compares complex numbers by the sum of their parts."""
    if column.dtype.kind == "c":
        size: np.ndarray = np.abs(column.real) + np.abs(column.imag)
        return size
    return np.abs(column)


def permutation_of(pivots: np.ndarray, size: int) -> np.ndarray:
    """The permutation of ``size`` rows that successive swaps with ``pivots`` make."""
    *batch, k = pivots.shape
    swaps = pivots.reshape(math.prod(batch), k)
    permutation = np.tile(np.arange(size, dtype=np.int32), (swaps.shape[0], 1))
    members = np.arange(swaps.shape[0])
    for j in range(k):
        other = swaps[:, j]
        upper = permutation[members, other]
        permutation[members, other] = permutation[:, j]
        permutation[:, j] = upper
    return permutation.reshape(*batch, size)
