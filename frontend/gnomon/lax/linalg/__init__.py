"""Factorizations of matrices and linear systems.

The last two dimensions of an array are those of a matrix; all others are batch dimensions. The
dtypes are float32, float64, complex64 and complex128. The result for a matrix that cannot be
factored, because it is not positive definite or not finite, is nan. The other matrices of the batch
are not affected.
"""

from gnomon.lax.linalg._factorizations import (
    EighImplementation,
    EigImplementation,
    SvdAlgorithm,
    cholesky,
    eig,
    eigh,
    hessenberg,
    householder_product,
    lu,
    lu_pivots_to_permutation,
    ormqr,
    qr,
    schur,
    svd,
    symmetric_product,
    tridiagonal,
)
from gnomon.lax.linalg._iterations import cholesky_update, qdwh
from gnomon.lax.linalg._systems import triangular_solve, tridiagonal_solve

__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_update",
    "eig",
    "eigh",
    "hessenberg",
    "householder_product",
    "lu",
    "lu_pivots_to_permutation",
    "ormqr",
    "qdwh",
    "qr",
    "schur",
    "svd",
    "symmetric_product",
    "triangular_solve",
    "tridiagonal",
    "tridiagonal_solve",
]
