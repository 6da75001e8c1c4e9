"""Building blocks for linear algebra: type rules, batching, and matrices in IR.

The last two dimensions of an operand are the rows and columns of a matrix, and all dimensions
before them are batch dimensions. Batching an op only moves the mapped dimension to the front.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.dialects.combinators import Values, require, require_dtype, to_front
from gnomon.dialects.contract import Instance, MappedAxis
from gnomon.dialects.emit import convert, ops, slice_along, transpose, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_complex, real_dtype, type_of

# The dtypes of LAPACK. Smaller floats are rejected, as in JAX.
MATRIX_DTYPES = tuple(np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))

# ------------------------------------------------------------------------------------ type rules


def check_matrix(op: str, type_: TensorType) -> tuple[int, int]:
    """Check that an operand is a batch of matrices of a LAPACK dtype; return rows and columns."""
    require_dtype(op, type_, MATRIX_DTYPES)
    require(type_.rank >= 2, op, f"takes matrices of rank 2 or more, got {type_}")
    return type_.shape[-2], type_.shape[-1]


def check_square(op: str, type_: TensorType) -> int:
    """Check that an operand is a batch of square matrices; return their size."""
    rows, columns = check_matrix(op, type_)
    require(
        rows == columns, op, f"takes square matrices, whose last two dimensions agree; got {type_}"
    )
    return rows


# -------------------------------------------------------------------------------------- batching


def batch_leading(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    """The batching rule: make the mapped dimension the first of the batch dimensions."""
    results = inst.op.build(to_front(operands, dims, axis), inst.params)
    return results, [0] * len(results)


def fold_into_columns(
    x: ir.Value, dim: int, apply: Callable[[ir.Value], ir.Value], side: int = -1
) -> ir.Value:
    """Batch a function of independent columns by applying it to one wide matrix.

    Args:
      x: matrices with one more dimension, at ``dim``.
      apply: a function that keeps the shape of its argument.
      side: -1 to fold the dimension into the columns, -2 into the rows.

    Returns:
      The results, with the batch dimension in front.
    """
    rank = type_of(x).rank
    order = [d for d in range(rank) if d != dim]
    order.insert(rank + side, dim)
    moved = transpose(x, order)
    shape = list(type_of(moved).shape)
    at = rank + side
    flat = [*shape[: at - 1], shape[at - 1] * shape[at], *shape[at + 1 :]]
    result = ops.reshape(apply(ops.reshape(moved, shape=tuple(flat))), shape=tuple(shape))
    front = [at, *(d for d in range(rank) if d != at)]
    return transpose(result, front)


# ------------------------------------------------------------------------------- matrices in IR


def matmul(a: ir.Value, b: ir.Value) -> ir.Value:
    """The product of matrices with equal batch dimensions, in the highest precision."""
    type_ = type_of(a)
    batch = tuple(range(type_.rank - 2))
    return ops.dot_general(
        a,
        b,
        lhs_contracting=(type_.rank - 1,),
        rhs_contracting=(type_.rank - 2,),
        lhs_batch=batch,
        rhs_batch=batch,
        dtype=type_.dtype,
        precision="highest",
    )


def swapped(x: ir.Value) -> ir.Value:
    """The transposed matrix."""
    rank = type_of(x).rank
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def conjugated(x: ir.Value) -> ir.Value:
    """The complex conjugate; a real ``x`` itself."""
    return ops.conj(x) if is_complex(type_of(x).dtype) else x


def adjoint(x: ir.Value) -> ir.Value:
    """The conjugate transpose."""
    return conjugated(swapped(x))


def real_part(x: ir.Value) -> ir.Value:
    """The real part; a real ``x`` itself."""
    return ops.real(x) if is_complex(type_of(x).dtype) else x


def real_only(x: ir.Value) -> ir.Value:
    """``x`` with the imaginary part set to zero, in its own dtype."""
    type_ = type_of(x)
    return convert(ops.real(x), type_.dtype) if is_complex(type_.dtype) else x


def below(type_: TensorType, offset: int = 0) -> ir.Value:
    """A mask that is true on and below diagonal ``offset``; positive offsets are above the main."""
    rank = type_.rank
    rows, columns = (
        ops.iota(dtype=np.dtype(np.int32), shape=type_.shape, dimension=d)
        for d in (rank - 2, rank - 1)
    )
    shift = ops.constant(
        value=np.broadcast_to(np.int32(offset), type_.shape), dtype=np.dtype(np.int32)
    )
    return ops.ge(ops.add(rows, shift), columns)


def on_diagonal(type_: TensorType) -> ir.Value:
    """A mask that is true on the main diagonal."""
    rank = type_.rank
    return ops.eq(
        *(
            ops.iota(dtype=np.dtype(np.int32), shape=type_.shape, dimension=d)
            for d in (rank - 2, rank - 1)
        )
    )


def lower_triangle(x: ir.Value, offset: int = 0) -> ir.Value:
    """``x`` with zeros above a diagonal."""
    type_ = type_of(x)
    return ops.select(below(type_, offset), x, zeros(type_))


def upper_triangle(x: ir.Value, offset: int = 0) -> ir.Value:
    """``x`` with zeros below a diagonal."""
    type_ = type_of(x)
    return ops.select(below(type_, offset - 1), zeros(type_), x)


def identity(type_: TensorType) -> ir.Value:
    """A matrix with ones on the main diagonal; it need not be square."""
    return convert(on_diagonal(type_), type_.dtype)


def diagonal(x: ir.Value) -> ir.Value:
    """The diagonals of square matrices."""
    type_ = type_of(x)
    kept = ops.select(on_diagonal(type_), x, zeros(type_))
    return ops.reduce_sum(kept, axes=(type_.rank - 1,))


def trace(x: ir.Value) -> ir.Value:
    """The traces of square matrices."""
    return ops.reduce_sum(diagonal(x), axes=(type_of(x).rank - 2,))


def as_rows(s: ir.Value, type_: TensorType) -> ir.Value:
    """Broadcast and convert vectors to the rows of matrices: ``result[i, j] = s[j]``."""
    dims = (*range(type_.rank - 2), type_.rank - 1)
    return ops.broadcast_in_dim(convert(s, type_.dtype), shape=type_.shape, dims=dims)


def as_columns(s: ir.Value, type_: TensorType) -> ir.Value:
    """Broadcast and convert vectors to the columns of matrices: ``result[i, j] = s[i]``."""
    dims = tuple(range(type_.rank - 1))
    return ops.broadcast_in_dim(convert(s, type_.dtype), shape=type_.shape, dims=dims)


def columns(x: ir.Value, start: int, limit: int) -> ir.Value:
    """The columns from ``start`` to ``limit`` (excluded)."""
    return slice_along(x, type_of(x).rank - 1, start, limit)


def rows(x: ir.Value, start: int, limit: int) -> ir.Value:
    """The rows from ``start`` to ``limit`` (excluded)."""
    return slice_along(x, type_of(x).rank - 2, start, limit)


def concatenate_columns(*parts: ir.Value) -> ir.Value:
    """Concatenate matrices horizontally; those without columns are left out."""
    kept = [x for x in parts if type_of(x).shape[-1]] or list(parts[:1])
    return (
        kept[0] if len(kept) == 1 else ops.concatenate(*kept, dimension=type_of(kept[0]).rank - 1)
    )


def concatenate_rows(*parts: ir.Value) -> ir.Value:
    """Concatenate matrices vertically; those without rows are left out."""
    kept = [x for x in parts if type_of(x).shape[-2]] or list(parts[:1])
    return (
        kept[0] if len(kept) == 1 else ops.concatenate(*kept, dimension=type_of(kept[0]).rank - 2)
    )


def inverse_gaps(values: ir.Value, type_: TensorType) -> ir.Value:
    """``1 / (values[j] - values[i])`` off the diagonal, 0 on it; infinite for equal values."""
    unit = identity(type_)
    gaps = ops.sub(as_rows(values, type_), as_columns(values, type_))
    one = ops.constant(
        value=np.broadcast_to(np.ones((), real_dtype(type_.dtype)), type_.shape),
        dtype=real_dtype(type_.dtype),
    )
    return ops.sub(ops.div(convert(one, type_.dtype), ops.add(gaps, unit)), unit)
