"""``cholesky``: factor a positive definite matrix into a triangular one and its adjoint."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import BOOL
from gnomon.dialects.combinators import Tangents, Values, lowered, stablehlo
from gnomon.dialects.contract import NOT_LINEAR, Instance, Op
from gnomon.dialects.emit import ops, scale
from gnomon.dialects.linear_algebra import flops
from gnomon.dialects.linear_algebra.matrices import (
    batch_leading,
    check_square,
    lower_triangle,
    matmul,
    on_diagonal,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, type_of
from gnomon_runtime.linear_algebra import factorizations


def _infer(a: TensorType) -> TensorType:
    check_square("cholesky", a)
    return a


def _jvp(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value]:
    """``dL = L phi(L^-1 dA L^-H)``, phi the lower triangle with half the diagonal (Murray 2016)."""
    (factor,), (da,) = outs, tangents
    right = ops.triangular_solve(
        factor,
        da,
        left_side=False,
        lower=True,
        transpose_a=True,
        conjugate_a=True,
        unit_diagonal=False,
    )
    both = ops.triangular_solve(
        factor,
        right,
        left_side=True,
        lower=True,
        transpose_a=False,
        conjugate_a=False,
        unit_diagonal=False,
    )
    half = ops.select(on_diagonal(type_of(both)), scale(both, 0.5), both)
    return [matmul(factor, lower_triangle(half))]


def _lower(inst: Instance) -> Sequence[ir.Value]:
    (factor,) = stablehlo("cholesky", inst.operands, inst.result_types, lower=BOOL.encode(True))
    # StableHLO does not define the other triangle.
    type_ = inst.type
    rows, columns = (
        lowered.iota(dtype=np.dtype(np.int32), shape=type_.shape, dimension=d)
        for d in (type_.rank - 2, type_.rank - 1)
    )
    return [lowered.select(lowered.ge(rows, columns), factor, lowered.full_like(factor, 0))]


cholesky = Op(
    name="cholesky",
    doc="the lower triangular L with L L^H = a; reads the lower triangle; nan if a is not positive "
    "definite",
    example='%r = "gnomon.cholesky"(%a) : (tensor<3x3xf32>) -> tensor<3x3xf32>',
    operands=("a",),
    form=Form.MATRIX,
    stablehlo=("cholesky",),
    work=flops.cholesky,
    infer=_infer,
    evaluate=factorizations.cholesky,
    jvp=_jvp,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=_lower,
)
