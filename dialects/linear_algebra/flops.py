"""The work of linear algebra: the flops of the usual algorithms for one matrix, times the batch.

The formulas are those of Golub and Van Loan, *Matrix Computations* (4th edition), without the terms
of lower orders. A flop is an operation on two numbers of the matrix's dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gnomon.dialects.work_rules import Types, Work, WorkRule, nothing


def _of_matrices(flops: Callable[..., float]) -> WorkRule:
    """A rule from the flops for one matrix: ``flops(rows, columns, **params)``."""

    def rule(operands: Types, results: Types, **params: Any) -> Work:
        *batch, rows, columns = operands[0].shape
        return Work(flops=math.prod(batch) * flops(rows, columns, **params))

    return rule


def _householder(m: int, n: int) -> float:
    """Of one factor of a QR decomposition."""
    r = min(m, n)
    return 4 * m * n * r - 2 * (m + n) * r**2 + 4 / 3 * r**3


def _elimination(m: int, n: int) -> float:
    r = min(m, n)
    return 2 * m * n * r - (m + n) * r**2 + 2 / 3 * r**3


def _svd(m: int, n: int, vectors: bool) -> float:
    long, short = max(m, n), min(m, n)
    if vectors:
        return 14 * long * short**2 + 8 * short**3
    return 4 * long * short**2 - 4 / 3 * short**3


cholesky = _of_matrices(lambda m, n: n**3 / 3)
lu = determinant = _of_matrices(_elimination)
cofactors = _of_matrices(lambda m, n: 2 * n**3)
householder = _of_matrices(_householder)
qr = _of_matrices(lambda m, n, **params: 2 * _householder(m, n))
svd = _of_matrices(lambda m, n, *, compute_uv, **params: _svd(m, n, compute_uv))
pseudoinverse = _of_matrices(lambda m, n: _svd(m, n, True) + 2 * m * n * min(m, n))
eigh = _of_matrices(lambda m, n, **params: 9 * n**3)
eigvalsh = tridiagonal = _of_matrices(lambda m, n, **params: 4 / 3 * n**3)
hessenberg = _of_matrices(lambda m, n: 10 / 3 * n**3)


def _nonsymmetric(n: int, vectors: bool) -> float:
    return (25 if vectors else 10) * n**3


schur = _of_matrices(lambda m, n, *, compute_schur_vectors: _nonsymmetric(n, compute_schur_vectors))
eig = _of_matrices(
    lambda m, n, *, compute_left, compute_right, **params: _nonsymmetric(
        n, compute_left or compute_right
    )
)


def substitution(operands: Types, results: Types, **params: Any) -> Work:
    """Of a solution with a triangular matrix, the first operand, and the last as right sides."""
    return Work(flops=operands[-1].size * operands[0].shape[-1])


def solve(operands: Types, results: Types, **params: Any) -> Work:
    """Of an elimination, and of substitutions with both factors."""
    factors = lu(operands, results).flops
    return Work(flops=factors + 2 * substitution(operands, results).flops)


def tridiagonal_solve(operands: Types, results: Types, **params: Any) -> Work:
    """Of an elimination of the subdiagonal, and of substitutions for each right side."""
    _, diagonal, _, right = operands
    return Work(flops=3 * diagonal.size + 5 * right.size)


# A permutation from its transpositions.
permutation = nothing
