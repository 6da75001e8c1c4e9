"""Linear systems with triangular and tridiagonal matrices."""

from __future__ import annotations

import numpy as np

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_complex
from gnomon.lax._structural import expand_dims, reshape
from gnomon.lax.linalg._operands import as_matrices


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve ``x @ op(a) = b``, or ``op(a) @ x = b``, for triangular matrices.

    Args:
      a: ``[..., n, n]``; one triangle is read.
      b: ``[..., k, n]``, or ``[..., n, k]`` with ``left_side``; or ``[..., n]``.
      left_side: solve ``op(a) @ x = b``; otherwise ``x @ op(a) = b``.
      lower: which triangle is read.
      transpose_a, conjugate_a: whether ``op`` transposes and whether it conjugates.
      unit_diagonal: assume that the diagonal is one, and do not read it.
    Returns:
      An array like ``b``.
    Raises:
      TypeError: the operands are of different dtypes.
      ValueError: the shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> a = gnp.array([[2.0, 0.0], [1.0, 4.0]])
      >>> triangular_solve(a, gnp.array([2.0, 9.0]), left_side=True, lower=True)
      Array([1., 2.], dtype=float32)
    """
    matrix, rhs = as_matrices("triangular_solve", a, b)
    vector = rhs.ndim == matrix.ndim - 1
    if vector:
        rhs = expand_dims(rhs, (rhs.ndim if left_side else rhs.ndim - 1,))
    fits = (
        matrix.ndim >= 2
        and rhs.ndim == matrix.ndim
        and matrix.shape[:-2] == rhs.shape[:-2]
        and matrix.shape[-1] == matrix.shape[-2] == rhs.shape[-2 if left_side else -1]
    )
    if not fits:
        wanted = "[..., n, k]" if left_side else "[..., k, n]"
        raise ValueError(
            f"lax.linalg.triangular_solve with left_side={left_side} takes a of shape [..., n, n] "
            f"and b of shape {wanted} or [..., n], got {matrix.shape} and {np.shape(b)}"
        )
    x = bind(
        ops.triangular_solve,
        matrix,
        rhs,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a) and is_complex(matrix.dtype),
        unit_diagonal=bool(unit_diagonal),
    )
    if not vector:
        return x
    shape = x.shape[:-1] if left_side else (*x.shape[:-2], x.shape[-1])
    return reshape(x, shape)


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """Solve linear systems with tridiagonal matrices.

    Args:
      dl: ``[..., n]``, ``dl[i]`` is left of ``d[i]``; ``dl[0]`` is not read.
      d: the diagonal ``[..., n]``.
      du: ``[..., n]``, ``du[i]`` is right of ``d[i]``; ``du[n - 1]`` is not read.
      b: right-hand sides ``[..., n, k]``.
      perturb_singular: not supported.
    Returns:
      An array like ``b``; nan where the matrix is singular.
    Raises:
      TypeError: the shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> ones = gnp.ones(3)
      >>> tridiagonal_solve(ones, 2 * ones, ones, gnp.array([[3.0], [4.0], [3.0]]))
      Array([[1.],
             [1.],
             [1.]], dtype=float32)
    """
    if perturb_singular:
        raise NotImplementedError(
            "lax.linalg.tridiagonal_solve: perturb_singular=True is not supported"
        )
    left, middle, right, rhs = as_matrices("tridiagonal_solve", dl, d, du, b)
    wanted = rhs.shape[:-1]
    if rhs.ndim < 2 or not left.shape == middle.shape == right.shape == wanted:
        raise TypeError(
            "lax.linalg.tridiagonal_solve takes diagonals [..., n] and right-hand sides "
            f"[..., n, k]; got {left.shape}, {middle.shape}, {right.shape} and {rhs.shape}"
        )
    return bind(ops.tridiagonal_solve, left, middle, right, rhs)
