"""Singular values and eigenvalues by rotations of columns, for compilers without LAPACK.

Hestenes' method (1958) rotates pairs of columns of ``W = A V`` until all columns are orthogonal.
Their lengths are the singular values, and the product V of the rotations has the right singular
vectors. The columns are paired as in a round-robin tournament (Brent & Luk 1985), so that half of
the columns are rotated with the other half at once, as a batch of vectors. A sweep has n - 1
rounds, and about ten sweeps suffice for any size, because the convergence is finally quadratic.
The vectors are orthonormal. The errors of all singular values are relative to the largest one.

The right singular vectors of a Hermitian matrix that is shifted to be positive definite are its
eigenvectors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.backends.pjrt.legalize.columns import converted, permuted, squares
from gnomon.backends.pjrt.legalize.factorizations import (
    pivots_and_parity,
    product_of_reflectors,
    triangularized,
)
from gnomon.backends.rewriting import Rule
from gnomon.dialects.body import Body
from gnomon.dialects.combinators import Values
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import (
    constant,
    full,
    full_like,
    ops,
    reshape,
    scale,
    slice_along,
    zeros,
)
from gnomon.dialects.linear_algebra.lu import permuted_rows
from gnomon.dialects.linear_algebra.matrices import (
    adjoint,
    as_columns,
    as_rows,
    columns,
    concatenate_columns,
    concatenate_rows,
    conjugated,
    diagonal,
    identity,
    lower_triangle,
    matmul,
    real_part,
    rows,
    swapped,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_complex, real_dtype, type_of

__all__ = ["RULES"]

_I32 = np.dtype(np.int32)
# The maximum number of sweeps. Ten suffice for every matrix tried, but rounding may prevent
# convergence.
_SWEEPS = 40


# -------------------------------------------------------------------------------------- rotations


def _sum(x: ir.Value) -> ir.Value:
    """Sum along the last dimension, kept with size one."""
    shape = type_of(x).shape
    return reshape(ops.reduce_sum(x, axes=(len(shape) - 1,)), (*shape[:-1], 1))


def _along(x: ir.Value, like: ir.Value) -> ir.Value:
    """Broadcast a column along the last dimension and convert it to the dtype of ``like``."""
    type_ = type_of(like)
    return ops.broadcast_in_dim(
        converted(x, like), shape=type_.shape, dims=tuple(range(type_.rank))
    )


def _rotated(size: int, first: ir.Value, second: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Rotate pairs of vectors so that their first ``size`` elements are orthogonal.

    Args:
      size: the number of elements of the scalar product.
      first, second: ``[..., pairs, elements]``.

    Returns:
      The rotated vectors, and whether any pair was not orthogonal to rounding.
    """
    last = type_of(first).rank - 1
    x, y = (slice_along(v, last, 0, size) for v in (first, second))
    alpha, beta = _sum(squares(x)), _sum(squares(y))
    gamma = _sum(ops.mul(conjugated(x), y))
    overlap = ops.abs(gamma)
    epsilon = float(np.finfo(type_of(alpha).dtype).eps)
    # Since matrices are scaled, a shorter vector is a rounding error without a direction.
    shortest = full_like(alpha, epsilon)
    lengths = [ops.add(ops.sqrt(v), shortest) for v in (alpha, beta)]
    tolerance = scale(ops.mul(*lengths), epsilon * size**0.5)
    turns = ops.gt(overlap, tolerance)
    one = full_like(overlap, 1)
    divisor = ops.select(turns, overlap, one)
    ratio = ops.div(ops.sub(beta, alpha), scale(divisor, 2))
    # Take the smaller of the two angles; a ratio of zero is a rotation by 45 degrees.
    root = ops.add(ops.abs(ratio), ops.sqrt(ops.add(one, ops.mul(ratio, ratio))))
    tangent = ops.div(one, ops.select(ops.lt(ratio, full_like(ratio, 0)), ops.neg(root), root))
    tangent = ops.select(turns, tangent, full_like(tangent, 0))
    cosine = ops.div(one, ops.sqrt(ops.add(one, ops.mul(tangent, tangent))))
    # Rutishauser's form adds a correction to each vector, so small rotations preserve lengths.
    sine = ops.mul(cosine, tangent)
    half = _along(ops.div(sine, ops.add(one, cosine)), first)
    phase = _along(ops.div(gamma, converted(divisor, gamma)), first)
    sine = _along(sine, first)
    towards = ops.add(ops.mul(conjugated(phase), second), ops.mul(half, first))
    away = ops.sub(ops.mul(phase, first), ops.mul(half, second))
    turned = ops.sub(first, ops.mul(sine, towards)), ops.add(second, ops.mul(sine, away))
    return *turned, ops.reduce_or(turns, axes=tuple(range(last + 1)))


def _next_round(first: ir.Value, second: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The pairs of the next round: one vector stays in place, the others rotate."""
    pairs = type_of(first).shape[-2]
    if pairs == 1:
        return first, second
    return (
        concatenate_rows(rows(first, 0, 1), rows(second, 0, 1), rows(first, 1, pairs - 1)),
        concatenate_rows(rows(second, 1, pairs), rows(first, pairs - 1, pairs)),
    )


def _orthogonalized(a: ir.Value, compute_v: bool = True) -> tuple[ir.Value, ir.Value]:
    """``W = A V`` with orthogonal columns in no particular order, and the unitary V.

    Args:
      a: ``[..., m, n]`` with n > 0; the largest element is about one.
      compute_v: whether to compute V, which costs as much as W; otherwise V has no rows.
    """
    type_ = type_of(a)
    *batch, m, n = type_.shape
    # Make the number of columns even with a column of zeros, which rotations do not change and
    # which ends where it began.
    even = n + n % 2
    vectors = swapped(a)
    if compute_v:
        vectors = concatenate_columns(vectors, identity(type_.with_shape((*batch, n, n))))
    width = type_of(vectors).shape[-1]
    if even > n:
        vectors = concatenate_rows(vectors, zeros(type_.with_shape((*batch, 1, width))))
    halves = rows(vectors, 0, even // 2), rows(vectors, even // 2, even)
    rounds = even - 1

    def running(turn: ir.Value, turned: ir.Value, sweeping: ir.Value, *_: ir.Value) -> Values:
        return [ops.and_(sweeping, ops.lt(turn, constant(np.int32(_SWEEPS * rounds))))]

    def step(turn: ir.Value, turned: ir.Value, sweeping: ir.Value, *halves: ir.Value) -> Values:
        first, second, turned_now = _rotated(m, *halves)
        first, second = _next_round(first, second)
        turned, turn = ops.or_(turned, turned_now), ops.add(turn, constant(np.int32(1)))
        left = ops.rem(turn, constant(np.int32(rounds)))
        within = ops.ne(left, full_like(left, 0))
        # Continue after a sweep if it has rotated any pair.
        return [turn, ops.and_(turned, within), ops.or_(turned, within), first, second]

    state = [constant(np.int32(0)), constant(np.bool_(False)), constant(np.bool_(True)), *halves]
    types = [type_of(v) for v in state]
    bodies = [Body.build(types, running), Body.build(types, step)]
    results = ops.while_.build(state, {"cond_consts": 0, "body_consts": 0}, bodies)
    vectors = rows(concatenate_rows(*results[3:]), 0, n)
    return swapped(columns(vectors, 0, m)), swapped(columns(vectors, m, width))


# ------------------------------------------------------------------------------ parts of the rules


def _scaled(a: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Divide matrices by their largest element against overflow; return these elements as well."""
    type_ = type_of(a)
    largest = ops.reduce_max(ops.abs(a), axes=(type_.rank - 2, type_.rank - 1))
    zero = full_like(largest, 0)
    largest = ops.select(ops.eq(largest, zero), full_like(largest, 1), largest)
    return ops.div(a, _of_member(largest, a)), largest


def _of_member(x: ir.Value, like: ir.Value) -> ir.Value:
    """Broadcast one value per member of the batch and convert it to the dtype of ``like``."""
    shape = type_of(like).shape
    dims = tuple(range(type_of(x).rank))
    return ops.broadcast_in_dim(converted(x, like), shape=shape, dims=dims)


def _in_order(keys: ir.Value, values: ir.Value, *matrices: ir.Value) -> list[ir.Value]:
    """Sort values and the columns of matrices by ascending keys."""
    type_ = type_of(keys)
    last = type_.rank - 1
    position = ops.iota(dtype=_I32, shape=type_.shape, dimension=last)
    order = ops.sort(keys, position, dimension=last, num_keys=1, is_stable=True)[1]
    return [permuted(values, order)] + [swapped(permuted_rows(swapped(x), order)) for x in matrices]


def _is_finite(x: ir.Value) -> ir.Value:
    """Whether all elements of each vector are finite."""
    return ops.is_finite(ops.reduce_sum(x, axes=(type_of(x).rank - 1,)))


def _or_nan(finite: ir.Value, x: ir.Value) -> ir.Value:
    """``x`` with nan for the members that are not finite."""
    type_ = type_of(x)
    nan = complex(np.nan, np.nan) if is_complex(type_.dtype) else np.nan
    chosen = ops.broadcast_in_dim(
        finite, shape=type_.shape, dims=tuple(range(type_of(finite).rank))
    )
    return ops.select(chosen, x, full(type_, nan))


def _lengths(w: ir.Value) -> ir.Value:
    return ops.sqrt(ops.reduce_sum(squares(w), axes=(type_of(w).rank - 2,)))


# ------------------------------------------------------------------------------- singular values


def _orthonormal(w: ir.Value, count: int) -> ir.Value:
    """Normalize orthogonal columns and add further ones, for a total of ``count``.

    A QR factorization by reflectors gives orthonormal columns even in place of zero columns.
    """
    type_ = type_of(w)
    *batch, m, n = type_.shape
    packed, taus, _ = triangularized(w)
    if count > n:
        more = zeros(type_.with_shape((*batch, m, count - n)))
        packed = concatenate_columns(packed, more)
    q = product_of_reflectors(packed, taus)
    # R is diagonal; a negative element flips the sign of its column.
    sign = real_part(diagonal(rows(columns(packed, 0, n), 0, n)))
    sign = ops.select(ops.lt(sign, full_like(sign, 0)), full_like(sign, -1), full_like(sign, 1))
    if count > n:
        sign = ops.concatenate(
            sign,
            full(type_of(sign).with_shape((*batch, count - n)), 1),
            dimension=type_of(sign).rank - 1,
        )
    return ops.mul(q, as_rows(sign, type_of(q)))


def _singular_values(a: ir.Value) -> ir.Value:
    *batch, m, n = type_of(a).shape
    if m < n:
        return _singular_values(swapped(a))
    if not n:
        return zeros(TensorType((*batch, 0), real_dtype(type_of(a).dtype)))
    small, largest = _scaled(a)
    s = _lengths(_orthogonalized(small, compute_v=False)[0])
    (ascending,) = ops.sort(ops.neg(s), dimension=len(batch), num_keys=1, is_stable=True)
    return _or_nan(_is_finite(s), ops.mul(ops.neg(ascending), _of_member(largest, s)))


def _singular(a: ir.Value, full_matrices: bool = False) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The singular values, U and V^H."""
    type_ = type_of(a)
    *batch, m, n = type_.shape
    if m < n:
        s, u, vh = _singular(adjoint(a), full_matrices)
        return s, adjoint(vh), adjoint(u)
    count = m if full_matrices else n
    if not n:
        u, vh = (identity(type_.with_shape((*batch, *size))) for size in ((m, count), (0, 0)))
        return zeros(TensorType((*batch, 0), real_dtype(type_.dtype))), u, vh
    small, largest = _scaled(a)
    w, v = _orthogonalized(small)
    s = _lengths(w)
    s, w, v = _in_order(ops.neg(s), s, w, v)
    finite = _is_finite(s)
    u = _orthonormal(w, count)
    s = ops.mul(s, _of_member(largest, s))
    return _or_nan(finite, s), _or_nan(finite, u), _or_nan(finite, adjoint(v))


def _svd(inst: Instance) -> Sequence[ir.Value]:
    if not inst.params["compute_uv"]:
        return [_singular_values(inst.operand)]
    return _singular(inst.operand, inst.params["full_matrices"])


def _pinv(inst: Instance) -> list[ir.Value]:
    a, rtol = inst.operands
    if not inst.operand_types[0].size:
        return [zeros(inst.type)]
    s, u, vh = _singular(a)
    least = ops.mul(_of_member(rtol, s), _of_member(_first(s), s))
    small = ops.le(s, least)
    one = full_like(s, 1)
    inverse = ops.select(small, full_like(s, 0), ops.div(one, ops.select(small, one, s)))
    v = adjoint(vh)
    return [matmul(ops.mul(v, as_rows(inverse, type_of(v))), adjoint(u))]


def _first(s: ir.Value) -> ir.Value:
    shape = type_of(s).shape
    return reshape(slice_along(s, len(shape) - 1, 0, 1), shape[:-1])


def _cofactors(inst: Instance) -> list[ir.Value]:
    """The cofactors from products of all singular values but one, which works for any rank."""
    a = inst.operand
    if not inst.type.size:
        return [a]
    s, u, vh = _singular(a)
    phase = ops.mul(_determinant(u), _determinant(vh))
    rank = type_of(s).rank
    ones = full(type_of(s).with_shape((*type_of(s).shape[:-1], 1)), 1)
    n = inst.type.shape[-1]
    products = []
    for reverse in (False, True):
        kept = slice_along(s, rank - 1, 1, n) if reverse else slice_along(s, rank - 1, 0, n - 1)
        parts = (kept, ones) if reverse else (ones, kept)
        joined = ops.concatenate(*parts, dimension=rank - 1)
        products.append(ops.cumprod(joined, axis=rank - 1, reverse=reverse))
    others = ops.mul(*products)
    weighted = ops.mul(conjugated(u), as_rows(others, type_of(u)))
    product = matmul(weighted, conjugated(vh))
    return [ops.mul(_of_member(phase, product), product)]


def _determinant(a: ir.Value) -> ir.Value:
    pivots, parity = pivots_and_parity(a)
    return ops.mul(parity, ops.reduce_prod(pivots, axes=(type_of(pivots).rank - 1,)))


# ------------------------------------------------------------------------------------ eigenvalues


def _eigvalsh(inst: Instance) -> list[ir.Value]:
    return _eigh(inst)[1:]


def _eigh(inst: Instance) -> list[ir.Value]:
    type_ = inst.operand_types[0]
    if not type_.shape[-1]:
        return [zeros(type_), zeros(TensorType(type_.shape[:-1], real_dtype(type_.dtype)))]
    a = inst.operand if inst.params["lower"] else adjoint(inst.operand)
    below = lower_triangle(a, -1)
    a = ops.add(below, adjoint(below))
    on_diagonal = as_columns(real_part(diagonal(inst.operand)), type_)
    a = ops.add(a, ops.mul(on_diagonal, identity(type_)))
    a, largest = _scaled(a)
    # Eigenvalues are bounded by the largest sum of magnitudes of a row, and by the Frobenius norm.
    last = type_.rank - 1
    sums = ops.reduce_max(ops.reduce_sum(ops.abs(a), axes=(last,)), axes=(last - 1,))
    bound = ops.min(sums, ops.sqrt(ops.reduce_sum(squares(a), axes=(last - 1, last))))
    shift = as_columns(_repeated_bound(bound, type_), type_)
    _, v = _orthogonalized(ops.add(a, ops.mul(shift, identity(type_))))
    values = ops.reduce_sum(real_part(ops.mul(conjugated(v), matmul(a, v))), axes=(last - 1,))
    values, v = _in_order(values, values, v)
    finite = _is_finite(values)
    values = ops.mul(values, _of_member(largest, values))
    return [_or_nan(finite, v), _or_nan(finite, values)]


def _repeated_bound(bound: ir.Value, type_: TensorType) -> ir.Value:
    """1.5 times the bound, repeated for each row."""
    each = TensorType(type_.shape[:-1], real_dtype(type_.dtype))
    return _of_member(scale(bound, 1.5), full(each, 0))


RULES: dict[str, Rule] = {
    "gnomon.svd": _svd,
    "gnomon.pinv": _pinv,
    "gnomon.cofactors": _cofactors,
    "gnomon.eigh": _eigh,
    "gnomon.eigvalsh": _eigvalsh,
}
