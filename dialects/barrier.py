"""``gnomon.optimization_barrier``: an identity that the compiler may not optimize across."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.combinators import Tangents, Values, stablehlo
from gnomon.dialects.contract import Instance, MappedAxis, Op
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, linear
from gnomon.dialects.types import TensorType


def _infer(*types: TensorType) -> tuple[TensorType, ...]:
    return types


def _evaluate(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return arrays


def _with_barrier(values: Tangents) -> list[ir.Value | None]:
    """Put a barrier around the values that are not symbolic zeros."""
    given = [v for v in values if v is not None]
    barred = iter(optimization_barrier.build(given, {}) if given else ())
    return [None if v is None else next(barred) for v in values]


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    wanted = [ct if keep else None for ct, keep in zip(cotangents, linear, strict=True)]
    return _with_barrier(wanted)


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], Sequence[int | None]]:
    return inst.op.build(operands, {}), dims


optimization_barrier = Op(
    name="optimization_barrier",
    doc="the operands unchanged; all are computed before any use of the results, "
    "and the compiler does not optimize across the op",
    example='%y = "gnomon.optimization_barrier"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
    results=None,
    form=Form.IDENTITY,
    stablehlo=("optimization_barrier",),
    work=work_rules.nothing,
    infer=_infer,
    evaluate=_evaluate,
    jvp=lambda inst, outs, tangents: _with_barrier(tangents),
    linear=linear(),
    transpose=_transpose,
    batch=_batch,
    sharding=sharding_rules.each_operand,
    lower=lambda inst: stablehlo("optimization_barrier", inst.operands, inst.result_types),
)

__all__ = ["optimization_barrier"]
