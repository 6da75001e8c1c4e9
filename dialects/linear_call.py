"""``gnomon.linear_call``: a linear function together with its transpose.

The operands are, in order, the constants that the bodies close over, the residuals, in which the
function need not be linear, and the linear arguments. Transposing the op exchanges its two bodies.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INT, STRING
from gnomon.dialects.body import Body
from gnomon.dialects.combinators import Tangents, Values, require, to_front
from gnomon.dialects.contract import EXPANDED, Instance, MappedAxis, Op
from gnomon.dialects.control_flow.bodies import (
    check_arguments,
    evaluate_body,
    inline_body,
    instantiated,
    nonzero_mask,
    present,
    rebuild,
    split,
    spread,
)
from gnomon.dialects.custom_derivatives import raise_failure
from gnomon.dialects.emit import add_tangents
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import BODIES, Form
from gnomon.dialects.types import TensorType


def _infer(
    *types: TensorType, consts: int, residuals: int, name: str, failure: str, bodies: Sequence[Body]
) -> tuple[TensorType, ...]:
    op, fixed = "linear_call", consts + residuals
    require(len(bodies) in (1, 2), op, f"one or two bodies, got {len(bodies)}")
    check_arguments(op, "function", types, bodies[0].argument_types, "its operands")
    results = bodies[0].result_types
    if len(bodies) == 2:
        given = [*types[:fixed], *results]
        check_arguments(op, "transpose", given, bodies[1].argument_types, "constants and results")
        require(
            bodies[1].result_types == list(types[fixed:]),
            op,
            "the transpose must return values of the types of the linear operands",
        )
    return tuple(results)


def _fixed(inst: Instance) -> int:
    """The number of operands in which the function is not linear."""
    count: int = inst.params["consts"] + inst.params["residuals"]
    return count


def _apply(inst: Instance, operands: Values) -> list[ir.Value]:
    return inst.op.build(operands, inst.params, [body.clone() for body in inst.bodies])


def _differentiate(
    inst: Instance, tangents: Tangents
) -> tuple[list[ir.Value], list[ir.Value | None]]:
    constants, _ = split(inst.operands, _fixed(inst))
    of_constants, of_linear = split(tangents, len(constants))
    outs = rebuild(inst)
    found: list[ir.Value | None] = [None] * len(outs)
    if any(t is not None for t in of_linear):
        types = inst.operand_types[len(constants) :]
        found = list(
            _apply(inst, [*constants, *instantiated(of_linear, types, [True] * len(types))])
        )
    if any(t is not None for t in of_constants):
        mask = [*nonzero_mask(of_constants), *[False] * len(of_linear)]
        parts = inst.engine.linearize(inst.bodies[0], mask)
        residuals = parts.forward.inline(inst.operands)[len(outs) :]
        change = spread(
            parts.linear.inline([*residuals, *present(of_constants)]), parts.out_nonzero
        )
        found = [add_tangents(a, b) for a, b in zip(found, change, strict=True)]
    return outs, found


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    fixed, name = _fixed(inst), inst.params["name"]
    if any(linear[:fixed]):
        raise TypeError(
            f"linear_call of {name} has no transpose with respect to its residual arguments: the "
            "function is linear only in the linear arguments"
        )
    raise_failure(inst)
    seeds = instantiated(cotangents, inst.result_types, [True] * len(cotangents))
    function, transposed = inst.bodies
    found = inst.op.build(
        [*inst.operands[:fixed], *seeds], inst.params, [transposed.clone(), function.clone()]
    )
    return [
        ct if is_linear else None
        for ct, is_linear in zip([*[None] * fixed, *found], linear, strict=True)
    ]


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    fixed = _fixed(inst)
    constants = [d is not None for d in dims[:fixed]]
    front = [
        *to_front(operands[:fixed], dims[:fixed], axis, only_batched=True),
        *to_front(operands[fixed:], dims[fixed:], axis),
    ]
    moving = (len(operands) - fixed, len(inst.result_types))
    bodies = [
        inst.engine.batch(body, [*constants, *[True] * count], axis, True)[0]
        for body, count in zip(inst.bodies, moving, strict=False)
    ]
    results = inst.op.build(front, inst.params, bodies)
    return results, [0] * len(results)


_EXAMPLE = """\
%y = "gnomon.linear_call"(%factor, %x) ({
  "gnomon.branch"() ({
  ^bb0(%r: tensor<3xf32>, %a: tensor<3xf32>):
    %scaled = "gnomon.mul"(%r, %a) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "gnomon.yield"(%scaled) : (tensor<3xf32>) -> ()
  }) : () -> ()
  "gnomon.branch"() ({
  ^bb0(%r: tensor<3xf32>, %ct: tensor<3xf32>):
    %ct_a = "gnomon.mul"(%r, %ct) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "gnomon.yield"(%ct_a) : (tensor<3xf32>) -> ()
  }) : () -> ()
}) {consts = 0 : i64, residuals = 1 : i64, name = "f", failure = ""}
    : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>"""


linear_call = Op(
    name="linear_call",
    doc="a linear function (the first body) whose transpose is the second body",
    example=_EXAMPLE,
    attributes={"consts": INT, "residuals": INT, "name": STRING, "failure": STRING},
    results=None,
    regions=...,
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer,
    evaluate=evaluate_body,
    jvp=_differentiate,
    linearize=_differentiate,
    linear=BODIES,
    transpose=_transpose,
    batch=_batch,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
    inline=inline_body,
)

__all__ = ["linear_call"]
