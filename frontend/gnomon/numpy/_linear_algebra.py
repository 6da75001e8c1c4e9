"""Products of arrays: `dot`, `matmul`, `tensordot` and related functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._api.explicit_axes import with_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, wrap
from gnomon._config.current import config
from gnomon._tracing.bind import with_weak_type
from gnomon._tracing.dimensions import ramp
from gnomon._tracing.stack import needs_bind
from gnomon.dialects.pairwise import FEW_TERMS
from gnomon.dialects.symbolic.dimension import as_size, larger, smaller
from gnomon.dialects.types import BOOL
from gnomon.lax._contraction import PrecisionLike
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array, promoted
from gnomon.numpy._dispatch import check_ranks
from gnomon.numpy._indexing import getitem
from gnomon.numpy._manipulation import broadcast_to, moveaxis, ravel, reshape, transpose
from gnomon.numpy._reductions import sum as sum_

_FLOAT32 = np.dtype(np.float32)


def preferred_dtype(dtype: Any) -> Any:
    """Check the dtype that is requested for a product; None if there is none."""
    return None if dtype is None else _dtypes.check_user_dtype(dtype, "preferred_element_type")


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """The matrix product of two arrays, which is also written ``a @ b``.

    Args:
      a, b: arrays of at least one dimension. The last two dimensions are matrices ``[..., n, k]``
        and ``[..., k, m]``; leading dimensions broadcast. A vector is a row on the left and a
        column on the right, and its dimension is dropped from the result.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
      preferred_element_type: the dtype to accumulate in and to return; None means the promoted
        dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.
    Returns:
      An array ``[..., n, m]`` of the promoted dtype.
    Raises:
      ValueError: an operand is a scalar, or the leading dimensions cannot be broadcast.
      TypeError: the contracted sizes differ.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.matmul(gnp.array([[1, 2], [3, 4]]), gnp.array([10, 100]))
      Array([210, 430], dtype=int32)
      >>> gnp.matmul(gnp.ones((5, 2, 3)), gnp.ones((5, 3, 4))).shape
      (5, 2, 4)

    See also:
      `dot`, `einsum`, `tensordot`
    """
    if out_sharding is not None:
        return with_out_sharding(
            "matmul",
            out_sharding,
            lambda x, y: matmul(
                x, y, precision=precision, preferred_element_type=preferred_element_type
            ),
            a,
            b,
        )
    if (
        type(a) is ConcreteArray
        and type(b) is ConcreteArray
        and not needs_bind()
        and preferred_element_type is None
        and precision is None
        and config.default_matmul_precision is None
    ):
        left, right = a.numpy_value(), b.numpy_value()
        plain = 1 <= left.ndim <= 2 and 1 <= right.ndim <= 2 and left.shape[-1] == right.shape[0]
        is_short = plain and left.shape[-1] <= FEW_TERMS
        if is_short and left.dtype is _FLOAT32 and right.dtype is _FLOAT32:
            with np.errstate(all="ignore"):
                return wrap(left @ right, a.weak_type and b.weak_type)
    x, y = promoted("matmul", a, b)
    if x.ndim == 0 or y.ndim == 0:
        raise ValueError(
            f"matmul input operand {0 if x.ndim == 0 else 1} must have ndim at least 1, but it has "
            "ndim 0"
        )
    x_vector, y_vector = x.ndim == 1, y.ndim == 1
    if x_vector:
        x = reshape(x, (1, x.shape[0]))
    if y_vector:
        y = reshape(y, (y.shape[0], 1))
    if x.shape[-1] != y.shape[-2]:
        raise TypeError(
            "matmul: contracting dimensions must have equal sizes, got shapes "
            f"{np.shape(a)} and {np.shape(b)}"
        )
    try:
        batch = lax.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"matmul: incompatible leading shapes {np.shape(a)} and {np.shape(b)}"
        ) from error
    result = _batched(x, y, tuple(batch), precision, preferred_dtype(preferred_element_type))
    shape = list(result.shape)
    if y_vector:
        del shape[-1]
    if x_vector:
        del shape[-1 if y_vector else -2]
    return reshape(result, tuple(shape))


def _batched(
    x: Array, y: Array, batch: tuple[int, ...], precision: PrecisionLike, preferred: Any
) -> Array:
    """The product of matrices over broadcast leading dimensions, without repeating an operand."""
    rank = len(batch)
    x_dims, y_dims = _own_batch(x, batch), _own_batch(y, batch)
    shared = [d for d in range(rank) if d in x_dims and d in y_dims]
    x_only = [d for d in x_dims if d not in shared]
    y_only = [d for d in y_dims if d not in shared]
    x = reshape(x, (*(batch[d] for d in x_dims), *x.shape[-2:]))
    y = reshape(y, (*(batch[d] for d in y_dims), *y.shape[-2:]))
    result = lax.dot_general(
        x,
        y,
        (
            ((len(x_dims) + 1,), (len(y_dims),)),
            ([x_dims.index(d) for d in shared], [y_dims.index(d) for d in shared]),
        ),
        precision=precision,
        preferred_element_type=preferred,
    )
    # The dimensions of the result of dot_general: shared, x only, rows, y only, columns.
    order = [*shared, *x_only, "rows", *y_only, "columns"]
    missing = [d for d in range(rank) if d not in order]
    wanted = [*(d for d in range(rank) if d not in missing), "rows", "columns"]
    result = transpose(result, [order.index(d) for d in wanted])
    return reshape(result, (*batch, x.shape[-2], y.shape[-1]))


def _own_batch(x: Array, batch: tuple[int, ...]) -> list[int]:
    """The batch dimensions along which an operand varies: its size there is not one."""
    lead = len(batch) - (x.ndim - 2)
    return [lead + i for i, n in enumerate(x.shape[:-2]) if n != 1 and batch[lead + i] == n]


def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """The dot product of vectors, matrices or stacks of them.

    It sums products over the last dimension of ``a`` and the second to last (or only) dimension of
    ``b``. Other dimensions are not broadcast: the result has all of them, first those of ``a``.

    Args:
      a, b: arrays; a scalar multiplies the other array.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
      preferred_element_type: the dtype to accumulate in and to return; None means the promoted
        dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.
    Raises:
      TypeError: the contracted sizes differ.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.dot(gnp.array([1, 2]), gnp.array([3, 4]))
      Array(11, dtype=int32)
      >>> gnp.dot(gnp.ones((5, 2, 3)), gnp.ones((5, 3, 4))).shape
      (5, 2, 5, 4)

    See also:
      `matmul`, which broadcasts leading dimensions
    """
    if out_sharding is not None:
        return with_out_sharding(
            "dot",
            out_sharding,
            lambda x, y: dot(
                x, y, precision=precision, preferred_element_type=preferred_element_type
            ),
            a,
            b,
        )
    x, y = promoted("dot", a, b)
    preferred = preferred_dtype(preferred_element_type)
    if x.ndim == 0 or y.ndim == 0:
        return multiply(x, y)
    axis = max(y.ndim - 2, 0)
    if x.shape[-1] != y.shape[axis]:
        raise TypeError(f"dot: incompatible shapes {x.shape} and {y.shape}")
    return lax.dot_general(
        x,
        y,
        (((x.ndim - 1,), (axis,)), ((), ())),
        precision=precision,
        preferred_element_type=preferred,
    )


def multiply(x: Array, y: Array) -> Array:
    """The product of arrays of one dtype, broadcast."""
    shape = tuple(lax.broadcast_shapes(x.shape, y.shape))
    product = lax.bitwise_and if x.dtype == BOOL else lax.mul
    return product(broadcast_to(x, shape), broadcast_to(y, shape))


def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The inner product of two flattened arrays; the first one is conjugated.

    Args:
      a, b: arrays with equal numbers of elements.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
      preferred_element_type: the dtype to accumulate in and to return; None means the promoted
        dtype.
    Returns:
      An array of shape ``()``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.vdot(gnp.array([1j, 2.0]), gnp.array([1j, 3.0]))
      Array(7.+0.j, dtype=complex64)

    See also:
      `vecdot`, `dot`
    """
    x = as_array("vdot", a)
    if x.dtype.kind == "c":
        x = lax.conj(x)
    return dot(
        ravel(x),
        ravel(b),
        precision=precision,
        preferred_element_type=preferred_element_type,
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
      >>> gnp.vecdot(gnp.array([[1, 2], [3, 4]]), gnp.array([1, 1]))
      Array([3, 7], dtype=int32)

    See also:
      `vdot`, `inner`
    """
    x, y = promoted("vecdot", x1, x2)
    if x.dtype.kind == "c":
        x = lax.conj(x)
    x, y = moveaxis(x, axis, -1), moveaxis(y, axis, -1)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"vecdot: shapes {np.shape(x1)} and {np.shape(x2)} differ along the axis")
    check_ranks("vecdot", [x, y], [1, 1])
    row = reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
    column = reshape(y, (*y.shape, 1))
    out = matmul(row, column, precision=precision, preferred_element_type=preferred_element_type)
    return reshape(out, out.shape[:-2])


def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The inner products of vectors along the last dimensions of two arrays.

    Args:
      a, b: arrays with equal last dimensions; a scalar multiplies the other array.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
      preferred_element_type: the dtype to accumulate in and to return; None means the promoted
        dtype.
    Returns:
      An array of shape ``a.shape[:-1] + b.shape[:-1]``. Nothing is conjugated.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.inner(gnp.array([1, 2]), gnp.array([3, 4]))
      Array(11, dtype=int32)
      >>> gnp.inner(gnp.array([[1, 2], [3, 4]]), gnp.array([1, 1]))
      Array([3, 7], dtype=int32)

    See also:
      `vdot`, `vecdot`, `matmul`
    """
    x, y = promoted("inner", a, b)
    if x.ndim == 0 or y.ndim == 0:
        return multiply(x, y)
    return tensordot(
        x,
        y,
        ([x.ndim - 1], [y.ndim - 1]),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """The products of all pairs of elements of two flattened arrays.

    Args:
      a, b: arrays or scalars; nothing is conjugated.
      out: must be None, because arrays are immutable.
    Returns:
      An array of shape ``(a.size, b.size)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.outer(gnp.array([1, 2]), gnp.array([10, 20, 30]))
      Array([[10, 20, 30],
             [20, 40, 60]], dtype=int32)

    See also:
      `linalg.outer`, `kron`, `einsum`
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to outer is not supported.")
    x, y = promoted("outer", a, b)
    return multiply(reshape(x, (x.size, 1)), reshape(y, (1, y.size)))


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | Sequence[Any] = 2,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Products summed over pairs of dimensions of two arrays.

    Args:
      a, b: arrays.
      axes: a number ``n`` (the last ``n`` dimensions of ``a`` and the first ``n`` of ``b``), or two
        sequences of dimensions.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
      preferred_element_type: the dtype to accumulate in and to return; None means the promoted
        dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.
    Returns:
      An array with the remaining dimensions of ``a``, then those of ``b``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.tensordot(gnp.ones((2, 3, 4)), gnp.ones((3, 4, 5))).shape
      (2, 5)
      >>> gnp.tensordot(gnp.array([[1, 2], [3, 4]]), gnp.array([1, 10]), axes=([0], [0]))
      Array([31, 42], dtype=int32)

    See also:
      `einsum`, `dot`
    """
    if out_sharding is not None:
        return with_out_sharding(
            "tensordot",
            out_sharding,
            lambda x, y: tensordot(
                x, y, axes, precision=precision, preferred_element_type=preferred_element_type
            ),
            a,
            b,
        )
    x, y = promoted("tensordot", a, b)
    if isinstance(axes, (int, np.integer)):
        count = int(axes)
        if count > min(x.ndim, y.ndim):
            raise TypeError(f"Number of tensordot axes (axes {axes}) exceeds input ranks")
        left: tuple[int, ...] = tuple(range(x.ndim - count, x.ndim))
        right: tuple[int, ...] = tuple(range(count))
    elif isinstance(axes, str) or len(axes) != 2:
        raise TypeError(
            "tensordot: axes must be an int, or a pair of ints or of sequences of them, got "
            f"{axes!r}"
        )
    else:
        first, second = axes
        firsts = first if isinstance(first, (list, tuple)) else [first]
        seconds = second if isinstance(second, (list, tuple)) else [second]
        if len(firsts) != len(seconds):
            raise TypeError(
                f"tensordot requires axes lists to have equal length, got {first} and {second}"
            )
        left = tuple(canonical_axis(i, x.ndim) for i in firsts)
        right = tuple(canonical_axis(i, y.ndim) for i in seconds)
    return lax.dot_general(
        x,
        y,
        ((left, right), ((), ())),
        precision=precision,
        preferred_element_type=preferred_dtype(preferred_element_type),
    )


# --------------------------------------------------------------------------------------- diagonals


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonals over two dimensions, as the last dimension of the result.

    Args:
      a: an array of at least two dimensions.
      offset: the number of the diagonal: 0 is the main diagonal, positive ones are above.
      axis1, axis2: the dimensions of the rows and columns, which the result does not have.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.diagonal(gnp.array([[1, 2, 3], [4, 5, 6]]), offset=1)
      Array([2, 6], dtype=int32)
      >>> gnp.diagonal(gnp.zeros((2, 3, 4)), axis1=1, axis2=2).shape
      (2, 3)

    See also:
      `diag`, `trace`
    """
    x = as_array("diagonal", a)
    if x.ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    moved = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = moved.shape[-2:]
    offset = as_size(offset)
    length = larger(0, smaller(rows + min(offset, 0), columns - max(offset, 0)))
    places = ramp(length)
    index = (..., places + max(-offset, 0), places + max(offset, 0))
    found = getitem(moved, index)
    # JAX computes the main diagonal of a square matrix in another way, which loses the weak type.
    is_main = x.ndim == 2 and rows == columns and offset == 0
    return with_weak_type(found, False) if is_main else found


def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The sum of the elements on a diagonal.

    Args:
      a: an array of at least two dimensions.
      offset: the number of the diagonal: 0 is the main diagonal, positive ones are above.
      axis1, axis2: the dimensions of the rows and columns, which the result does not have.
      dtype: the dtype of the sum.
      out: must be None, because arrays are immutable.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.trace(gnp.array([[1, 2], [3, 4]]))
      Array(5, dtype=int32)
      >>> gnp.trace(gnp.array([[1, 2], [3, 4]]), offset=1)
      Array(2, dtype=int32)

    See also:
      `diagonal`
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to trace is not supported.")
    x = as_array("trace", a)
    if x.ndim < 2:
        raise ValueError(f"trace takes arrays of two dimensions at least, got shape {x.shape}")
    if canonical_axis(axis1, x.ndim) == canonical_axis(axis2, x.ndim):
        raise ValueError(f"trace: axis1={axis1} and axis2={axis2} are the same dimension")
    return sum_(diagonal(x, offset, axis1, axis2), -1, dtype)


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: every element of ``a`` times the whole of ``b``.

    Args:
      a, b: arrays; the one with fewer dimensions gets leading ones.
    Returns:
      An array whose dimensions are the products of the arguments' dimensions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.kron(gnp.array([1, 10]), gnp.array([1, 2, 3]))
      Array([ 1,  2,  3, 10, 20, 30], dtype=int32)
      >>> gnp.kron(gnp.eye(2, dtype=int), gnp.array([[1, 2]]))
      Array([[1, 2, 0, 0],
             [0, 0, 1, 2]], dtype=int32)
    """
    x, y = promoted("kron", a, b)
    rank = max(x.ndim, y.ndim)
    x = reshape(x, (1,) * (rank - x.ndim) + x.shape)
    y = reshape(y, (1,) * (rank - y.ndim) + y.shape)
    wide_x = reshape(x, tuple(n for s in x.shape for n in (s, 1)))
    wide_y = reshape(y, tuple(n for s in y.shape for n in (1, s)))
    shape = tuple(n * m for n, m in zip(x.shape, y.shape, strict=True))
    return reshape(multiply(wide_x, wide_y), shape)


def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """The cross product of vectors with three elements.

    Vectors of two elements are taken as vectors in the plane; two of them give only the third
    component of their product.

    Args:
      a, b: arrays of vectors, whose other dimensions broadcast.
      axisa, axisb: the dimension of ``a`` and of ``b`` that holds the components.
      axisc: the dimension of the result that holds the components.
      axis: replaces ``axisa``, ``axisb`` and ``axisc``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.cross(gnp.array([1, 0, 0]), gnp.array([0, 1, 0]))
      Array([0, 0, 1], dtype=int32)
      >>> gnp.cross(gnp.array([1, 0]), gnp.array([0, 1]))
      Array(1, dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promoted("cross", a, b)
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")

    def part(v: Array, i: int) -> Array:
        if i >= v.shape[-1]:
            return lax.full(v.shape[:-1], 0, v.dtype)
        return lax.index_in_dim(v, i, v.ndim - 1, keepdims=False)

    def minor(i: int, j: int) -> Array:
        return lax.sub(multiply(part(x, i), part(y, j)), multiply(part(x, j), part(y, i)))

    if x.shape[-1] == y.shape[-1] == 2:
        return minor(0, 1)
    stacked = [lax.expand_dims(v, (v.ndim,)) for v in (minor(1, 2), minor(2, 0), minor(0, 1))]
    joined = lax.concatenate(stacked, stacked[0].ndim - 1)
    return with_weak_type(moveaxis(joined, -1, axisc), False)


__all__ = [
    "cross",
    "diagonal",
    "dot",
    "inner",
    "kron",
    "matmul",
    "outer",
    "tensordot",
    "trace",
    "vdot",
    "vecdot",
]


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of matrices with vectors; leading dimensions broadcast.

    Args:
      x1: an array of matrices ``[..., n, k]``.
      x2: an array of vectors ``[..., k]``.
    Returns:
      An array ``[..., n]``.
    Raises:
      ValueError: the first argument has fewer than two dimensions, or the second has none.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.matvec(gnp.array([[1, 2], [3, 4]]), gnp.array([[1, 0], [0, 1], [1, 1]]))
      Array([[1, 3],
             [2, 4],
             [3, 7]], dtype=int32)

    See also:
      `vecmat`, `matmul`
    """
    x, y = promoted("matvec", x1, x2)
    if x.ndim < 2 or y.ndim < 1:
        raise ValueError(f"matvec takes matrices and vectors, got shapes {x.shape} and {y.shape}")
    check_ranks("matvec", [x, y], [2, 1])
    product = matmul(x, reshape(y, (*y.shape, 1)))
    return reshape(product, product.shape[:-1])


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of vectors, which are conjugated, with matrices; leading dimensions broadcast.

    Args:
      x1: an array of vectors ``[..., n]``.
      x2: an array of matrices ``[..., n, k]``.
    Returns:
      An array ``[..., k]``.
    Raises:
      ValueError: the first argument has no dimensions, or the second has fewer than two.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.vecmat(gnp.array([1, 10]), gnp.array([[1, 2], [3, 4]]))
      Array([31, 42], dtype=int32)

    See also:
      `matvec`
    """
    x, y = promoted("vecmat", x1, x2)
    if x.ndim < 1 or y.ndim < 2:
        raise ValueError(f"vecmat takes vectors and matrices, got shapes {x.shape} and {y.shape}")
    check_ranks("vecmat", [x, y], [1, 2])
    rows = lax.conj(x) if x.dtype.kind == "c" else x
    product = matmul(reshape(rows, (*x.shape[:-1], 1, x.shape[-1])), y)
    return reshape(product, (*product.shape[:-2], product.shape[-1]))
