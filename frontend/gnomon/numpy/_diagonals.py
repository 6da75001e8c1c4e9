"""Diagonals and triangles of matrices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._api.devices import device_put
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DeviceLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._tracing.dimensions import ramp
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import larger, smaller
from gnomon.dialects.types import INTEGER
from gnomon.lax._creation import converted
from gnomon.lax._operands import constant_like
from gnomon.numpy._arguments import as_array
from gnomon.numpy._construction import placement
from gnomon.numpy._creation import checked_dtype, checked_shape
from gnomon.numpy._dispatch import broadcast_to_shape, select_op
from gnomon.numpy._indexing import getitem
from gnomon.numpy._manipulation import ravel

__all__ = ["diag", "diagflat", "eye", "identity", "tri", "tril", "triu"]


def _offsets(shape: tuple[int, ...]) -> Array:
    """Column minus row of each element."""
    int32 = np.dtype("int32")
    row = bind(ops.iota, dtype=int32, shape=shape, dimension=0)
    return bind(ops.sub, bind(ops.iota, dtype=int32, shape=shape, dimension=1), row)


def _compared(op: Any, shape: tuple[int, ...], k: Any) -> Array:
    offsets = _offsets(shape)
    if type(k) is int:  # All offsets beyond the corners are equivalent.
        k = max(-shape[0], min(k, shape[1]))
    bound = as_array("k", k)
    if bound.dtype not in INTEGER or bound.ndim:
        raise TypeError(f"the offset k must be an integer, got {bound.aval}")
    return bind(op, offsets, broadcast_to_shape(converted(bound, offsets.dtype), shape))


def eye(
    N: int,
    M: int | None = None,
    k: ArrayLike = 0,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
) -> Array:
    """A matrix of ones on a diagonal, and zeros.

    Args:
      N, M: the numbers of rows and columns; ``M`` is ``N`` by default.
      k: the number of the diagonal: 0 is the main diagonal, positive ones are above.
      dtype: the dtype of the result; None means the default float dtype.
      device: where the result is placed; None means the default device.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.eye(2, 3, k=1)
      Array([[0., 1., 0.],
             [0., 0., 1.]], dtype=float32)
      >>> gnp.eye(2, dtype=gnp.int32)
      Array([[1, 0],
             [0, 1]], dtype=int32)

    See also:
      `identity`, `diag`
    """
    if (place := placement("eye", device)) is not None:
        return device_put(eye(N, M, k, dtype), place)
    shape = checked_shape("eye", (N, N if M is None else M))
    return converted(_compared(ops.eq, shape, k), checked_dtype("eye", dtype))


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The identity matrix: ones on the main diagonal, zeros elsewhere.

    Args:
      n: the number of rows and columns.
      dtype: the dtype of the result; None means the default float dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.identity(2)
      Array([[1., 0.],
             [0., 1.]], dtype=float32)

    See also:
      `eye`
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """A matrix of ones on and below a diagonal, and zeros above.

    Args:
      N, M: the numbers of rows and columns; ``M`` is ``N`` by default.
      k: the number of the diagonal: 0 is the main diagonal, positive ones are above.
      dtype: the dtype; None means float32.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.tri(2, 3)
      Array([[1., 0., 0.],
             [1., 1., 0.]], dtype=float32)

    See also:
      `tril`, `eye`
    """
    shape = checked_shape("tri", (N, N if M is None else M))
    target = np.dtype("float32") if dtype is None else _dtypes.check_user_dtype(dtype, "tri")
    return converted(_compared(ops.le, shape, k), target)


def _triangle(name: str, m: Any, k: Any, op: Any) -> Array:
    x = as_array(name, m)
    if x.ndim < 2:
        raise ValueError(f"{name} takes an array of two dimensions at least, got shape {x.shape}")
    inside = _compared(op, x.shape[-2:], k)
    return select_op(broadcast_to_shape(inside, x.shape), x, constant_like(x, 0))


def tril(m: ArrayLike, k: int = 0) -> Array:
    """A copy of matrices with zeros above a diagonal.

    Args:
      m: an array of at least two dimensions.
      k: the number of the diagonal: 0 is the main diagonal, positive ones are above.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.tril(gnp.array([[1, 2], [3, 4]]))
      Array([[1, 0],
             [3, 4]], dtype=int32)
      >>> gnp.tril(gnp.array([[1, 2], [3, 4]]), k=-1)
      Array([[0, 0],
             [3, 0]], dtype=int32)

    See also:
      `triu`, `tril_indices`
    """
    return _triangle("tril", m, k, ops.le)


def triu(m: ArrayLike, k: int = 0) -> Array:
    """A copy of matrices with zeros below a diagonal.

    Args:
      m: an array of at least two dimensions.
      k: the number of the diagonal: 0 is the main diagonal, positive ones are above.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.triu(gnp.array([[1, 2], [3, 4]]))
      Array([[1, 2],
             [0, 4]], dtype=int32)
      >>> gnp.triu(gnp.array([[1, 2], [3, 4]]), k=1)
      Array([[0, 2],
             [0, 0]], dtype=int32)

    See also:
      `tril`, `triu_indices`
    """
    return _triangle("triu", m, k, ops.ge)


def diag(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with a vector on its k-th diagonal, or the k-th diagonal of a matrix.

    Args:
      v: a vector or a matrix.
      k: the number of the diagonal: 0 is the main diagonal, positive ones are above.
    Raises:
      ValueError: ``v`` has another number of dimensions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.diag(gnp.array([1, 2]), k=1)
      Array([[0, 1, 0],
             [0, 0, 2],
             [0, 0, 0]], dtype=int32)
      >>> gnp.diag(gnp.array([[1, 2], [3, 4]]))
      Array([1, 4], dtype=int32)

    See also:
      `diagonal`, `diagflat`
    """
    x, k = as_array("diag", v), operator.index(k)
    if x.ndim == 2:
        rows, columns = x.shape
        # No dimension is as long as these numbers, the largest of 32 bits.
        first_row, first_column = (min(max(n, 0), 2**31 - 1) for n in (-k, k))
        count = larger(0, smaller(rows - first_row, columns - first_column))
        index = ramp(count).astype(np.int32)
        found = getitem(x, (index + np.int32(first_row), index + np.int32(first_column)))
        # Like `diagonal`, whose main diagonal of a square matrix is not weakly typed.
        return with_weak_type(found, False) if k == 0 and rows == columns else found
    if x.ndim != 1:
        raise ValueError(f"diag takes a vector or a matrix, got shape {x.shape}")
    size = x.shape[0] + abs(k)
    # Fill each column with its element, then keep the diagonal.
    zero = converted(0, x.dtype)
    shift = (max(k, 0), max(-k, 0), 0)
    repeated = broadcast_to_shape(lax.pad(x, zero, [shift]), (size, size))
    on_diagonal = _compared(ops.eq, (size, size), k)
    return select_op(on_diagonal, repeated, constant_like(repeated, 0))


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """A square matrix with the elements of an array on a diagonal.

    Args:
      v: an array, which is flattened, or a scalar.
      k: the number of the diagonal: 0 is the main diagonal, positive ones are above.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.diagflat(gnp.array([[1, 2], [3, 4]]))
      Array([[1, 0, 0, 0],
             [0, 2, 0, 0],
             [0, 0, 3, 0],
             [0, 0, 0, 4]], dtype=int32)

    See also:
      `diag`, which reads the diagonal of a matrix
    """
    return with_weak_type(diag(ravel(v), k), False)
