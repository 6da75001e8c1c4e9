"""``qr``, and its two halves ``geqrf`` and ``householder_product``."""

from __future__ import annotations

import numpy as np

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import BOOL
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import NO_DERIVATIVE, NOT_LINEAR, Instance, Op
from gnomon.dialects.emit import ops, take, zeros
from gnomon.dialects.linear_algebra import flops
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import (
    adjoint,
    batch_leading,
    check_matrix,
    columns,
    concatenate_columns,
    concatenate_rows,
    identity,
    lower_triangle,
    matmul,
    on_diagonal,
    real_only,
    rows,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, type_of
from gnomon_runtime.linear_algebra import factorizations, reflectors

# ------------------------------------------------------------------------------------ reflectors


def _infer_geqrf(a: TensorType) -> tuple[TensorType, TensorType]:
    m, n = check_matrix("geqrf", a)
    return a, a.with_shape((*a.shape[:-2], min(m, n)))


geqrf = Op(
    name="geqrf",
    doc="R with Householder vectors below its diagonal, and their factors: LAPACK's geqrf",
    example='%a, %taus = "gnomon.geqrf"(%x) '
    ": (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)",
    operands=("x",),
    results=2,
    form=Form.MATRIX,
    work=flops.householder,
    infer=_infer_geqrf,
    evaluate=factorizations.geqrf,
    jvp=NO_DERIVATIVE,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)


def _infer_product(a: TensorType, taus: TensorType) -> TensorType:
    m, n = check_matrix("householder_product", a)
    require(m >= n, "householder_product", f"takes matrices with rows >= columns, got {a}")
    require(
        taus.dtype == a.dtype
        and taus.shape[:-1] == a.shape[:-2]
        and taus.rank == a.rank - 1
        and taus.shape[-1] <= n,
        "householder_product",
        f"the factors of {a} must be of its dtype and of shape "
        f"{(*a.shape[:-2], 'k')} with k <= {n}, got {taus}",
    )
    return a


householder_product = Op(
    name="householder_product",
    doc="the first columns of the product of reflectors I - tau v v^H: LAPACK's orgqr",
    example='%q = "gnomon.householder_product"(%a, %taus) '
    ": (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>",
    operands=("a", "taus"),
    form=Form.MATRIX,
    work=flops.householder,
    infer=_infer_product,
    evaluate=reflectors.product,
    jvp=NO_DERIVATIVE,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)


# -------------------------------------------------------------------------------------------- qr


def _infer_qr(a: TensorType, *, full_matrices: bool, pivoting: bool) -> tuple[TensorType, ...]:
    m, n = check_matrix("qr", a)
    k = m if full_matrices else min(m, n)
    batch = a.shape[:-2]
    factors = (a.with_shape((*batch, m, k)), a.with_shape((*batch, k, n)))
    if not pivoting:
        return factors
    return *factors, TensorType((*batch, n), np.dtype(np.int32))


def _jvp_thin(q: ir.Value, r: ir.Value, da: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The jvp for square R: ``Q^H dA R^-1 = Q^H dQ + dR R^-1``, skew-Hermitian plus triangular."""
    scaled = ops.triangular_solve(
        r,
        da,
        left_side=False,
        lower=False,
        transpose_a=False,
        conjugate_a=False,
        unit_diagonal=False,
    )
    inner = matmul(adjoint(q), scaled)
    strict = lower_triangle(inner, -1)
    skew = ops.sub(strict, adjoint(strict))
    # The diagonal of R stays real, so the imaginary part of the diagonal belongs to dQ.
    imaginary = ops.sub(inner, real_only(inner))
    skew = ops.select(on_diagonal(type_of(inner)), imaginary, skew)
    rest = ops.sub(inner, skew)
    return ops.add(matmul(q, ops.sub(skew, inner)), scaled), matmul(rest, r)


def _jvp_complement(q: ir.Value, dq: ir.Value, n: int) -> ir.Value:
    """The tangent of the columns of a full Q beyond the first ``n``.

    LAPACK computes them from the reflectors of the first columns alone, as ``[Y; I + Z Y] ...``.
    With ``Q = [[Qn, *], [Qp, *]]``, they depend on ``Z = Qp (Qn - I)^-1``. See arXiv:2409.13374,
    equation 32.
    """
    m = type_of(q).shape[-2]
    first, others = columns(q, 0, n), columns(q, n, m)
    top, bottom = rows(first, 0, n), rows(first, n, m)
    shifted = ops.sub(top, identity(type_of(top)))
    # Z^H = (Qn - I)^-H Qp^H
    z_adjoint = ops.solve(adjoint(shifted), adjoint(bottom), transpose_a=False)
    z = adjoint(z_adjoint)
    d_top, d_bottom = rows(dq, 0, n), rows(dq, n, m)
    moved = adjoint(ops.sub(d_bottom, matmul(z, d_top)))
    carried = matmul(ops.add(first, matmul(others, z)), moved)
    return ops.sub(matmul(dq, z_adjoint), carried)


def _jvp_qr(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    q, r = outs[:2]
    (da,) = tangents
    a = inst.operand
    m, n = type_of(a).shape[-2:]
    no_tangents: list[None] = []
    if inst.params["pivoting"]:
        da, a = permuted_columns(da, outs[2]), permuted_columns(a, outs[2])
        no_tangents = [None]
    if m < n:
        # A = [A1 A2] = Q [R1 R2]: A1 gives Q, and R2 = Q^H A2.
        dq, dr1 = _jvp_thin(q, columns(r, 0, m), columns(da, 0, m))
        dr2 = ops.add(matmul(adjoint(dq), columns(a, m, n)), matmul(adjoint(q), columns(da, m, n)))
        return [dq, concatenate_columns(dr1, dr2), *no_tangents]
    if m == n or not inst.params["full_matrices"]:
        return [*_jvp_thin(q, r, da), *no_tangents]
    dq, dr = _jvp_thin(columns(q, 0, n), rows(r, 0, n), da)
    below = zeros(type_of(r).with_shape((*type_of(r).shape[:-2], m - n, n)))
    return [
        concatenate_columns(dq, _jvp_complement(q, dq, n)),
        concatenate_rows(dr, below),
        *no_tangents,
    ]


def permuted_columns(x: ir.Value, permutation: ir.Value) -> ir.Value:
    """Permute the columns of each matrix of a batch by its own permutation."""
    type_ = type_of(x)
    batch = range(type_.rank - 2)
    return take(x, permutation, type_.rank - 1, batch, mode="clip", unique=True)


_EXAMPLE_QR = """\
%factors = "gnomon.qr"(%a) {full_matrices = false, pivoting = false}
    : (tensor<4x3xf32>) -> tuple<tensor<4x3xf32>, tensor<3x3xf32>>
%q, %r = builtin.unrealized_conversion_cast %factors
    : tuple<tensor<4x3xf32>, tensor<3x3xf32>> to tensor<4x3xf32>, tensor<3x3xf32>"""


qr = Op(
    name="qr",
    doc="Q with orthonormal columns and the upper triangular R with Q R = a; with pivoting, Q R = "
    "a[:, permutation], and the permutation is the third result",
    example=_EXAMPLE_QR,
    attributes={"full_matrices": BOOL, "pivoting": BOOL},
    operands=...,
    results=None,
    form=Form.MATRIX,
    work=flops.qr,
    infer=_infer_qr,
    evaluate=factorizations.qr,
    jvp=_jvp_qr,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)
