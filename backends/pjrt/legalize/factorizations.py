"""Elimination and reflectors as loops over columns, for compilers that bring no LAPACK.

A step works on whole matrices and selects what it changes by masks, so that the loop has one body
of static shapes for batches of any size: as many operations as a blocked algorithm in the leading
order, up to a factor of three. The definitions are those of the NumPy code in
`dialects.linear_algebra.elimination` and `reflectors`, which follows LAPACK.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.backends.rewriting import Rule
from gnomon.dialects.body import Body
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import constant, convert, full, full_like, ops, reshape, zeros
from gnomon.dialects.linear_algebra.lu import permuted_rows
from gnomon.dialects.linear_algebra.matrices import (
    as_columns,
    as_rows,
    beside,
    columns,
    conjugated,
    diagonal,
    identity,
    real_part,
    rows,
    swapped,
    upper_triangle,
)
from gnomon.dialects.linear_algebra.qr import permuted_columns
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_complex, type_of

__all__ = ["RULES"]

_I32 = np.dtype(np.int32)

Step = Callable[..., Sequence[ir.Value]]


def _loop(count: int, step: Step, *state: ir.Value) -> list[ir.Value]:
    """``state = step(j, *state)`` for each j below ``count``."""
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


def _number(shape: Sequence[int], dimension: int) -> ir.Value:
    """The index along a dimension, counted from the end if negative."""
    return ops.iota(dtype=_I32, shape=tuple(shape), dimension=len(shape) + dimension)


def _everywhere(x: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A value of fewer dimensions, repeated along those behind its own."""
    dims = tuple(range(type_of(x).rank))
    return ops.broadcast_in_dim(x, shape=tuple(shape), dims=dims)


def _compared(compare: Callable[..., ir.Value], like: ir.Value, dim: int, j: ir.Value) -> ir.Value:
    """A predicate of the index along a dimension of ``like`` and the number j."""
    shape = type_of(like).shape
    return compare(_number(shape, dim), _everywhere(j, shape))


def _row(a: ir.Value, j: ir.Value) -> ir.Value:
    kept = ops.select(_compared(ops.eq, a, -2, j), a, zeros(type_of(a)))
    return ops.reduce_sum(kept, axes=(type_of(a).rank - 2,))


def _element(x: ir.Value, j: ir.Value) -> ir.Value:
    """Element j of vectors."""
    kept = ops.select(_compared(ops.eq, x, -1, j), x, zeros(type_of(x)))
    return ops.reduce_sum(kept, axes=(type_of(x).rank - 1,))


def _column(a: ir.Value, j: ir.Value) -> ir.Value:
    return _element(a, j)


def _with_column(a: ir.Value, j: ir.Value, where: Callable[..., ir.Value], x: ir.Value) -> ir.Value:
    """``a`` with a part of column j, the rows that compare so with j, taken from a vector."""
    here = ops.and_(_compared(ops.eq, a, -1, j), _compared(where, a, -2, j))
    return ops.select(here, as_columns(x, type_of(a)), a)


def _outer(x: ir.Value, y: ir.Value, type_: TensorType) -> ir.Value:
    return ops.mul(as_columns(x, type_), as_rows(y, type_))


def _swap(like: ir.Value, j: ir.Value, chosen: ir.Value) -> ir.Value:
    """The permutation, for indices ``like``, that swaps j with the chosen one of each member."""
    shape = type_of(like).shape
    index, j, chosen = _number(shape, -1), _everywhere(j, shape), _everywhere(chosen, shape)
    back = ops.select(ops.eq(index, chosen), j, index)
    return ops.select(ops.eq(index, j), chosen, back)


def _permuted(x: ir.Value, order: ir.Value) -> ir.Value:
    """``x[order]`` of vectors."""
    shape = type_of(x).shape
    return reshape(permuted_rows(reshape(x, (*shape, 1)), order), shape)


def _squares(x: ir.Value) -> ir.Value:
    magnitude = ops.abs(x)
    return ops.mul(magnitude, magnitude)


def _same(x: ir.Value, like: ir.Value) -> ir.Value:
    return convert(x, type_of(like).dtype)


# ------------------------------------------------------------------------------------- elimination


def _magnitude(x: ir.Value) -> ir.Value:
    if is_complex(type_of(x).dtype):
        return ops.add(ops.abs(ops.real(x)), ops.abs(ops.imag(x)))
    return ops.abs(x)


def _eliminated(a: ir.Value) -> list[ir.Value]:
    """L and U in one, pivots, the permutation: LAPACK's getrf."""
    *batch, m, n = type_of(a).shape
    count = min(m, n)
    type_ = type_of(a)

    def step(
        j: ir.Value, lu: ir.Value, pivots: ir.Value, permutation: ir.Value
    ) -> Sequence[ir.Value]:
        size = _magnitude(_column(lu, j))
        size = ops.select(_compared(ops.ge, size, -1, j), size, full_like(size, -1))
        chosen = ops.argmax(size, axis=len(batch), index_dtype=_I32)
        order = _swap(size, j, chosen)
        lu, permutation = permuted_rows(lu, order), _permuted(permutation, order)
        row, column = _row(lu, j), _column(lu, j)
        pivot = _everywhere(_element(column, j), (*batch, m))
        # A column of zeros is left alone, as LAPACK leaves it.
        is_zero = ops.eq(pivot, full_like(pivot, 0))
        column = ops.div(column, ops.select(is_zero, full_like(pivot, 1), pivot))
        lu = _with_column(lu, j, ops.gt, column)
        inside = ops.and_(_compared(ops.gt, lu, -2, j), _compared(ops.gt, lu, -1, j))
        lu = ops.select(inside, ops.sub(lu, _outer(column, row, type_)), lu)
        here = _compared(ops.eq, pivots, -1, j)
        pivots = ops.select(here, _everywhere(chosen, (*batch, count)), pivots)
        return lu, pivots, permutation

    pivots = full(TensorType((*batch, count), _I32), 0)
    return _loop(count, step, a, pivots, _number((*batch, m), -1))


def _permutation_of(inst: Instance) -> list[ir.Value]:
    pivots, size = inst.operand, inst.params["size"]
    *batch, count = type_of(pivots).shape

    def step(j: ir.Value, permutation: ir.Value, pivots: ir.Value) -> Sequence[ir.Value]:
        return _permuted(permutation, _swap(permutation, j, _element(pivots, j))), pivots

    return _loop(count, step, _number((*batch, size), -1), pivots)[:1]


def _solve(inst: Instance) -> list[ir.Value]:
    a, b = inst.operands
    lu, _, permutation = _eliminated(swapped(a) if inst.params["transpose_a"] else a)
    side = {"left_side": True, "transpose_a": False, "conjugate_a": False}
    b = permuted_rows(b, permutation)
    half = ops.triangular_solve(lu, b, lower=True, unit_diagonal=True, **side)
    return [ops.triangular_solve(lu, half, lower=False, unit_diagonal=False, **side)]


def _pivots_and_parity(a: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The diagonal of U, and the sign of the permutation, in the dtype of ``a``."""
    lu, swaps, _ = _eliminated(a)
    shape = type_of(swaps).shape
    swapped_ = convert(ops.ne(swaps, _number(shape, -1)), _I32)
    count = ops.reduce_sum(swapped_, axes=(len(shape) - 1,))
    odd = ops.ne(ops.and_(count, full_like(count, 1)), full_like(count, 0))
    one = full(type_of(a).with_shape(shape[:-1]), 1)
    return diagonal(lu), ops.select(odd, ops.neg(one), one)


def _det(inst: Instance) -> list[ir.Value]:
    pivots, parity = _pivots_and_parity(inst.operand)
    return [ops.mul(parity, ops.reduce_prod(pivots, axes=(type_of(pivots).rank - 1,)))]


def _slogdet(inst: Instance) -> list[ir.Value]:
    pivots, parity = _pivots_and_parity(inst.operand)
    last = (type_of(pivots).rank - 1,)
    sign = ops.mul(parity, ops.reduce_prod(ops.sign(pivots), axes=last))
    return [sign, ops.reduce_sum(ops.log(ops.abs(pivots)), axes=last)]


# -------------------------------------------------------------------------------------- reflectors


def _reflector(column: ir.Value, j: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The reflector that takes the rows of a column from j on to a multiple of unit vector j.

    Returns:
      v, with zeros before row j and one there; tau; and the multiple, which is real.
    """
    type_ = type_of(column)
    shape = type_.shape
    lower = ops.select(_compared(ops.gt, column, -1, j), column, zeros(type_))
    alpha = _element(column, j)
    # Scaled, so that squares neither overflow nor vanish.
    largest = ops.max(ops.reduce_max(ops.abs(lower), axes=(type_.rank - 1,)), _magnitude(alpha))
    largest = ops.select(ops.eq(largest, full_like(largest, 0)), full_like(largest, 1), largest)
    lower = ops.div(lower, _same(_everywhere(largest, shape), lower))
    alpha = ops.div(alpha, _same(largest, alpha))
    rest = ops.reduce_sum(_squares(lower), axes=(type_.rank - 1,))
    size = ops.sqrt(ops.add(rest, _squares(alpha)))
    first = real_part(alpha)
    beta = ops.select(ops.lt(first, full_like(first, 0)), size, ops.neg(size))
    # Nothing to annihilate: LAPACK then takes the identity.
    trivial = ops.eq(rest, full_like(rest, 0))
    if is_complex(type_.dtype):
        still = ops.imag(alpha)
        trivial = ops.and_(trivial, ops.eq(still, full_like(still, 0)))
    beta = ops.select(trivial, first, beta)
    one, zero = full_like(alpha, 1), full_like(alpha, 0)
    above = ops.sub(_same(beta, alpha), alpha)
    tau = ops.select(trivial, zero, ops.div(above, ops.select(trivial, one, _same(beta, alpha))))
    below = ops.select(trivial, one, ops.neg(above))
    v = ops.div(lower, _everywhere(below, shape))
    v = ops.select(_compared(ops.eq, v, -1, j), full_like(v, 1), v)
    return v, tau, ops.mul(beta, largest)


def _reflected(a: ir.Value, v: ir.Value, tau: ir.Value) -> ir.Value:
    """``a - tau v (v^H a)``."""
    type_ = type_of(a)
    overlaps = ops.reduce_sum(ops.mul(as_columns(conjugated(v), type_), a), axes=(type_.rank - 2,))
    scaled = ops.mul(v, _everywhere(tau, type_of(v).shape))
    return ops.sub(a, _outer(scaled, overlaps, type_))


def _triangularized(a: ir.Value, pivoting: bool) -> list[ir.Value]:
    """R with the reflectors below, taus, and the permutation of columns: geqrf or geqp3."""
    *batch, m, n = type_of(a).shape
    count = min(m, n)

    def step(j: ir.Value, a: ir.Value, taus: ir.Value, permutation: ir.Value) -> Sequence[ir.Value]:
        if pivoting:
            left = ops.select(_compared(ops.ge, a, -2, j), a, zeros(type_of(a)))
            size = ops.reduce_sum(_squares(left), axes=(len(batch),))
            size = ops.select(_compared(ops.ge, size, -1, j), size, full_like(size, -1))
            order = _swap(size, j, ops.argmax(size, axis=len(batch), index_dtype=_I32))
            a, permutation = permuted_columns(a, order), _permuted(permutation, order)
        v, tau, beta = _reflector(_column(a, j), j)
        behind = _compared(ops.gt, a, -1, j)
        a = ops.select(behind, _reflected(a, v, conjugated(tau)), a)
        a = _with_column(a, j, ops.gt, v)
        a = _with_column(a, j, ops.eq, _everywhere(_same(beta, v), (*batch, m)))
        here = _compared(ops.eq, taus, -1, j)
        return a, ops.select(here, _everywhere(tau, (*batch, count)), taus), permutation

    taus = zeros(type_of(a).with_shape((*batch, count)))
    return _loop(count, step, a, taus, _number((*batch, n), -1))


def _product(a: ir.Value, taus: ir.Value) -> ir.Value:
    """The first columns of the reflectors' product: orgqr."""
    count = type_of(taus).shape[-1]

    def step(i: ir.Value, q: ir.Value, a: ir.Value, taus: ir.Value) -> Sequence[ir.Value]:
        j = ops.sub(constant(np.int32(count - 1)), i)
        v = _column(a, j)
        v = ops.select(_compared(ops.gt, v, -1, j), v, zeros(type_of(v)))
        v = ops.select(_compared(ops.eq, v, -1, j), full_like(v, 1), v)
        return _reflected(q, v, _element(taus, j)), a, taus

    return _loop(count, step, identity(type_of(a)), a, taus)[0]


def _qr(inst: Instance) -> list[ir.Value]:
    packed, taus, permutation = _triangularized(inst.operand, inst.params["pivoting"])
    *batch, m, n = type_of(packed).shape
    k = m if inst.params["full_matrices"] else min(m, n)
    vectors = columns(packed, 0, min(k, n))
    if k > n:
        vectors = beside(vectors, zeros(type_of(packed).with_shape((*batch, m, k - n))))
    q, r = _product(vectors, taus), upper_triangle(rows(packed, 0, k))
    return [q, r, permutation] if inst.params["pivoting"] else [q, r]


RULES: dict[str, Rule] = {
    "gnomon.lu": lambda inst: _eliminated(inst.operand),
    "gnomon.lu_pivots_to_permutation": _permutation_of,
    "gnomon.solve": _solve,
    "gnomon.det": _det,
    "gnomon.slogdet": _slogdet,
    "gnomon.geqrf": lambda inst: _triangularized(inst.operand, pivoting=False)[:2],
    "gnomon.householder_product": lambda inst: [_product(*inst.operands)],
    "gnomon.qr": _qr,
}
