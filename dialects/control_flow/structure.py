"""The parts of region ops: ``gnomon.yield`` ends a body, ``gnomon.branch`` holds one of several.

They have no meaning on their own: the enclosing op implements every facet.
"""

from __future__ import annotations

from typing import Any

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.contract import STRUCTURE, Op
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType


def _no_results(*types: TensorType, **params: Any) -> tuple[TensorType, ...]:
    return ()


_YIELD = """\
%sum, %product = "gnomon.checkpoint"(%x, %y) ({
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %s = "gnomon.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %p = "gnomon.mul"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  "gnomon.yield"(%s, %p) : (tensor<f32>, tensor<f32>) -> ()
}) {policy = "nothing_saveable", prevent_cse = true, differentiated = false}
    : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)"""


yield_ = Op(
    name="yield",
    doc="end a body and pass its results to the enclosing op",
    example=_YIELD,
    results=0,
    terminator=True,
    form=Form.STRUCTURE,
    work=work_rules.nothing,
    infer=_no_results,
    evaluate=STRUCTURE,
    jvp=STRUCTURE,
    transpose=STRUCTURE,
    batch=STRUCTURE,
    sharding=sharding_rules.undetermined,
    lower=STRUCTURE,
)

_BRANCH = """\
%operands = builtin.unrealized_conversion_cast %index, %x
    : tensor<i32>, tensor<f32> to tuple<tensor<i32>, tensor<f32>>
%y = "gnomon.switch"(%operands) ({
  "gnomon.branch"() ({
  ^bb0(%a: tensor<f32>):
    "gnomon.yield"(%a) : (tensor<f32>) -> ()
  }) : () -> ()
}) : (tuple<tensor<i32>, tensor<f32>>) -> tensor<f32>"""


branch = Op(
    name="branch",
    doc="hold one body of an op with any number of them, such as a branch of a switch",
    example=_BRANCH,
    operands=(),
    results=0,
    regions=("body",),
    form=Form.STRUCTURE,
    work=work_rules.nothing,
    infer=_no_results,
    evaluate=STRUCTURE,
    jvp=STRUCTURE,
    transpose=STRUCTURE,
    batch=STRUCTURE,
    sharding=sharding_rules.undetermined,
    lower=STRUCTURE,
)

__all__ = ["branch", "yield_"]
