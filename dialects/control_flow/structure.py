"""The parts of region ops: ``gnomon.yield`` ends a body, ``gnomon.branch`` holds one of several.

They mean nothing alone: every facet is the business of the op that holds them.
"""

from __future__ import annotations

from typing import Any

from gnomon.dialects.contract import STRUCTURE, Op
from gnomon.dialects.types import TensorType


def _no_results(*types: TensorType, **params: Any) -> tuple[TensorType, ...]:
    return ()


yield_ = Op(
    name="yield",
    doc="end a body and give its results to the op that holds it",
    example='"gnomon.yield"(%x, %y) : (tensor<f32>, tensor<f32>) -> ()',
    results=0,
    terminator=True,
    infer=_no_results,
    evaluate=STRUCTURE,
    jvp=STRUCTURE,
    transpose=STRUCTURE,
    batch=STRUCTURE,
    lower=STRUCTURE,
)

branch = Op(
    name="branch",
    doc="hold the body of one branch of a switch",
    example='"gnomon.branch"() ({ ^bb0(%x: tensor<f32>): "gnomon.yield"(%x) : '
    "(tensor<f32>) -> () }) : () -> ()",
    operands=(),
    results=0,
    regions=("body",),
    infer=_no_results,
    evaluate=STRUCTURE,
    jvp=STRUCTURE,
    transpose=STRUCTURE,
    batch=STRUCTURE,
    lower=STRUCTURE,
)

__all__ = ["branch", "yield_"]
