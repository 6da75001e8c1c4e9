"""``gnomon.composite``: a named operation that is defined by its body.

A compiler that knows the name may use a better implementation than the body. No backend of gnomon
does: the op is replaced by its body before it is lowered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INT, STRING
from gnomon.dialects.body import Body
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import EXPANDED, Instance, MappedAxis, Op
from gnomon.dialects.control_flow.bodies import (
    check_arguments,
    evaluate_body,
    in_front,
    inline_body,
    transpose_body,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import BODIES, Form
from gnomon.dialects.types import TensorType


def _infer(
    *types: TensorType,
    consts: int,
    name: str,
    version: int,
    keywords: str,
    bodies: Sequence[Body],
) -> tuple[TensorType, ...]:
    require(
        0 <= consts <= len(types),
        "composite",
        f"consts is {consts}, but the op has {len(types)} operands",
    )
    check_arguments("composite", "decomposition", types, bodies[0].argument_types, "its operands")
    return tuple(bodies[0].result_types)


def _no_derivative(inst: Instance, tangents: Tangents) -> NoReturn:
    raise ValueError(
        f"the composite {inst.params['name']} has no derivative: it represents an operation that "
        "a compiler may replace. Wrap it in custom_jvp or custom_vjp"
    )


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    """Inline the batched body: the name denotes the operation on one element."""
    body, out = inst.engine.batch(inst.bodies[0], [d is not None for d in dims], axis)
    results = body.inline(in_front(operands, dims))
    return list(results), [0 if mapped else None for mapped in out]


_EXAMPLE = """\
%y = "gnomon.composite"(%x) ({
^bb0(%a: tensor<f32>):
  %sine = "gnomon.sin"(%a) : (tensor<f32>) -> tensor<f32>
  %cosine = "gnomon.cos"(%a) : (tensor<f32>) -> tensor<f32>
  %quotient = "gnomon.div"(%sine, %cosine) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  "gnomon.yield"(%quotient) : (tensor<f32>) -> ()
}) {consts = 0 : i64, name = "my.tangent", version = 0 : i64, keywords = "{}"}
    : (tensor<f32>) -> tensor<f32>"""


composite = Op(
    name="composite",
    doc="a named operation that is defined by its body",
    example=_EXAMPLE,
    attributes={"consts": INT, "name": STRING, "version": INT, "keywords": STRING},
    results=None,
    regions=("decomposition",),
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer,
    evaluate=evaluate_body,
    jvp=_no_derivative,
    linearize=_no_derivative,
    linear=BODIES,
    transpose=transpose_body,
    batch=_batch,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
    inline=inline_body,
)

__all__ = ["composite"]
