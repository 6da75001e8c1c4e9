"""What the rooms of linear algebra share: type rules, batching, and matrices in IR.

The last two dimensions of an operand are those of a matrix, all dimensions before are batch
dimensions; so batching an op only means to bring the mapped dimension to the front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gnomon.dialects.combinators import Values, require, require_dtype, to_front
from gnomon.dialects.contract import Instance, MappedAxis
from gnomon.dialects.emit import convert, ops, slice_along, transpose, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_complex, real_dtype, type_of

# The dtypes of LAPACK; the small floats are refused, as they are in JAX.
MATRIX_DTYPES = tuple(np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))

# ------------------------------------------------------------------------------------ type rules


def check_matrix(op: str, type_: TensorType) -> tuple[int, int]:
    """Rows and columns of an operand that must be a (batch of) matrices of LAPACK's dtypes."""
    require_dtype(op, type_, MATRIX_DTYPES)
    require(type_.rank >= 2, op, f"takes matrices, of two dimensions or more; got {type_}")
    return type_.shape[-2], type_.shape[-1]


def check_square(op: str, type_: TensorType) -> int:
    """The size of an operand that must be a (batch of) square matrices."""
    rows, columns = check_matrix(op, type_)
    require(
        rows == columns, op, f"takes square matrices, equal in the last two dimensions; got {type_}"
    )
    return rows


def complex_dtype(dtype: np.dtype) -> np.dtype:
    """The complex dtype of the same precision."""
    return np.result_type(dtype, np.complex64)


# -------------------------------------------------------------------------------------- batching


def batch_leading(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    """The batching rule: the mapped dimension becomes the first of the batch dimensions."""
    results = inst.op.build(to_front(operands, dims, axis), inst.params)
    return results, [0] * len(results)


def fold_into_columns(
    x: ir.Value, dim: int, apply: Callable[[ir.Value], ir.Value], side: int = -1
) -> ir.Value:
    """Apply a function of matrices that treats columns alike to a batch of them, as one matrix.

    Args:
      x: matrices with one more dimension, at ``dim``.
      apply: keeps the shape of its argument.
      side: -1, the dimension is folded into the columns; -2, into the rows.
    Returns:
      The results, with the batch dimension in front.
    """
    rank = type_of(x).rank
    order = [d for d in range(rank) if d != dim]
    order.insert(rank + side, dim)
    behind = transpose(x, order)
    shape = list(type_of(behind).shape)
    at = rank + side
    flat = [*shape[: at - 1], shape[at - 1] * shape[at], *shape[at + 1 :]]
    result = ops.reshape(apply(ops.reshape(behind, shape=tuple(flat))), shape=tuple(shape))
    front = [at, *(d for d in range(rank) if d != at)]
    return transpose(result, front)


# ------------------------------------------------------------------------------- matrices in IR


def matmul(a: ir.Value, b: ir.Value) -> ir.Value:
    """The product of matrices with equal batch dimensions, in full precision."""
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
    """A predicate: at or below the diagonal number ``offset`` (counted upwards)."""
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
    """A predicate: on the main diagonal."""
    rank = type_.rank
    return ops.eq(
        *(
            ops.iota(dtype=np.dtype(np.int32), shape=type_.shape, dimension=d)
            for d in (rank - 2, rank - 1)
        )
    )


def lower_triangle(x: ir.Value, offset: int = 0) -> ir.Value:
    """``x`` at and below a diagonal, zero above."""
    type_ = type_of(x)
    return ops.select(below(type_, offset), x, zeros(type_))


def upper_triangle(x: ir.Value, offset: int = 0) -> ir.Value:
    """``x`` at and above a diagonal, zero below."""
    type_ = type_of(x)
    return ops.select(below(type_, offset - 1), zeros(type_), x)


def identity(type_: TensorType) -> ir.Value:
    """The identity matrix (ones on the diagonal) of a type."""
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
    """Vectors repeated as the rows of matrices: ``result[i, j] = s[j]``; converted."""
    dims = (*range(type_.rank - 2), type_.rank - 1)
    return ops.broadcast_in_dim(convert(s, type_.dtype), shape=type_.shape, dims=dims)


def as_columns(s: ir.Value, type_: TensorType) -> ir.Value:
    """Vectors repeated as the columns of matrices: ``result[i, j] = s[i]``; converted."""
    dims = tuple(range(type_.rank - 1))
    return ops.broadcast_in_dim(convert(s, type_.dtype), shape=type_.shape, dims=dims)


def columns(x: ir.Value, start: int, limit: int) -> ir.Value:
    """Columns ``start`` to ``limit``."""
    return slice_along(x, type_of(x).rank - 1, start, limit)


def rows(x: ir.Value, start: int, limit: int) -> ir.Value:
    """Rows ``start`` to ``limit``."""
    return slice_along(x, type_of(x).rank - 2, start, limit)


def beside(*parts: ir.Value) -> ir.Value:
    """Matrices side by side; those without columns are left out."""
    kept = [x for x in parts if type_of(x).shape[-1]] or list(parts[:1])
    return (
        kept[0] if len(kept) == 1 else ops.concatenate(*kept, dimension=type_of(kept[0]).rank - 1)
    )


def stacked(*parts: ir.Value) -> ir.Value:
    """Matrices one below the other; those without rows are left out."""
    kept = [x for x in parts if type_of(x).shape[-2]] or list(parts[:1])
    return (
        kept[0] if len(kept) == 1 else ops.concatenate(*kept, dimension=type_of(kept[0]).rank - 2)
    )


def inverse_gaps(values: ir.Value, type_: TensorType) -> ir.Value:
    """``1 / (values[j] - values[i])`` off the diagonal and 0 on it: infinite for equal values."""
    unit = identity(type_)
    gaps = ops.sub(as_rows(values, type_), as_columns(values, type_))
    one = ops.constant(
        value=np.broadcast_to(np.ones((), real_dtype(type_.dtype)), type_.shape),
        dtype=real_dtype(type_.dtype),
    )
    return ops.sub(ops.div(convert(one, type_.dtype), ops.add(gaps, unit)), unit)


# ------------------------------------------------------------------------------- evaluation


def by_member(
    function: Callable[[np.ndarray], Any], a: np.ndarray, failed: Callable[[], Any]
) -> Any:
    """A NumPy factorization of a batch; where NumPy refuses, ``failed`` gives the member's result.

    NumPy raises ``LinAlgError`` if any member of a batch fails (or is not finite); the contract is
    JAX's: the results of that member are nan, those of the others stand.
    """
    try:
        return function(a)
    except np.linalg.LinAlgError:
        pass
    members = []
    for member in a.reshape(-1, *a.shape[-2:]):
        try:
            members.append(_as_tuple(function(member)))
        except np.linalg.LinAlgError:
            members.append(_as_tuple(failed()))
    batch = a.shape[:-2]
    stacked_results = tuple(
        np.stack(parts).reshape(*batch, *parts[0].shape) for parts in zip(*members, strict=True)
    )
    return stacked_results if len(stacked_results) > 1 else stacked_results[0]


def _as_tuple(result: Any) -> tuple[np.ndarray, ...]:
    return (
        tuple(result)
        if isinstance(result, Iterable) and not isinstance(result, np.ndarray)
        else (result,)
    )


def nan_like(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """An array of nan, in both parts of complex numbers."""
    nan = complex(np.nan, np.nan) if is_complex(dtype) else np.nan
    return np.full(tuple(shape), nan, dtype)
