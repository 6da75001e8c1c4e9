"""``pinv``: the Moore-Penrose inverse, with a derivative that needs no singular vectors."""

from __future__ import annotations

from gnomon.dialects import sharding_rules
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import NOT_LINEAR, Instance, Op
from gnomon.dialects.emit import ops
from gnomon.dialects.linear_algebra import flops
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import (
    adjoint,
    batch_leading,
    check_matrix,
    matmul,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import surely_at_most
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, real_dtype, type_of
from gnomon_runtime.linear_algebra import factorizations


def _infer(a: TensorType, rtol: TensorType) -> TensorType:
    m, n = check_matrix("pinv", a)
    require(
        rtol == TensorType(a.shape[:-2], real_dtype(a.dtype)),
        "pinv",
        f"the tolerance must be one real number for each matrix of {a}, got {rtol}",
    )
    return a.with_shape((*a.shape[:-2], n, m))


def _jvp(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """The jvp for constant rank (Golub & Pereyra 1973); the tolerance only determines the rank.

    ``dP = -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P``
    """
    (p,), da, a = outs, tangents[0], inst.operands[0]
    if da is None:
        return [None]
    moved, conjugate = adjoint(da), adjoint(p)
    direct = _product(p, da, p)
    rows = _product(p, conjugate, moved)
    columns = _product(moved, conjugate, p)
    outside_rows = ops.sub(rows, _product(rows, a, p))
    outside_columns = ops.sub(columns, _product(p, a, columns))
    return [ops.sub(ops.add(outside_rows, outside_columns), direct)]


def _product(x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """A product of matrices whose outer ones have one shape: the smaller square one comes first."""
    rows, columns = type_of(x).shape[-2:]
    if surely_at_most(rows, columns):
        return matmul(matmul(x, y), z)
    return matmul(x, matmul(y, z))


pinv = Op(
    name="pinv",
    doc="the pseudoinverse; singular values up to rtol times the largest count as zero",
    example='%r = "gnomon.pinv"(%a, %rtol) : (tensor<4x3xf32>, tensor<f32>) -> tensor<3x4xf32>',
    operands=("a", "rtol"),
    form=Form.MATRIX,
    work=flops.pseudoinverse,
    infer=_infer,
    evaluate=factorizations.pinv,
    jvp=_jvp,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)
