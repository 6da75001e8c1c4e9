"""Elimination and reflectors as loops over columns, for compilers without LAPACK.

Since every step works on whole matrices, they take up to three times as many operations as a
blocked algorithm. The definitions are those of the NumPy code in
`gnomon_runtime.linear_algebra.elimination` and `reflectors`, which follows LAPACK.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.backends.pjrt.legalize.columns import (
    column_at,
    compared,
    converted,
    element_at,
    index_along,
    loop,
    magnitude,
    outer,
    permuted,
    repeated,
    row_at,
    squares,
    swap_indices,
    with_column,
)
from gnomon.backends.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import constant, convert, full, full_like, ops, zeros
from gnomon.dialects.linear_algebra.lu import permuted_rows
from gnomon.dialects.linear_algebra.matrices import (
    as_columns,
    columns,
    concatenate_columns,
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

__all__ = ["RULES", "pivots_and_parity", "product_of_reflectors", "reflector", "triangularized"]

_I32 = np.dtype(np.int32)

# ------------------------------------------------------------------------------------- elimination


def _eliminated(a: ir.Value) -> list[ir.Value]:
    """L and U in one matrix, pivots, and the permutation, as LAPACK's getrf."""
    *batch, m, n = type_of(a).shape
    count = min(m, n)
    type_ = type_of(a)

    def step(
        j: ir.Value, lu: ir.Value, pivots: ir.Value, permutation: ir.Value
    ) -> Sequence[ir.Value]:
        size = magnitude(column_at(lu, j))
        size = ops.select(compared(ops.ge, size, -1, j), size, full_like(size, -1))
        chosen = ops.argmax(size, axis=len(batch), index_dtype=_I32)
        order = swap_indices(size, j, chosen)
        lu, permutation = permuted_rows(lu, order), permuted(permutation, order)
        row, column = row_at(lu, j), column_at(lu, j)
        pivot = repeated(element_at(column, j), (*batch, m))
        # A column of zeros is left unchanged, as in LAPACK.
        is_zero = ops.eq(pivot, full_like(pivot, 0))
        column = ops.div(column, ops.select(is_zero, full_like(pivot, 1), pivot))
        lu = with_column(lu, j, ops.gt, column)
        inside = ops.and_(compared(ops.gt, lu, -2, j), compared(ops.gt, lu, -1, j))
        lu = ops.select(inside, ops.sub(lu, outer(column, row, type_)), lu)
        here = compared(ops.eq, pivots, -1, j)
        pivots = ops.select(here, repeated(chosen, (*batch, count)), pivots)
        return lu, pivots, permutation

    pivots = full(TensorType((*batch, count), _I32), 0)
    return loop(count, step, a, pivots, index_along((*batch, m), -1))


def _permutation_of(inst: Instance) -> list[ir.Value]:
    pivots, size = inst.operand, inst.params["size"]
    *batch, count = type_of(pivots).shape

    def step(j: ir.Value, permutation: ir.Value, pivots: ir.Value) -> Sequence[ir.Value]:
        return permuted(permutation, swap_indices(permutation, j, element_at(pivots, j))), pivots

    # A pivot outside of the matrix swaps nothing.
    is_inside = ops.and_(
        ops.ge(pivots, full_like(pivots, 0)), ops.lt(pivots, full_like(pivots, size))
    )
    rows = ops.select(is_inside, pivots, index_along((*batch, count), -1))
    return loop(count, step, index_along((*batch, size), -1), rows)[:1]


def _solve(inst: Instance) -> list[ir.Value]:
    a, b = inst.operands
    lu, _, permutation = _eliminated(swapped(a) if inst.params["transpose_a"] else a)
    side = {"left_side": True, "transpose_a": False, "conjugate_a": False}
    b = permuted_rows(b, permutation)
    half = ops.triangular_solve(lu, b, lower=True, unit_diagonal=True, **side)
    return [ops.triangular_solve(lu, half, lower=False, unit_diagonal=False, **side)]


def pivots_and_parity(a: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The diagonal of U and the sign of the permutation, in the dtype of ``a``."""
    lu, swaps, _ = _eliminated(a)
    shape = type_of(swaps).shape
    swapped_ = convert(ops.ne(swaps, index_along(shape, -1)), _I32)
    count = ops.reduce_sum(swapped_, axes=(len(shape) - 1,))
    odd = ops.ne(ops.and_(count, full_like(count, 1)), full_like(count, 0))
    one = full(type_of(a).with_shape(shape[:-1]), 1)
    return diagonal(lu), ops.select(odd, ops.neg(one), one)


def _det(inst: Instance) -> list[ir.Value]:
    pivots, parity = pivots_and_parity(inst.operand)
    return [ops.mul(parity, ops.reduce_prod(pivots, axes=(type_of(pivots).rank - 1,)))]


def _slogdet(inst: Instance) -> list[ir.Value]:
    pivots, parity = pivots_and_parity(inst.operand)
    last = (type_of(pivots).rank - 1,)
    sign = ops.mul(parity, ops.reduce_prod(ops.sign(pivots), axes=last))
    return [sign, ops.reduce_sum(ops.log(ops.abs(pivots)), axes=last)]


# -------------------------------------------------------------------------------------- reflectors


def reflector(column: ir.Value, j: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The reflector whose adjoint maps a column's rows from j on to a multiple of unit vector j.

    Returns:
      v, with zeros before row j and one there; tau; and the multiple, which is real.
    """
    type_ = type_of(column)
    shape = type_.shape
    lower = ops.select(compared(ops.gt, column, -1, j), column, zeros(type_))
    alpha = element_at(column, j)
    # Scale, so that squares neither overflow nor underflow.
    largest = ops.max(ops.reduce_max(ops.abs(lower), axes=(type_.rank - 1,)), magnitude(alpha))
    largest = ops.select(ops.eq(largest, full_like(largest, 0)), full_like(largest, 1), largest)
    lower = ops.div(lower, converted(repeated(largest, shape), lower))
    alpha = ops.div(alpha, converted(largest, alpha))
    rest = ops.reduce_sum(squares(lower), axes=(type_.rank - 1,))
    size = ops.sqrt(ops.add(rest, squares(alpha)))
    first = real_part(alpha)
    beta = ops.select(ops.lt(first, full_like(first, 0)), size, ops.neg(size))
    # If there is nothing to annihilate, LAPACK takes the identity.
    trivial = ops.eq(rest, full_like(rest, 0))
    if is_complex(type_.dtype):
        still = ops.imag(alpha)
        trivial = ops.and_(trivial, ops.eq(still, full_like(still, 0)))
    beta = ops.select(trivial, first, beta)
    one, zero = full_like(alpha, 1), full_like(alpha, 0)
    above = ops.sub(converted(beta, alpha), alpha)
    tau = ops.select(
        trivial, zero, ops.div(above, ops.select(trivial, one, converted(beta, alpha)))
    )
    below = ops.select(trivial, one, ops.neg(above))
    v = ops.div(lower, repeated(below, shape))
    v = ops.select(compared(ops.eq, v, -1, j), full_like(v, 1), v)
    return v, tau, ops.mul(beta, largest)


def reflected(a: ir.Value, v: ir.Value, tau: ir.Value) -> ir.Value:
    """Apply a reflector from the left: ``a - tau v (v^H a)``."""
    type_ = type_of(a)
    overlaps = ops.reduce_sum(ops.mul(as_columns(conjugated(v), type_), a), axes=(type_.rank - 2,))
    scaled = ops.mul(v, repeated(tau, type_of(v).shape))
    return ops.sub(a, outer(scaled, overlaps, type_))


def triangularized(a: ir.Value, pivoting: bool = False) -> list[ir.Value]:
    """R with reflectors below, taus, and the permutation of columns, as geqrf or geqp3."""
    *batch, m, n = type_of(a).shape
    count = min(m, n)

    def step(j: ir.Value, a: ir.Value, taus: ir.Value, permutation: ir.Value) -> Sequence[ir.Value]:
        if pivoting:
            left = ops.select(compared(ops.ge, a, -2, j), a, zeros(type_of(a)))
            size = ops.reduce_sum(squares(left), axes=(len(batch),))
            size = ops.select(compared(ops.ge, size, -1, j), size, full_like(size, -1))
            order = swap_indices(size, j, ops.argmax(size, axis=len(batch), index_dtype=_I32))
            a, permutation = permuted_columns(a, order), permuted(permutation, order)
        v, tau, beta = reflector(column_at(a, j), j)
        is_after = compared(ops.gt, a, -1, j)
        a = ops.select(is_after, reflected(a, v, conjugated(tau)), a)
        a = with_column(a, j, ops.gt, v)
        a = with_column(a, j, ops.eq, repeated(converted(beta, v), (*batch, m)))
        here = compared(ops.eq, taus, -1, j)
        return a, ops.select(here, repeated(tau, (*batch, count)), taus), permutation

    taus = zeros(type_of(a).with_shape((*batch, count)))
    return loop(count, step, a, taus, index_along((*batch, n), -1))


def product_of_reflectors(a: ir.Value, taus: ir.Value) -> ir.Value:
    """The first columns of the product of reflectors, as orgqr."""
    count = type_of(taus).shape[-1]

    def step(i: ir.Value, q: ir.Value, a: ir.Value, taus: ir.Value) -> Sequence[ir.Value]:
        j = ops.sub(constant(np.int32(count - 1)), i)
        v = column_at(a, j)
        v = ops.select(compared(ops.gt, v, -1, j), v, zeros(type_of(v)))
        v = ops.select(compared(ops.eq, v, -1, j), full_like(v, 1), v)
        return reflected(q, v, element_at(taus, j)), a, taus

    return loop(count, step, identity(type_of(a)), a, taus)[0]


def _qr(inst: Instance) -> list[ir.Value]:
    packed, taus, permutation = triangularized(inst.operand, inst.params["pivoting"])
    *batch, m, n = type_of(packed).shape
    k = m if inst.params["full_matrices"] else min(m, n)
    vectors = columns(packed, 0, min(k, n))
    if k > n:
        vectors = concatenate_columns(
            vectors, zeros(type_of(packed).with_shape((*batch, m, k - n)))
        )
    q, r = product_of_reflectors(vectors, taus), upper_triangle(rows(packed, 0, k))
    return [q, r, permutation] if inst.params["pivoting"] else [q, r]


RULES: dict[str, Rule] = {
    "gnomon.lu": lambda inst: _eliminated(inst.operand),
    "gnomon.lu_pivots_to_permutation": _permutation_of,
    "gnomon.solve": _solve,
    "gnomon.det": _det,
    "gnomon.slogdet": _slogdet,
    "gnomon.geqrf": lambda inst: triangularized(inst.operand, pivoting=False)[:2],
    "gnomon.householder_product": lambda inst: [product_of_reflectors(*inst.operands)],
    "gnomon.qr": _qr,
}
