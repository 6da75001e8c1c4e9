"""``pinv``: the Moore-Penrose inverse, with a derivative that needs no singular vectors."""

from __future__ import annotations

import numpy as np

from gnomon.dialects import sharding_rules
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import NOT_LINEAR, Instance, Op
from gnomon.dialects.emit import ops
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import (
    adjoint,
    batch_leading,
    by_member,
    check_matrix,
    matmul,
    nan_like,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, real_dtype


def _infer(a: TensorType, rtol: TensorType) -> TensorType:
    m, n = check_matrix("pinv", a)
    require(
        rtol == TensorType(a.shape[:-2], real_dtype(a.dtype)),
        "pinv",
        f"the tolerance must be one real number for each matrix of {a}, got {rtol}",
    )
    return a.with_shape((*a.shape[:-2], n, m))


def _evaluate(a: np.ndarray, rtol: np.ndarray) -> np.ndarray:
    *batch, m, n = a.shape
    if not a.size:
        return np.zeros((*batch, n, m), a.dtype)
    u, s, vh = by_member(
        lambda a: tuple(np.linalg.svd(a, full_matrices=False)),
        a,
        lambda: tuple(
            nan_like(shape, dtype)
            for shape, dtype in (
                ((m, min(m, n)), a.dtype),
                ((min(m, n),), real_dtype(a.dtype)),
                ((min(m, n), n), a.dtype),
            )
        ),
    )
    small = s <= rtol[..., None] * s[..., :1]
    inverse = np.where(small, 0, 1 / np.where(small, 1, s)).astype(a.dtype)
    result: np.ndarray = (vh.conj().swapaxes(-1, -2) * inverse[..., None, :]) @ (
        u.conj().swapaxes(-1, -2)
    )
    return result


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
    infer=_infer,
    evaluate=_evaluate,
    jvp=_jvp,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)
