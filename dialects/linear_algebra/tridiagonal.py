"""``tridiagonal_solve``, and the reductions ``hessenberg`` and ``tridiagonal``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import BOOL
from gnomon.dialects.combinators import Tangents, Values, require, require_dtype
from gnomon.dialects.contract import NO_DERIVATIVE, NOT_LINEAR, Instance, MappedAxis, Op
from gnomon.dialects.emit import add_tangents, ops, slice_along, zeros
from gnomon.dialects.linear_algebra import reflectors
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import (
    MATRIX_DTYPES,
    as_columns,
    batch_leading,
    check_matrix,
    check_square,
    concatenate_rows,
    fold_into_columns,
    rows,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, real_dtype, type_of

# ------------------------------------------------------------------------------ tridiagonal_solve


def _infer_solve(dl: TensorType, d: TensorType, du: TensorType, b: TensorType) -> TensorType:
    name = "tridiagonal_solve"
    require_dtype(name, d, MATRIX_DTYPES)
    size, _ = check_matrix(name, b)
    require(
        dl == d == du == TensorType((*b.shape[:-2], size), b.dtype),
        name,
        "takes three diagonals [..., n] and right-hand sides [..., n, k] of one dtype, got "
        f"{dl}, {d}, {du} and {b}",
    )
    return b


def _evaluate_solve(dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Eliminate with row swaps, as LAPACK's gtsv, for all members of a batch at once."""
    *batch, n, k = b.shape
    if not b.size:
        return b
    count = math.prod(batch)
    lower, diagonal, upper = (x.reshape(count, n).copy() for x in (dl, d, du))
    x = b.reshape(count, n, k).copy()
    upper[:, -1] = 0
    second = np.zeros_like(upper)
    for i in range(n - 1):
        here, below = diagonal[:, i].copy(), lower[:, i + 1]
        swap = np.abs(below) > np.abs(here)
        pivot, other = np.where(swap, below, here), np.where(swap, here, below)
        factor = other / np.where(pivot == 0, 1, pivot)
        next_diagonal, next_upper = diagonal[:, i + 1].copy(), upper[:, i + 1].copy()
        here_upper = upper[:, i].copy()
        diagonal[:, i] = pivot
        upper[:, i] = np.where(swap, next_diagonal, here_upper)
        second[:, i] = np.where(swap, next_upper, 0)
        diagonal[:, i + 1] = np.where(
            swap, here_upper - factor * next_diagonal, next_diagonal - factor * here_upper
        )
        upper[:, i + 1] = np.where(swap, -factor * next_upper, next_upper)
        first, following = x[:, i].copy(), x[:, i + 1].copy()
        swap_rows, factors = swap[:, None], factor[:, None]
        x[:, i] = np.where(swap_rows, following, first)
        x[:, i + 1] = np.where(swap_rows, first, following) - factors * x[:, i]
    for i in reversed(range(n)):
        if i + 1 < n:
            x[:, i] -= upper[:, i, None] * x[:, i + 1]
        if i + 2 < n:
            x[:, i] -= second[:, i, None] * x[:, i + 2]
        x[:, i] /= diagonal[:, i, None]
    x[(diagonal == 0).any(-1)] = np.nan
    return x.reshape(b.shape)


def _shifted(x: ir.Value, up: bool) -> ir.Value:
    """Shift rows by one and insert a row of zeros; ``up`` moves row ``i`` to row ``i - 1``."""
    type_ = type_of(x)
    n = type_.shape[-2]
    zero = zeros(type_.with_shape((*type_.shape[:-2], 1, type_.shape[-1])))
    return (
        concatenate_rows(rows(x, 1, n), zero) if up else concatenate_rows(zero, rows(x, 0, n - 1))
    )


def _jvp_solve(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """``dX = T^-1 (dB - dT X)`` for ``T X = B``."""
    (x,) = outs
    dl, d, du, rhs = tangents
    type_ = type_of(x)
    if type_.shape[-2]:
        terms = ((dl, _shifted(x, up=False)), (d, x), (du, _shifted(x, up=True)))
        for tangent, neighbour in terms:
            if tangent is not None:
                product = ops.mul(as_columns(tangent, type_), neighbour)
                rhs = add_tangents(rhs, ops.neg(product))
    return [None if rhs is None else ops.tridiagonal_solve(*inst.operands[:3], rhs)]


def _transpose_solve(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (cotangent,) = cotangents
    if cotangent is None:
        return [None] * 4
    dl, d, du, _ = inst.operands
    type_ = type_of(d)
    n, last = type_.shape[-1], type_.rank - 1
    if n:
        zero = zeros(type_.with_shape((*type_.shape[:-1], 1)))
        below = ops.concatenate(zero, slice_along(du, last, 0, n - 1), dimension=last)
        above = ops.concatenate(slice_along(dl, last, 1, n), zero, dimension=last)
        dl, du = below, above
    return [None, None, None, ops.tridiagonal_solve(dl, d, du, cotangent)]


def _batch_solve(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    if any(d is not None for d in dims[:3]):
        return batch_leading(inst, operands, dims, axis)
    dim = dims[3]
    assert dim is not None
    diagonals = operands[:3]
    solved = fold_into_columns(operands[3], dim, lambda rhs: ops.tridiagonal_solve(*diagonals, rhs))
    return [solved], [0]


tridiagonal_solve = Op(
    name="tridiagonal_solve",
    doc="the x with t x = b for the tridiagonal matrix t; dl[0] and du[-1] are not read; nan if t "
    "is singular",
    example='%r = "gnomon.tridiagonal_solve"(%dl, %d, %du, %b) '
    ": (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>",
    operands=("dl", "d", "du", "b"),
    infer=_infer_solve,
    evaluate=_evaluate_solve,
    jvp=_jvp_solve,
    transpose=_transpose_solve,
    batch=_batch_solve,
    lower=on_host,
)


# ------------------------------------------------------------------------------------- reductions


def _infer_hessenberg(a: TensorType) -> tuple[TensorType, TensorType]:
    size = check_square("hessenberg", a)
    return a, a.with_shape((*a.shape[:-2], max(size - 1, 0)))


hessenberg = Op(
    name="hessenberg",
    doc="the Hessenberg form with Householder vectors below its subdiagonal, and their factors",
    example='%h, %taus = "gnomon.hessenberg"(%a) '
    ": (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<2xf32>)",
    operands=("a",),
    results=2,
    infer=_infer_hessenberg,
    evaluate=reflectors.to_hessenberg,
    jvp=NO_DERIVATIVE,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)


def _infer_tridiagonal(a: TensorType, *, lower: bool) -> tuple[TensorType, ...]:
    size = check_square("tridiagonal", a)
    batch, real = a.shape[:-2], real_dtype(a.dtype)
    beside = (*batch, max(size - 1, 0))
    return a, TensorType((*batch, size), real), TensorType(beside, real), a.with_shape(beside)


def _evaluate_tridiagonal(a: np.ndarray, *, lower: bool) -> tuple[np.ndarray, ...]:
    if lower:
        return reflectors.to_tridiagonal(a)
    # With rows and columns reversed, the upper triangle is a lower one.
    packed, *others = reflectors.to_tridiagonal(a[..., ::-1, ::-1])
    return packed[..., ::-1, ::-1], *(x[..., ::-1] for x in others)


tridiagonal = Op(
    name="tridiagonal",
    doc="the tridiagonal form of Hermitian matrices with Householder vectors outside of it, its "
    "diagonal, its off-diagonal, and the factors of the reflectors; reads one triangle",
    example='%t, %d, %e, %taus = "gnomon.tridiagonal"(%a) {lower = true} : (tensor<3x3xf32>) '
    "-> (tensor<3x3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>)",
    attributes={"lower": BOOL},
    operands=("a",),
    results=4,
    infer=_infer_tridiagonal,
    evaluate=_evaluate_tridiagonal,
    jvp=NO_DERIVATIVE,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)
