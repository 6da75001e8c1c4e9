"""Linear systems, inverses, determinants and powers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_complex, real_dtype
from gnomon.lax._creation import converted
from gnomon.lax.linalg._operands import symmetrized
from gnomon.numpy import _linear_algebra
from gnomon.numpy._arguments import as_array, promoted
from gnomon.numpy._construction import asarray
from gnomon.numpy._diagonals import eye
from gnomon.numpy._dispatch import broadcast_to_shape
from gnomon.numpy._indexing import getitem
from gnomon.numpy._manipulation import (
    expand_dims,
    moveaxis,
    ravel,
    reshape,
)
from gnomon.numpy._reductions import sum as sum_
from gnomon.numpy._selection import where
from gnomon.numpy.linalg._arguments import adjoint, inexact, product, square, squares, supported
from gnomon.numpy.linalg._factorizations import svd


class SlogdetResult(NamedTuple):
    """The result of `slogdet`."""

    sign: Array
    logabsdet: Array


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Solve ``a @ x = b``.

    Args:
      a: ``[..., n, n]``.
      b: ``[n]``, or ``[..., n, k]``; leading dimensions are broadcast.
    Returns:
      ``x``, of the shape of the (broadcast) ``b``; not finite if ``a`` is singular.
    Raises:
      ValueError: the shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.solve(gnp.array([[2.0, 0.0], [1.0, 4.0]]), gnp.array([2.0, 9.0]))
      Array([1., 2.], dtype=float32)
    """
    x, y = promoted("linalg.solve", a, b, inexact=True)
    if x.ndim < 2:
        raise ValueError(
            f"linalg.solve: the matrix must have at least two dimensions, got shape {x.shape}"
        )
    vector = y.ndim == 1
    if y.ndim == 0 or x.shape[-1] != x.shape[-2] or y.shape[-1 if vector else -2] != x.shape[-1]:
        raise ValueError(
            "linalg.solve takes a of shape [..., n, n] and b of shape [n] or [..., n, k]; got "
            f"{x.shape} and {y.shape}. For a batch of vectors: solve(a, b[..., None])[..., 0]"
        )
    result = batched_solve(x, expand_dims(y, -1) if vector else y)
    return reshape(result, result.shape[:-1]) if vector else result


def batched_solve(a: Array, b: Array, transpose_a: bool = False) -> Array:
    """Solve systems of matrices whose leading dimensions are broadcast."""
    try:
        batch = tuple(lax.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"linalg.solve: leading dimensions of {a.shape} and {b.shape} cannot be broadcast"
        ) from error
    n, k = b.shape[-2:]
    a, b = supported("solve", a), supported("solve", b)
    if math.prod(a.shape[:-2]) == 1 and math.prod(batch) != 1:
        # With a single matrix, all right-hand sides are columns of one system.
        flat = reshape(b, (math.prod(b.shape[:-2]), n, k))
        columns = reshape(lax.transpose(flat, (1, 0, 2)), (n, flat.shape[0] * k))
        x = bind(ops.solve, reshape(a, (n, n)), columns, transpose_a=transpose_a)
        return reshape(lax.transpose(reshape(x, (n, flat.shape[0], k)), (1, 0, 2)), (*batch, n, k))
    return bind(
        ops.solve,
        broadcast_to_shape(a, (*batch, n, n)),
        broadcast_to_shape(b, (*batch, n, k)),
        transpose_a=transpose_a,
    )


def inv(a: ArrayLike) -> Array:
    """The inverse of square matrices.

    Args:
      a: an array of matrices ``[..., n, n]``; integers become floating point numbers.
    Returns:
      An array ``[..., n, n]``; its elements are not finite if a matrix is singular.
    Raises:
      ValueError: the matrices are not square.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.inv(gnp.array([[2.0, 0.0], [0.0, 4.0]]))
      Array([[0.5 , 0.  ],
             [0.  , 0.25]], dtype=float32)
      >>> gnp.isfinite(gnp.linalg.inv(gnp.zeros((2, 2)))).any()
      Array(False, dtype=bool)

    See also:
      `solve`, which is faster and more accurate than a product with the inverse
    """
    x = square("inv", a)
    return solve(x, broadcast_to_shape(eye(x.shape[-1], dtype=x.dtype), x.shape))


def pinv(
    a: ArrayLike,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> Array:
    """The Moore-Penrose pseudoinverse ``[..., n, m]`` of matrices ``[..., m, n]``.

    Args:
      a: an array of matrices ``[..., m, n]``.
      rtol: singular values up to ``rtol`` times the largest one count as zero; one number, or one
        for each matrix. By default ``10 max(m, n)`` times the machine epsilon.
      hermitian: whether the matrices are Hermitian; ``(a + a^H) / 2`` is inverted.
      rcond: another name of ``rtol``.
    Raises:
      ValueError: both names are used.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.pinv(gnp.array([[2.0], [0.0]]))
      Array([[0.5, 0. ]], dtype=float32)
    """
    if rcond is not None:
        if rtol is not None:
            raise ValueError("pinv: only one of rtol and rcond may be specified.")
        rtol = rcond
    x = supported("pinv", inexact("pinv", a))
    if x.ndim < 2:
        raise ValueError(f"linalg.pinv takes matrices, got shape {x.shape}")
    if hermitian:
        x = symmetrized("pinv", x)
    real = real_dtype(x.dtype)
    default = 10.0 * max(x.shape[-2:]) * float(np.finfo(real).eps)
    cutoff = asarray(default if rtol is None else rtol)
    tolerance = broadcast_to_shape(converted(cutoff, real), x.shape[:-2])
    return bind(ops.pinv, x, tolerance)


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The least-squares solution of ``a @ x = b``, the shortest if there are many.

    Args:
      a: ``[m, n]``.
      b: ``[m]`` or ``[m, k]``.
      rcond: singular values below ``rcond`` times the largest one count as zero. By default it is
        ``max(m, n)`` times the machine epsilon; a negative number means the machine epsilon.
      numpy_resid: return no residuals if NumPy returns none (not under `jit`).
    Returns:
      ``(x, residuals, rank, singular_values)``.
    Raises:
      ValueError: the numbers of rows differ.
      TypeError: an array has too many dimensions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.lstsq(gnp.array([[1.0], [1.0]]), gnp.array([1.0, 3.0]))[0].round(3)
      Array([2.], dtype=float32)
    """
    x, y = promoted("linalg.lstsq", a, b, inexact=True)
    if x.shape[:1] != y.shape[:1]:
        raise ValueError(
            f"linalg.lstsq: the leading dimensions of {x.shape} and {y.shape} must be equal"
        )
    vector = y.ndim == 1
    if vector:
        y = expand_dims(y, -1)
    if x.ndim != 2 or y.ndim != 2:
        raise TypeError(
            "linalg.lstsq takes a matrix, and a vector or a matrix; got arrays of "
            f"{x.ndim} and {1 if vector else y.ndim} dimensions"
        )
    m, n = x.shape
    real = real_dtype(x.dtype)
    if not x.size:
        values = lax.full((0,), 0, x.dtype)
        rank = asarray(0, int)
        solution = lax.full((n, y.shape[1]), 0, x.dtype)
    else:
        epsilon = float(np.finfo(real).eps)
        cutoff: Any = epsilon * max(n, m)
        if rcond is not None:
            cutoff = where(lax.lt(asarray(rcond), asarray(rcond) * 0), epsilon, rcond)
        u, values, vh = svd(x, full_matrices=False)
        largest = lax.mul(converted(asarray(cutoff), real), getitem(values, 0))
        kept = lax.bitwise_and(lax.gt(values, lax.full_like(values, 0)), lax.ge(values, largest))
        rank = sum_(kept)
        safe = where(kept, values, 1).astype(x.dtype)
        inverse = where(kept, 1 / safe, 0).astype(x.dtype)
        inner = product(adjoint(u), y)
        scaled = lax.mul(broadcast_to_shape(expand_dims(inverse, -1), inner.shape), inner)
        solution = product(adjoint(vh), scaled)
    if numpy_resid and (m <= n or rank < n):
        residuals = lax.full((0,), 0, np.dtype(np.float32))
    else:
        residuals = sum_(squares(lax.sub(y, product(x, solution))), axis=0)
    return ravel(solution) if vector else solution, residuals, rank, values


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of a tensor that is seen as a matrix.

    Args:
      a: an array; its first ``ind`` dimensions are the rows, the others the columns.
      ind: the number of leading dimensions, positive.
    Returns:
      An array of shape ``a.shape[ind:] + a.shape[:ind]``.
    Raises:
      ValueError: ``ind`` is not positive, or the matrix is not square.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.tensorinv(gnp.eye(4).reshape(2, 2, 4)).shape
      (4, 2, 2)

    See also:
      `tensorsolve`
    """
    x = inexact("tensorinv", a)
    if ind <= 0:
        raise ValueError(f"linalg.tensorinv: ind must be a positive integer, got {ind}")
    rows, columns = x.shape[:ind], x.shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise ValueError(
            f"linalg.tensorinv: the sizes of {rows} and of {columns} must have equal products"
        )
    flat = inv(reshape(x, (math.prod(rows), math.prod(columns))))
    return reshape(flat, (*columns, *rows))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: tuple[int, ...] | None = None) -> Array:
    """Solve ``tensordot(a, x, x.ndim) = b``.

    Args:
      a: an array whose first dimensions are those of ``b`` and whose last ones are those of ``x``.
      b: the right-hand side.
      axes: dimensions of ``a`` to move to the end first.
    Raises:
      ValueError: the sizes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.tensorsolve(gnp.eye(4).reshape(2, 2, 4), gnp.ones((2, 2)))
      Array([1., 1., 1., 1.], dtype=float32)
    """
    x, y = promoted("linalg.tensorsolve", a, b, inexact=True)
    if axes is not None:
        x = moveaxis(x, tuple(axes), tuple(range(x.ndim - len(axes), x.ndim)))
    shape = x.shape[y.ndim :]
    if x.shape[: y.ndim] != y.shape or math.prod(shape) != y.size:
        raise ValueError(
            f"linalg.tensorsolve: a of shape {x.shape} does not fit b of shape {y.shape}: its "
            "first dimensions must be those of b, and the others must have as many elements as b"
        )
    return reshape(solve(reshape(x, (y.size, y.size)), ravel(y)), shape)


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The sign of the determinant of matrices ``[..., n, n]``, and the logarithm of its magnitude.

    Args:
      a: an array of matrices ``[..., n, n]``.
      method: ``"lu"`` or ``"qr"`` (real matrices); the results are the same.
    Returns:
      ``(sign, logabsdet)``. The sign of a complex determinant is ``det / |det|``; that of a
      singular matrix is 0.
    Raises:
      ValueError: the matrices are not square, or the method is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.slogdet(gnp.array([[0.0, 1.0], [1.0, 0.0]])).sign
      Array(-1., dtype=float32)
    """
    x = square("slogdet", a)
    if method not in (None, "lu", "qr"):
        raise ValueError(
            f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'."
        )
    if method == "qr" and is_complex(x.dtype):
        raise NotImplementedError("slogdet method='qr' not implemented for complex inputs")
    sign, log = bind(ops.slogdet, supported("slogdet", x))
    return SlogdetResult(sign, log)


def det(a: ArrayLike) -> Array:
    """The determinant of square matrices.

    Args:
      a: an array of matrices ``[..., n, n]``; integers become floating point numbers.
    Returns:
      An array ``[...]``. Its derivative is valid for singular matrices, too.
    Raises:
      ValueError: the matrices are not square.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.det(gnp.array([[1.0, 2.0], [3.0, 4.0]]))
      Array(-2., dtype=float32)
      >>> gnp.linalg.det(gnp.ones((2, 2)))
      Array(0., dtype=float32)

    See also:
      `slogdet`, which does not overflow
    """
    x = square("det", a)
    size = x.shape[-1]
    if size not in (2, 3):
        return bind(ops.det, supported("det", x))

    def at(i: int, j: int) -> Array:
        return getitem(x, (..., i, j))

    if size == 2:
        return at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0)
    terms = [
        at(0, i) * (at(1, j) * at(2, k) - at(1, k) * at(2, j))
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    ]
    return terms[0] + terms[1] + terms[2]


def matrix_power(a: ArrayLike, n: int) -> Array:
    """Integer powers of square matrices, by repeated squaring.

    Args:
      a: ``[..., m, m]``.
      n: the exponent; a negative one gives powers of the inverse.
    Raises:
      TypeError: ``n`` is not an integer, or the matrices are not square.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.matrix_power(gnp.array([[1.0, 1.0], [0.0, 1.0]]), 3)
      Array([[1., 3.],
             [0., 1.]], dtype=float32)
    """
    x = as_array("linalg.matrix_power", a)
    if x.ndim < 2:
        raise TypeError(f"{x.ndim}-dimensional array given. Array must be at least two-dimensional")
    if x.shape[-2] != x.shape[-1]:
        raise TypeError("Last 2 dimensions of the array must be square")
    try:
        count = n.__index__()
    except AttributeError as error:
        raise TypeError(f"exponent must be an integer, got {n}") from error
    if count == 0:
        return broadcast_to_shape(eye(x.shape[-1], dtype=x.dtype), x.shape)
    if count < 0:
        x, count = inv(x), -count
    result: Array | None = None
    while count:
        count, odd = divmod(count, 2)
        if odd:
            result = x if result is None else _linear_algebra.matmul(result, x)
        if count:
            x = _linear_algebra.matmul(x, x)
    assert result is not None
    return result
