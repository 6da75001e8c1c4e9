"""``svd``: singular values and singular vectors."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import BOOL
from gnomon.dialects.combinators import Tangents, Values
from gnomon.dialects.contract import NOT_LINEAR, Instance, Op
from gnomon.dialects.emit import convert, full_like, ops, scale, zeros
from gnomon.dialects.linear_algebra import flops
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import (
    adjoint,
    as_columns,
    as_rows,
    batch_leading,
    check_matrix,
    diagonal,
    inverse_gaps,
    matmul,
    on_diagonal,
    real_part,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, real_dtype, type_of
from gnomon_runtime.linear_algebra import factorizations


def _infer(a: TensorType, *, full_matrices: bool, compute_uv: bool) -> tuple[TensorType, ...]:
    m, n = check_matrix("svd", a)
    batch, k = a.shape[:-2], min(m, n)
    values = TensorType((*batch, k), real_dtype(a.dtype))
    if not compute_uv:
        return (values,)
    left, right = (m, n) if full_matrices else (k, k)
    return values, a.with_shape((*batch, m, left)), a.with_shape((*batch, right, n))


def _jvp(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value]:
    """The jvp from ``dP = U^H dA V`` (Giles 2008).

    Its diagonal gives the tangents of the values, the other elements those of the vectors.
    """
    (a,), (da,) = inst.operands, tangents
    m, n = inst.operand_types[0].shape[-2:]
    params = inst.params
    if not params["compute_uv"]:
        _, u, vh = ops.svd(a, full_matrices=False, compute_uv=True)
        return [real_part(diagonal(matmul(matmul(adjoint(u), da), adjoint(vh))))]
    if params["full_matrices"] and m != n:
        raise NotImplementedError(
            "the derivative of svd with full_matrices=True is not defined for a matrix that is "
            f"not square, got {inst.operand_types[0]}; use full_matrices=False"
        )
    s, u, vh = outs
    v = adjoint(vh)
    inner = matmul(matmul(adjoint(u), da), v)
    type_ = type_of(inner)
    ds = real_part(diagonal(inner))
    # 1 / (s_j^2 - s_i^2), computed as a product so that close values do not cancel.
    square_gaps = ops.div(inverse_gaps(s, type_), _sums(s, type_))
    by_row, by_column = ops.mul(as_rows(s, type_), inner), ops.mul(as_columns(s, type_), inner)
    turn_u = ops.mul(square_gaps, ops.add(by_row, adjoint(by_row)))
    turn_v = ops.mul(square_gaps, ops.add(by_column, adjoint(by_column)))
    # Each pair of complex vectors has a free phase: keep that of V fixed, which determines U.
    phase = scale(ops.sub(inner, adjoint(inner)), 0.5)
    turn_u = ops.add(turn_u, ops.mul(phase, _inverse_on_diagonal(s, type_)))
    du, dv = matmul(u, turn_u), matmul(v, turn_v)
    if m > n:
        du = ops.add(du, _outside(u, matmul(da, v), s))
    if n > m:
        dv = ops.add(dv, _outside(v, matmul(adjoint(da), u), s))
    return [ds, du, adjoint(dv)]


def _narrow(inst: Instance, used: Sequence[bool]) -> list[ir.Value] | None:
    if not used[0] or any(used[1:]):
        return None
    return inst.op.build(inst.operands, {**inst.params, "compute_uv": False})


def _sums(s: ir.Value, type_: TensorType) -> ir.Value:
    """``s[i] + s[j]`` off the diagonal, 1 on it."""
    sums = ops.add(as_rows(s, type_), as_columns(s, type_))
    return ops.select(on_diagonal(type_), full_like(sums, 1), sums)


def _inverse_on_diagonal(s: ir.Value, type_: TensorType) -> ir.Value:
    """``diag(1 / s)``, with 0 for the inverse of 0."""
    vanish = ops.eq(s, zeros(type_of(s)))
    one = full_like(s, 1)
    inverse = ops.select(vanish, zeros(type_of(s)), ops.div(one, ops.select(vanish, one, s)))
    return ops.select(on_diagonal(type_), as_rows(inverse, type_), zeros(type_))


def _outside(vectors: ir.Value, moved: ir.Value, s: ir.Value) -> ir.Value:
    """The part of ``moved`` orthogonal to the vectors, with columns divided by singular values."""
    inside = matmul(vectors, matmul(adjoint(vectors), moved))
    type_ = type_of(moved)
    return ops.div(ops.sub(moved, inside), convert(as_rows(s, type_), type_.dtype))


_EXAMPLE = """\
%factors = "gnomon.svd"(%a) {full_matrices = false, compute_uv = true}
    : (tensor<4x3xf32>) -> tuple<tensor<3xf32>, tensor<4x3xf32>, tensor<3x3xf32>>
%s, %u, %vh = builtin.unrealized_conversion_cast %factors
    : tuple<tensor<3xf32>, tensor<4x3xf32>, tensor<3x3xf32>>
    to tensor<3xf32>, tensor<4x3xf32>, tensor<3x3xf32>"""


svd = Op(
    name="svd",
    doc="singular values in descending order, and U and V^H with a = U diag(s) V^H",
    example=_EXAMPLE,
    attributes={"full_matrices": BOOL, "compute_uv": BOOL},
    operands=...,
    results=None,
    form=Form.MATRIX,
    work=flops.svd,
    infer=_infer,
    evaluate=factorizations.svd,
    jvp=_jvp,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    narrow=_narrow,
    lower=on_host,
)
