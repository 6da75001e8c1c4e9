"""Batched Gaussian elimination with partial pivoting, by LAPACK or in blocks by NumPy."""

from __future__ import annotations

import math

import numpy as np

from gnomon_runtime.linear_algebra import lapack
from gnomon_runtime.linear_algebra.substitution import substitute

BLOCK = 32


def factor(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factor ``a[permutation] = L U``, as LAPACK's getrf.

    Args:
      a: ``[..., m, n]``.

    Returns:
      L (without its unit diagonal) and U in one array; the pivots, the row with which each step's
      row was swapped; and the permutation of the rows, the product of these swaps.
    """
    *batch, m, n = a.shape
    members = a.reshape(math.prod(batch), m, n)
    columns = members.swapaxes(1, 2).copy()
    pivots = lapack.factor_in_place(columns)
    if pivots is None:
        lu, pivots = _factor_in_blocks(members)
    else:
        lu = np.ascontiguousarray(columns.swapaxes(1, 2))
    pivots = pivots.reshape(*batch, min(m, n))
    return lu.reshape(a.shape), pivots, permutation_of(pivots, m)


def _factor_in_blocks(members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    lu = members.copy()
    count, m, n = lu.shape
    k = min(m, n)
    pivots = np.empty((count, k), np.int32)
    for start in range(0, k, BLOCK):
        stop = min(start + BLOCK, k)
        # In column-major order the loop over columns accesses contiguous memory.
        panel = lu[:, start:, start:stop].transpose(0, 2, 1).copy()
        chosen = _factor_panel(panel)
        pivots[:, start:stop] = start + chosen
        _swap_rows(lu[:, start:], chosen)
        lu[:, start:, start:stop] = panel.transpose(0, 2, 1)
        if stop < n:
            lu[:, start:stop, stop:] = substitute(
                lu[:, start:stop, start:stop],
                lu[:, start:stop, stop:],
                lower=True,
                unit_diagonal=True,
            )
            lu[:, stop:, stop:] -= lu[:, stop:, start:stop] @ lu[:, start:stop, stop:]
    return lu, pivots


def _factor_panel(panel: np.ndarray) -> np.ndarray:
    """Factor a few columns, ``[count, column, row]``, in place; return the pivot rows."""
    count, width, _ = panel.shape
    chosen = np.empty((count, width), np.int32)
    members = np.arange(count)
    for j in range(width):
        chosen[:, j] = at = j + np.argmax(_magnitude(panel[:, j, j:]), axis=-1)
        if count == 1:
            (row,) = at
            if row != j:
                panel[0, :, [j, row]] = panel[0, :, [row, j]]
        else:
            upper = panel[members, :, at]
            panel[members, :, at] = panel[:, :, j]
            panel[:, :, j] = upper
        pivot = panel[:, j, j, None]
        # A column of zeros is left unchanged, as in LAPACK.
        panel[:, j, j + 1 :] /= np.where(pivot == 0, 1, pivot)
        if j + 1 < width:
            panel[:, j + 1 :, j + 1 :] -= panel[:, j + 1 :, j, None] * panel[:, j, None, j + 1 :]
    return chosen


def _swap_rows(rows: np.ndarray, chosen: np.ndarray) -> None:
    """Swap rows of each matrix in place: row i with row ``chosen[i]``, in order."""
    order = permutation_of(chosen, rows.shape[1])
    if len(rows) != 1:
        rows[:] = np.take_along_axis(rows, order[..., None], axis=1)
        return
    (moved,) = np.nonzero(order[0] != np.arange(rows.shape[1]))
    rows[0, moved] = rows[0, order[0, moved]]


def _magnitude(column: np.ndarray) -> np.ndarray:
    """The magnitude for choosing pivots; as BLAS, compare complex numbers by |re| + |im|."""
    if column.dtype.kind == "c":
        size: np.ndarray = np.abs(column.real) + np.abs(column.imag)
        return size
    return np.abs(column)


def permutation_of(pivots: np.ndarray, size: int) -> np.ndarray:
    """The permutation of ``size`` rows that results from successive swaps with ``pivots``.

    A pivot outside of the matrix swaps nothing, as in XLA's kernel on GPUs.
    """
    *batch, k = pivots.shape
    is_inside = (pivots >= 0) & (pivots < size)
    rows = np.where(is_inside, pivots, np.arange(k, dtype=pivots.dtype))
    swaps = rows.reshape(math.prod(batch), k)
    permutation = np.tile(np.arange(size, dtype=np.int32), (swaps.shape[0], 1))
    if len(swaps) == 1:
        order = permutation[0].tolist()
        for j, other in enumerate(swaps[0].tolist()):
            order[j], order[other] = order[other], order[j]
        return np.array(order, np.int32).reshape(*batch, size)
    members = np.arange(swaps.shape[0])
    for j in range(k):
        other = swaps[:, j]
        upper = permutation[members, other]
        permutation[members, other] = permutation[:, j]
        permutation[:, j] = upper
    return permutation.reshape(*batch, size)
