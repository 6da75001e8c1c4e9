"""``gnomon.inspect_sharding``: report the sharding of a value to Python.

Like a callback, the op refers to a Python object by number: the `Callback` whose function is called
with the sharding as soon as the sharding is known, before the program runs. Lowering drops the op.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INT
from gnomon.dialects.combinators import Values
from gnomon.dialects.contract import NOT_LINEAR, ZERO_TANGENT, Instance, MappedAxis, Op
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType


def _infer(x: TensorType, *, callback: int) -> tuple[TensorType, ...]:
    return ()


def _evaluate(x: np.ndarray, *, callback: int) -> tuple[()]:
    return ()


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], Sequence[int | None]]:
    inst.op.build(operands, inst.params)
    return [], []


inspect_sharding = Op(
    name="inspect_sharding",
    doc="call a Python function with the sharding of the operand, before the program runs",
    example='"gnomon.inspect_sharding"(%x) {callback = 0 : i64} : (tensor<4xf32>) -> ()',
    attributes={"callback": INT},
    operands=("x",),
    results=0,
    effects=True,
    form=Form.IDENTITY,
    work=work_rules.nothing,
    infer=_infer,
    evaluate=_evaluate,
    jvp=ZERO_TANGENT,
    transpose=NOT_LINEAR,
    batch=_batch,
    lower=lambda inst: [],
    sharding=sharding_rules.each_operand,
)

__all__ = ["inspect_sharding"]
