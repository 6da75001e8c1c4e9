"""Products with the names and axes of the array API."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import opt_einsum

from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding
from gnomon._arrays.array import Array
from gnomon.lax._contraction import PrecisionLike
from gnomon.lax._structural import canonical_axis
from gnomon.numpy import _linear_algebra
from gnomon.numpy._arguments import as_array
from gnomon.numpy._einsum import einsum


def multi_dot(arrays: Sequence[Any], *, precision: PrecisionLike = None) -> Array:
    """The product of a chain of matrices, in the cheapest order.

    Args:
      arrays: at least two arrays; the first and the last one may be vectors.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
    Raises:
      ValueError: there are fewer than two arrays, or the shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.multi_dot([gnp.ones((2, 3)), gnp.ones((3, 4)), gnp.ones(4)])
      Array([12., 12.], dtype=float32)
    """
    xs = [as_array("linalg.multi_dot", x, i) for i, x in enumerate(arrays)]
    if len(xs) < 2:
        raise ValueError(f"multi_dot requires at least two arrays; got len(arrays)={len(xs)}")
    if xs[0].ndim not in (1, 2) or xs[-1].ndim not in (1, 2):
        raise ValueError(
            "multi_dot: the first and the last array must have one or two dimensions, got shapes "
            f"{xs[0].shape} and {xs[-1].shape}"
        )
    if any(x.ndim != 2 for x in xs[1:-1]):
        raise ValueError("multi_dot: all arrays but the first and the last must be matrices")
    if any(a.shape[-1] != b.shape[0] for a, b in itertools.pairwise(xs)):
        raise ValueError(
            f"multi_dot: neighbours must agree in size, got shapes {[x.shape for x in xs]}"
        )
    letters = [opt_einsum.get_symbol(i) for i in range(len(xs) + 1)]
    terms = [letters[i] + letters[i + 1] for i in range(len(xs))]
    if xs[0].ndim == 1:
        terms[0] = letters[1]
    if xs[-1].ndim == 1:
        terms[-1] = letters[len(xs) - 1]
    result = (letters[0] if xs[0].ndim == 2 else "") + (letters[-1] if xs[-1].ndim == 2 else "")
    return einsum(f"{','.join(terms)}->{result}", *xs, optimize="auto", precision=precision)


def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The matrix product, in the array API's form.

    Args:
      x1, x2: arrays of matrices ``[..., n, k]`` and ``[..., k, m]``, or vectors; see
        `gnomon.numpy.matmul`.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
      preferred_element_type: the dtype to accumulate in and to return; None means the promoted
        dtype.
    Returns:
      An array ``[..., n, m]``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.matmul(gnp.array([[1, 2], [3, 4]]), gnp.array([[0, 1], [1, 0]]))
      Array([[2, 1],
             [4, 3]], dtype=int32)
    """
    return _linear_algebra.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The inner products of vectors along an axis; the first vectors are conjugated.

    Args:
      x1, x2: arrays that broadcast together.
      axis: the axis that holds the vectors and that the result does not have.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
      preferred_element_type: the dtype to accumulate in and to return; None means the promoted
        dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.vecdot(gnp.array([[1, 2], [3, 4]]), gnp.array([1, 1]))
      Array([3, 7], dtype=int32)
    """
    return _linear_algebra.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: int | Sequence[int] | Sequence[Sequence[int]] = 2,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Products summed over pairs of dimensions, in the array API's form.

    Args:
      x1, x2: arrays.
      axes: a number ``n`` (the last ``n`` dimensions of ``x1`` and the first ``n`` of ``x2``), or
        two sequences of dimensions.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
      preferred_element_type: the dtype to accumulate in and to return; None means the promoted
        dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.tensordot(gnp.ones((2, 3, 4)), gnp.ones((3, 4, 5))).shape
      (2, 5)
    """
    return _linear_algebra.tensordot(
        x1,
        x2,
        axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of all pairs of elements of two vectors.

    Args:
      x1, x2: vectors of ``m`` and of ``n`` elements.
    Returns:
      A matrix of shape ``(m, n)``.
    Raises:
      ValueError: an argument is not a vector.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.outer(gnp.array([1, 2]), gnp.array([10, 20, 30]))
      Array([[10, 20, 30],
             [20, 40, 60]], dtype=int32)

    See also:
      `gnomon.numpy.outer`, which flattens its arguments
    """
    a, b = as_array("linalg.outer", x1), as_array("linalg.outer", x2, 1)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={a.ndim} x2.ndim={b.ndim}"
        )
    return _linear_algebra.outer(a, b)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The cross product of vectors with three elements.

    Args:
      x1, x2: arrays of vectors, whose other dimensions broadcast.
      axis: the dimension with the three components.
    Raises:
      ValueError: the vectors have another size.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.cross(gnp.array([1, 0, 0]), gnp.array([0, 1, 0]))
      Array([0, 0, 1], dtype=int32)
    """
    a, b = as_array("linalg.cross", x1), as_array("linalg.cross", x2, 1)
    sizes = [x.shape[canonical_axis(axis, x.ndim)] for x in (a, b)]
    if sizes != [3, 3]:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
            f"{sizes[0]} and {sizes[1]} dimensional instead."
        )
    return _linear_algebra.cross(a, b, axis=axis)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices, as the last dimension of the result.

    Args:
      x: an array of matrices ``[..., m, n]``.
      offset: the number of the diagonal: 0 is the main diagonal, positive ones are above.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.diagonal(gnp.array([[1, 2], [3, 4]]))
      Array([1, 4], dtype=int32)
      >>> gnp.linalg.diagonal(gnp.zeros((5, 2, 3))).shape
      (5, 2)
    """
    return _linear_algebra.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sums of the diagonals of matrices.

    Args:
      x: an array of matrices ``[..., m, n]``; the last two dimensions are the matrix.
      offset: the number of the diagonal: 0 is the main diagonal, positive ones are above.
      dtype: the dtype of the sums.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linalg.trace(gnp.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]))
      Array([ 5, 13], dtype=int32)
    """
    return _linear_algebra.trace(x, offset, -2, -1, dtype)
