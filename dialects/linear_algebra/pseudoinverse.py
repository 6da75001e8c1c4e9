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
from gnomon.dialects.types import TensorType, real_dtype
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
    moved = adjoint(da)
    direct = matmul(matmul(p, da), p)
    rows = matmul(matmul(p, adjoint(p)), moved)
    columns = matmul(moved, matmul(adjoint(p), p))
    outside_rows = ops.sub(rows, matmul(rows, matmul(a, p)))
    outside_columns = ops.sub(columns, matmul(matmul(p, a), columns))
    return [ops.sub(ops.add(outside_rows, outside_columns), direct)]


pinv = Op(
    name="pinv",
    doc="the pseudoinverse; singular values up to rtol times the largest count as zero",
    example='%r = "gnomon.pinv"(%a, %rtol) : (tensor<4x3xf32>, tensor<f32>) -> tensor<3x4xf32>',
    operands=("a", "rtol"),
    work=flops.pseudoinverse,
    infer=_infer,
    evaluate=factorizations.pinv,
    jvp=_jvp,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)
