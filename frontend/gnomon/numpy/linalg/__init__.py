"""Linear algebra: NumPy's functions of matrices, with batches and derivatives.

The last two dimensions of an array are those of a matrix; all others are batch dimensions.
"""

from gnomon.numpy._manipulation import matrix_transpose
from gnomon.numpy.linalg._factorizations import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from gnomon.numpy.linalg._norms import (
    cond,
    matrix_norm,
    matrix_rank,
    norm,
    vector_norm,
)
from gnomon.numpy.linalg._products import (
    cross,
    diagonal,
    matmul,
    multi_dot,
    outer,
    tensordot,
    trace,
    vecdot,
)
from gnomon.numpy.linalg._systems import (
    det,
    inv,
    lstsq,
    matrix_power,
    pinv,
    slogdet,
    solve,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]
