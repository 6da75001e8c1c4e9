"""Batched forward and backward substitution, by BLAS or in blocks by NumPy.

This is the kernel of the solves by LU factors and of triangular solves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gnomon_runtime.linear_algebra import lapack

# Rows within a block are eliminated one by one; whole blocks, by a matrix product.
BLOCK = 32


def substitute(
    matrix: np.ndarray, rhs: np.ndarray, *, lower: bool, unit_diagonal: bool
) -> np.ndarray:
    """Solve ``matrix @ x = rhs`` for triangular matrices; the other triangle is not read.

    Args:
      matrix: ``[..., n, n]``.
      rhs: ``[..., n, k]``, with the same batch dimensions.
    """
    x = rhs.copy()
    count = math.prod(x.shape[:-2])
    members, solved = (v.reshape(count, *v.shape[-2:]) for v in (matrix, x))
    if not lapack.substitute_in_place(members, solved, lower=lower, unit_diagonal=unit_diagonal):
        _substitute_in_blocks(members, solved, lower, unit_diagonal)
    return x


def _substitute_in_blocks(
    matrix: np.ndarray, x: np.ndarray, lower: bool, unit_diagonal: bool
) -> None:
    n = matrix.shape[-1]
    for start, stop in _blocks(n, lower):
        solved = slice(0, start) if lower else slice(stop, n)
        block = x[..., start:stop, :]
        if solved.start != solved.stop:
            block -= matrix[..., start:stop, solved] @ x[..., solved, :]
        for i in range(start, stop) if lower else range(stop - 1, start - 1, -1):
            known = slice(start, i) if lower else slice(i + 1, stop)
            row = x[..., i, :]
            if known.start != known.stop:
                row -= (matrix[..., i : i + 1, known] @ x[..., known, :])[..., 0, :]
            if not unit_diagonal:
                row /= matrix[..., i, i, None]


def _blocks(n: int, lower: bool) -> Iterator[tuple[int, int]]:
    starts = range(0, n, BLOCK)
    for start in starts if lower else reversed(starts):
        yield start, min(start + BLOCK, n)


def solve_triangular(
    a: np.ndarray,
    b: np.ndarray,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> np.ndarray:
    """Solve ``op(a) @ x = b``, or ``x @ op(a) = b`` unless ``left_side``."""
    matrix = a.conj() if conjugate_a and a.dtype.kind == "c" else a
    # x op(a) = b is op(a)^T x^T = b^T.
    if transpose_a == left_side:
        matrix, lower = matrix.swapaxes(-1, -2), not lower
    if left_side:
        return substitute(matrix, b, lower=lower, unit_diagonal=unit_diagonal)
    x = substitute(matrix, b.swapaxes(-1, -2), lower=lower, unit_diagonal=unit_diagonal)
    return x.swapaxes(-1, -2)
