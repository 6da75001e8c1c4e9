"""``tridiagonal_solve``, and the reductions ``hessenberg`` and ``tridiagonal``."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import BOOL
from gnomon.dialects.combinators import Tangents, Values, require, require_dtype
from gnomon.dialects.contract import NO_DERIVATIVE, NOT_LINEAR, Instance, MappedAxis, Op
from gnomon.dialects.emit import add_tangents, ops, slice_along, zeros
from gnomon.dialects.linear_algebra import flops
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
from gnomon.dialects.traits import Form, multilinear
from gnomon.dialects.types import TensorType, real_dtype, type_of
from gnomon_runtime.linear_algebra import factorizations, reflectors, systems

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
    form=Form.MATRIX,
    work=flops.tridiagonal_solve,
    infer=_infer_solve,
    evaluate=systems.tridiagonal_solve,
    jvp=_jvp_solve,
    linear=multilinear(3),
    transpose=_transpose_solve,
    batch=_batch_solve,
    sharding=sharding_rules.automatic_batch,
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
    form=Form.MATRIX,
    work=flops.hessenberg,
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
    off_diagonal = (*batch, max(size - 1, 0))
    return (
        a,
        TensorType((*batch, size), real),
        TensorType(off_diagonal, real),
        a.with_shape(off_diagonal),
    )


tridiagonal = Op(
    name="tridiagonal",
    doc="the tridiagonal form of Hermitian matrices with Householder vectors outside of it, its "
    "diagonal, its off-diagonal, and the factors of the reflectors; reads one triangle",
    example='%t, %d, %e, %taus = "gnomon.tridiagonal"(%a) {lower = true} : (tensor<3x3xf32>) '
    "-> (tensor<3x3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>)",
    attributes={"lower": BOOL},
    operands=("a",),
    results=4,
    form=Form.MATRIX,
    work=flops.tridiagonal,
    infer=_infer_tridiagonal,
    evaluate=factorizations.tridiagonal,
    jvp=NO_DERIVATIVE,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)
