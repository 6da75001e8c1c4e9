"""Hessenberg and tridiagonal reductions, and the tridiagonal solve, as loops.

The definitions are those of the NumPy code in `gnomon_runtime.linear_algebra.reflectors` and
`systems`, which follows LAPACK.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.backends.pjrt.legalize.columns import (
    column_at,
    compared,
    converted,
    loop,
    outer,
    repeated,
    with_column,
)
from gnomon.backends.pjrt.legalize.factorizations import reflected, reflector
from gnomon.backends.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import (
    broadcast_new_dim,
    constant,
    full,
    full_like,
    move_dim,
    ops,
    slice_along,
    zeros,
)
from gnomon.dialects.linear_algebra.matrices import (
    adjoint,
    as_columns,
    as_rows,
    below,
    columns,
    conjugated,
    diagonal,
    identity,
    lower_triangle,
    on_diagonal,
    real_part,
    rows,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_complex, type_of

__all__ = ["RULES"]

# -------------------------------------------------------------------------------------- reductions


def _to_hessenberg(a: ir.Value) -> list[ir.Value]:
    """The Hessenberg form with reflectors below its subdiagonal, and taus, as gehrd."""
    type_ = type_of(a)
    *batch, n, _ = type_.shape
    count = max(n - 1, 0)

    def step(j: ir.Value, a: ir.Value, taus: ir.Value) -> Sequence[ir.Value]:
        following = ops.add(j, constant(np.int32(1)))
        v, tau, beta = reflector(column_at(a, j), following)
        is_after = compared(ops.gt, a, -1, j)
        a = ops.select(is_after, reflected(a, v, conjugated(tau)), a)
        # Apply the same reflector from the right: a - (a v) tau v^H.
        overlaps = ops.reduce_sum(ops.mul(a, as_rows(v, type_)), axes=(type_.rank - 1,))
        scaled = conjugated(ops.mul(v, repeated(conjugated(tau), type_of(v).shape)))
        a = ops.sub(a, outer(overlaps, scaled, type_))
        # Store v in the reduced column, from row j + 1 on.
        a = with_column(a, j, ops.gt, v)
        here = ops.and_(compared(ops.eq, a, -1, j), compared(ops.eq, a, -2, following))
        a = ops.select(here, as_columns(_broadcast_like(converted(beta, v), v), type_), a)
        chosen = compared(ops.eq, taus, -1, j)
        return a, ops.select(chosen, repeated(tau, (*batch, count)), taus)

    return loop(count, step, a, zeros(type_.with_shape((*batch, count))))


def _broadcast_like(x: ir.Value, like: ir.Value) -> ir.Value:
    return repeated(x, type_of(like).shape)


def _subdiagonal(a: ir.Value) -> ir.Value:
    """The first subdiagonals."""
    n = type_of(a).shape[-1]
    return diagonal(columns(rows(a, 1, n), 0, n - 1))


def _tridiagonal(inst: Instance) -> list[ir.Value]:
    if inst.params["lower"]:
        return _to_tridiagonal(inst.operand, inst.result_types)
    # With rows and columns reversed, the upper triangle is a lower one.
    last = inst.operand_types[0].rank - 1
    packed, *others = _to_tridiagonal(
        ops.rev(inst.operand, dims=(last - 1, last)), inst.result_types
    )
    return [ops.rev(packed, dims=(last - 1, last)), *(ops.rev(x, dims=(last - 1,)) for x in others)]


def _to_tridiagonal(a: ir.Value, types: Sequence[TensorType]) -> list[ir.Value]:
    type_ = type_of(a)
    if not type_.shape[-1]:
        return [a, *map(zeros, types[1:])]
    left = lower_triangle(a, -1)
    middle = as_columns(real_part(diagonal(a)), type_)
    hermitian = ops.add(ops.add(left, adjoint(left)), ops.mul(middle, identity(type_)))
    packed, taus = _to_hessenberg(hermitian)
    d = real_part(diagonal(packed))
    e = real_part(_subdiagonal(packed)) if type_.shape[-1] > 1 else zeros(types[2])
    packed = ops.select(on_diagonal(type_), as_columns(d, type_), packed)
    # The other triangle is returned unchanged.
    return [ops.select(below(type_), packed, a), d, e, taus]


# ----------------------------------------------------------------------- systems of three diagonals


def _tridiagonal_solve(inst: Instance) -> list[ir.Value]:
    """Gaussian elimination with row swaps, as LAPACK's gtsv, for the whole batch at once."""
    type_ = inst.type
    if not type_.size:
        return [inst.operands[3]]
    n, at = type_.shape[-2], type_.rank - 2
    lower, middle, upper, b = (
        move_dim(x if i == 3 else broadcast_new_dim(x, 1, at + 1), at, 0)
        for i, x in enumerate(inst.operands)
    )
    last = zeros(type_of(upper).with_shape((1, *type_of(upper).shape[1:])))
    upper = ops.concatenate(slice_along(upper, 0, 0, n - 1), last, dimension=0)

    def eliminate(
        i: ir.Value,
        middle: ir.Value,
        upper: ir.Value,
        second: ir.Value,
        x: ir.Value,
        lower: ir.Value,
    ) -> Sequence[ir.Value]:
        below = ops.add(i, constant(np.int32(1)))
        here, under = _read(middle, i), _read(lower, below)
        next_middle, next_upper = _read(middle, below), _read(upper, below)
        here_upper = _read(upper, i)
        swap = ops.gt(ops.abs(under), ops.abs(here))
        pivot, other = ops.select(swap, under, here), ops.select(swap, here, under)
        zero = full_like(pivot, 0)
        factor = ops.div(other, ops.select(ops.eq(pivot, zero), full_like(pivot, 1), pivot))
        straight = ops.sub(next_middle, ops.mul(factor, here_upper))
        crossed = ops.sub(here_upper, ops.mul(factor, next_middle))
        middle = _with_row(_with_row(middle, pivot, i), ops.select(swap, crossed, straight), below)
        second = _with_row(second, ops.select(swap, next_upper, zero), i)
        carried = ops.neg(ops.mul(factor, next_upper))
        upper = _with_row(upper, ops.select(swap, next_middle, here_upper), i)
        upper = _with_row(upper, ops.select(swap, carried, next_upper), below)
        first, following = _read(x, i), _read(x, below)
        wide_swap = _wide(swap, first)
        top = ops.select(wide_swap, following, first)
        bottom = ops.select(wide_swap, first, following)
        bottom = ops.sub(bottom, ops.mul(_wide(factor, first), top))
        return middle, upper, second, _with_row(_with_row(x, top, i), bottom, below), lower

    def substitute(
        i: ir.Value, x: ir.Value, middle: ir.Value, upper: ir.Value, second: ir.Value
    ) -> Sequence[ir.Value]:
        at = ops.sub(constant(np.int32(n - 1)), i)
        value = _read(x, at)
        # The factors are zero in the last rows, so nothing after the last row is subtracted.
        for step, factors in ((1, upper), (2, second)):
            known = _read(x, ops.add(at, constant(np.int32(step))))
            value = ops.sub(value, ops.mul(_wide(_read(factors, at), value), known))
        return (
            _with_row(x, ops.div(value, _wide(_read(middle, at), value)), at),
            middle,
            upper,
            second,
        )

    middle, upper, second, x, _ = loop(
        n - 1, eliminate, middle, upper, zeros(type_of(middle)), b, lower
    )
    # Append two rows of zeros, which the last two rows read.
    shape = type_of(x).shape
    x = ops.concatenate(x, zeros(type_of(x).with_shape((2, *shape[1:]))), dimension=0)
    x = slice_along(loop(n, substitute, x, middle, upper, second)[0], 0, 0, n)
    singular = ops.reduce_or(ops.eq(middle, full_like(middle, 0)), axes=(0,))
    singular = ops.broadcast_in_dim(singular, shape=shape, dims=tuple(range(1, type_.rank)))
    nan = complex(np.nan, np.nan) if is_complex(type_.dtype) else np.nan
    return [move_dim(ops.select(singular, full(type_of(x), nan), x), 0, at)]


def _wide(x: ir.Value, like: ir.Value) -> ir.Value:
    """Broadcast one number per system to its right-hand sides."""
    shape = type_of(like).shape
    return ops.broadcast_in_dim(x, shape=shape, dims=tuple(range(len(shape))))


def _places(x: ir.Value, i: ir.Value) -> list[ir.Value]:
    return [i, *(constant(np.int32(0)) for _ in type_of(x).shape[1:])]


def _read(x: ir.Value, i: ir.Value) -> ir.Value:
    """Row i along the first dimension, kept with size one."""
    return ops.dynamic_slice(x, *_places(x, i), sizes=(1, *type_of(x).shape[1:]))


def _with_row(x: ir.Value, row: ir.Value, i: ir.Value) -> ir.Value:
    return ops.dynamic_update_slice(x, row, *_places(x, i))


RULES: dict[str, Rule] = {
    "gnomon.hessenberg": lambda inst: _to_hessenberg(inst.operand),
    "gnomon.tridiagonal": _tridiagonal,
    "gnomon.tridiagonal_solve": _tridiagonal_solve,
}
