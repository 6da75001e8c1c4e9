"""Helpers for factorizations without LAPACK: loops, and access to parts of matrices.

A step of a loop reads and writes rows and columns at a dynamic index by masks over whole matrices,
so that the loop's body has the same shapes for all steps and any batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.dialects.body import Body
from gnomon.dialects.emit import constant, convert, ops, reshape, zeros
from gnomon.dialects.linear_algebra.lu import permuted_rows
from gnomon.dialects.linear_algebra.matrices import as_columns, as_rows
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_complex, type_of

__all__ = [
    "Step",
    "column_at",
    "compared",
    "converted",
    "element_at",
    "index_along",
    "loop",
    "magnitude",
    "outer",
    "permuted",
    "repeated",
    "row_at",
    "squares",
    "swap_indices",
    "with_column",
]

_I32 = np.dtype(np.int32)

Step = Callable[..., Sequence[ir.Value]]


def loop(count: int, step: Step, *state: ir.Value) -> list[ir.Value]:
    """Repeat ``state = step(j, *state)`` for j from 0 up to ``count``."""
    if not count:
        return list(state)

    def running(j: ir.Value, *state: ir.Value) -> list[ir.Value]:
        return [ops.lt(j, constant(np.int32(count)))]

    def advance(j: ir.Value, *state: ir.Value) -> list[ir.Value]:
        return [ops.add(j, constant(np.int32(1))), *step(j, *state)]

    types = [TensorType((), _I32), *map(type_of, state)]
    bodies = [Body.build(types, running), Body.build(types, advance)]
    start = constant(np.int32(0))
    results = ops.while_.build([start, *state], {"cond_consts": 0, "body_consts": 0}, bodies)
    return list(results[1:])


# ------------------------------------------------------------------------------ parts of a matrix


def index_along(shape: Sequence[int], dimension: int) -> ir.Value:
    """The index along a dimension, as an array; negative dimensions count from the end."""
    return ops.iota(dtype=_I32, shape=tuple(shape), dimension=len(shape) + dimension)


def repeated(x: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Broadcast a value along trailing dimensions."""
    dims = tuple(range(type_of(x).rank))
    return ops.broadcast_in_dim(x, shape=tuple(shape), dims=dims)


def compared(compare: Callable[..., ir.Value], like: ir.Value, dim: int, j: ir.Value) -> ir.Value:
    """A mask that compares the index along a dimension of ``like`` with j."""
    shape = type_of(like).shape
    return compare(index_along(shape, dim), repeated(j, shape))


def row_at(a: ir.Value, j: ir.Value) -> ir.Value:
    """Row j of each matrix."""
    kept = ops.select(compared(ops.eq, a, -2, j), a, zeros(type_of(a)))
    return ops.reduce_sum(kept, axes=(type_of(a).rank - 2,))


def element_at(x: ir.Value, j: ir.Value) -> ir.Value:
    """Element j of each vector."""
    kept = ops.select(compared(ops.eq, x, -1, j), x, zeros(type_of(x)))
    return ops.reduce_sum(kept, axes=(type_of(x).rank - 1,))


def column_at(a: ir.Value, j: ir.Value) -> ir.Value:
    """Column j of each matrix."""
    return element_at(a, j)


def with_column(a: ir.Value, j: ir.Value, where: Callable[..., ir.Value], x: ir.Value) -> ir.Value:
    """``a`` with part of column j, the rows for which ``where(row, j)``, taken from a vector."""
    here = ops.and_(compared(ops.eq, a, -1, j), compared(where, a, -2, j))
    return ops.select(here, as_columns(x, type_of(a)), a)


def outer(x: ir.Value, y: ir.Value, type_: TensorType) -> ir.Value:
    """The outer products ``x[i] y[j]``, as matrices of a type."""
    return ops.mul(as_columns(x, type_), as_rows(y, type_))


def swap_indices(like: ir.Value, j: ir.Value, chosen: ir.Value) -> ir.Value:
    """The permutation, as indices like ``like``, that swaps j with the chosen index per member."""
    shape = type_of(like).shape
    index, j, chosen = index_along(shape, -1), repeated(j, shape), repeated(chosen, shape)
    back = ops.select(ops.eq(index, chosen), j, index)
    return ops.select(ops.eq(index, j), chosen, back)


def permuted(x: ir.Value, order: ir.Value) -> ir.Value:
    """``x[order]`` of vectors."""
    shape = type_of(x).shape
    return reshape(permuted_rows(reshape(x, (*shape, 1)), order), shape)


def squares(x: ir.Value) -> ir.Value:
    """``|x|^2``, real."""
    size = ops.abs(x)
    return ops.mul(size, size)


def magnitude(x: ir.Value) -> ir.Value:
    """LAPACK's cheaper ``|x|``: for complex numbers, the sum of the parts' magnitudes."""
    if is_complex(type_of(x).dtype):
        return ops.add(ops.abs(ops.real(x)), ops.abs(ops.imag(x)))
    return ops.abs(x)


def converted(x: ir.Value, like: ir.Value) -> ir.Value:
    """Convert ``x`` to the dtype of another value."""
    return convert(x, type_of(like).dtype)
