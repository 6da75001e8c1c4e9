"""Norms, ranks and condition numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.dialects.types import real_dtype
from gnomon.lax._creation import converted
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array
from gnomon.numpy._arithmetic import power
from gnomon.numpy._construction import asarray
from gnomon.numpy._indexing import getitem
from gnomon.numpy._manipulation import (
    expand_dims,
    moveaxis,
)
from gnomon.numpy._reductions import max as max_
from gnomon.numpy._reductions import min as min_
from gnomon.numpy._reductions import sum as sum_
from gnomon.numpy._selection import where
from gnomon.numpy._ufuncs import sqrt
from gnomon.numpy.linalg._arguments import inexact, square, squares
from gnomon.numpy.linalg._factorizations import svd
from gnomon.numpy.linalg._systems import inv


def norm(
    x: ArrayLike,
    ord: int | float | str | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
) -> Array:
    """A norm of vectors or of matrices.

    Args:
      x: an array.
      ord: see `vector_norm` and `matrix_norm`; by default the root of the sum of squares.
      axis: one dimension (vectors), two (matrices), or None: the whole array.
      keepdims: keep the reduced dimensions, with size one.
    Raises:
      ValueError: ``axis`` has more than two dimensions, or the order is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.norm(gnp.array([3.0, 4.0]))
      Array(5., dtype=float32)
    """
    array = inexact("norm", x)
    if axis is None:
        if ord is None:
            return lax.sqrt(sum_(squares(array), keepdims=keepdims))
        axes = tuple(range(array.ndim))
    else:
        given = axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(canonical_axis(d, array.ndim) for d in given)
    if len(axes) == 1:
        return vector_norm(array, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(
            f"Improper number of axes for norm: {axis=}. Pass one axis to compute a vector-norm, "
            "or two axes to compute a matrix-norm."
        )
    if ord is None or (isinstance(ord, str) and ord in ("f", "fro")):
        return lax.sqrt(sum_(squares(array), axis=axes, keepdims=keepdims))
    first, second = axes
    if ord in (1, -1, np.inf, -np.inf):
        summed, other = (first, second) if abs(ord) == 1 else (second, first)
        sums = sum_(lax.abs(array), axis=summed, keepdims=True)
        result = (
            max_(sums, axis=other, keepdims=True, initial=0)
            if ord > 0
            else min_(sums, axis=other, keepdims=True)
        )
        if keepdims:
            return result
        return lax.squeeze(result, axes)
    if ord in ("nuc", 2, -2):
        values = svd(moveaxis(array, axes, (-2, -1)), compute_uv=False)
        if ord == "nuc":
            found = sum_(values, axis=-1)
        elif ord == 2:
            found = max_(values, axis=-1, initial=0)
        else:
            found = min_(values, axis=-1)
        return expand_dims(found, axes) if keepdims else found
    raise ValueError(f"Invalid order '{ord}' for matrix norm.")


def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: int | float | str = "fro"
) -> Array:
    """A norm of matrices ``[..., m, n]``.

    Args:
      x: an array of matrices ``[..., m, n]``.
      ord: ``"fro"`` for the root of the sum of squares; 1 or -1 for the largest or smallest sum of
        the magnitudes of a column, and ``inf`` or ``-inf`` for that of a row; 2 or -2 for the
        largest or smallest singular value; ``"nuc"`` for the sum of the singular values.
      keepdims: keep the reduced dimensions, with size one.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.matrix_norm(gnp.array([[3.0, 0.0], [0.0, 4.0]]), ord=1)
      Array(4., dtype=float32)
    """
    return norm(x, ord=ord, keepdims=keepdims, axis=(-2, -1))


def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: int | float | str | None = 2,
) -> Array:
    """A norm of vectors.

    Args:
      x: an array.
      axis: the dimensions of the vectors; None means that the whole array is one vector.
      keepdims: keep the reduced dimensions, with size one.
      ord: the exponent ``p`` of ``sum(|x|^p)^(1/p)``; ``inf`` or ``-inf`` for the largest or
        smallest magnitude; 0 for the number of elements that are not zero.
    Raises:
      ValueError: the order is a string.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.vector_norm(gnp.array([3.0, -4.0]), ord=1)
      Array(7., dtype=float32)
    """
    array = as_array("linalg.vector_norm", x)
    if ord is None or (isinstance(ord, (int, float)) and ord == 2):
        return sqrt(sum_(squares(array), axis=axis, keepdims=keepdims))
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm.")
    if ord == np.inf:
        return max_(lax.abs(array), axis=axis, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return min_(lax.abs(array), axis=axis, keepdims=keepdims)
    if ord == 0:
        nonzero = lax.ne(array, lax.full_like(array, 0))
        return sum_(
            nonzero,
            axis=axis,
            keepdims=keepdims,
            dtype=real_dtype(inexact("vector_norm", array).dtype),
        )
    magnitude = lax.abs(array)
    if ord == 1:
        return sum_(magnitude, axis=axis, keepdims=keepdims)
    magnitude = inexact("vector_norm", magnitude)
    sums = sum_(power(magnitude, ord), axis=axis, keepdims=keepdims)
    return power(sums, 1.0 / ord)


def matrix_rank(
    M: ArrayLike,
    rtol: ArrayLike | None = None,
    *,
    hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> Array:
    """The number of singular values of matrices ``[..., m, n]`` that are larger than a tolerance.

    Args:
      M: an array of matrices ``[..., m, n]``.
      rtol: the tolerance: one number, or one for each matrix. As in JAX, it is absolute. By default
        it is the largest singular value times ``max(m, n)`` times the machine epsilon.
      hermitian: whether the matrices are Hermitian.
      tol: another name of ``rtol``.
    Returns:
      Integers ``[...]``. The rank of an array of fewer than two dimensions is 1, or 0 if it is
      zero.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.matrix_rank(gnp.ones((3, 3)))
      Array(1, dtype=int32)
    """
    x = inexact("matrix_rank", M)
    if tol is not None:
        if rtol is not None:
            raise ValueError("matrix_rank: only one of tol or rtol may be specified.")
        rtol = tol
    if x.ndim < 2:
        nonzero = sum_(lax.ne(x, lax.full_like(x, 0)))
        return converted(lax.gt(nonzero, lax.full_like(nonzero, 0)), np.dtype(np.int32))
    values = svd(x, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if rtol is None:
        spacing = max(x.shape[-2:]) * float(np.finfo(values.dtype).eps)
        tolerance = max_(values, axis=-1, keepdims=True) * spacing
    else:
        given = asarray(rtol)
        tolerance = expand_dims(given, given.ndim)
    return sum_(values > tolerance, axis=-1)


def cond(x: ArrayLike, p: int | float | str | None = None) -> Array:
    """The condition number of matrices ``[..., n, n]``: ``norm(x, p) * norm(inv(x), p)``.

    Args:
      x: an array of matrices ``[..., n, n]``.
      p: the norm; see `matrix_norm`. By default, the result is the ratio of the largest to the
        smallest singular value, and matrices need not be square.
    Raises:
      ValueError: the array is empty, has too few dimensions, or must be square and is not.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.cond(gnp.array([[4.0, 0.0], [0.0, 1.0]]))
      Array(4., dtype=float32)
    """
    array = inexact("cond", x)
    if array.ndim < 2:
        raise ValueError(f"linalg.cond: input array must be at least 2D; got shape {array.shape}")
    if not array.size:
        raise ValueError(f"linalg.cond: input array must not be empty; got shape {array.shape}")
    if p is None or p in (2, -2):
        values = svd(array, compute_uv=False)
        first, last = getitem(values, (..., 0)), getitem(values, (..., -1))
        if p != -2:
            return lax.div(first, last)
        ratio = lax.div(last, first)
    else:
        matrix = square("cond", array)
        ratio = lax.mul(norm(matrix, ord=p, axis=(-2, -1)), norm(inv(matrix), ord=p, axis=(-2, -1)))
    # Zero over zero means an infinite condition number, unless the matrix itself holds nan.
    given = sum_(lax.ne(array, array), axis=(-2, -1))
    unknown = lax.bitwise_and(lax.ne(ratio, ratio), lax.eq(given, lax.full_like(given, 0)))
    return where(unknown, np.inf, ratio)
