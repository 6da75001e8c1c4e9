"""Factorizations of matrices, and the solution of linear systems."""

from gnomon.dialects.linear_algebra import (  # noqa: F401
    cholesky,
    eigen,
    lu,
    pseudoinverse,
    qr,
    schur,
    solve,
    svd,
    triangular,
    tridiagonal,
)
