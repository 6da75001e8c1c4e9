"""``custom_vjp``: a function whose cotangents are given by a rule; and its tangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INT, INTS, STRING
from gnomon.dialects.body import Body
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import EXPANDED, Instance, MappedAxis, Op
from gnomon.dialects.control_flow.bodies import (
    check_arguments,
    chosen,
    evaluate_body,
    in_front,
    inline_body,
    instantiated,
    split,
    spread,
    transpose_body,
)
from gnomon.dialects.custom_derivatives import (
    check_function,
    inexact_types,
    is_constant,
    raise_no_rule,
    rebuild_batched,
    tangents_by_wrt,
    without_tangents,
)
from gnomon.dialects.emit import move_dim, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import BODIES, Form
from gnomon.dialects.types import TensorType, is_inexact, type_of


def _infer_vjp(
    *types: TensorType,
    consts: int,
    wrt: tuple[int, ...],
    name: str,
    failure: str,
    bodies: Sequence[Body],
) -> tuple[TensorType, ...]:
    require(len(bodies) in (1, 3), "custom_vjp", f"one or three bodies, got {len(bodies)}")
    results = check_function("custom_vjp", types, consts, wrt, bodies)
    if len(bodies) == 3:
        _, forward, backward = bodies
        check_arguments("custom_vjp", "forward rule", types, forward.argument_types, "its operands")
        residuals = forward.result_types[len(results) :]
        require(
            forward.result_types[: len(results)] == results,
            "custom_vjp",
            "the forward rule must return the function's results, then residuals",
        )
        check_arguments(
            "custom_vjp",
            "backward rule",
            [*types[:consts], *residuals, *inexact_types(results)],
            backward.argument_types,
            "constants, residuals and cotangents",
        )
        require(
            backward.result_types == [types[consts + i] for i in wrt],
            "custom_vjp",
            "the backward rule must return a cotangent of each argument of wrt",
        )
    return tuple(results)


FORWARD_MODE = (
    "can't apply forward-mode autodiff (jvp) to a custom_vjp function: its rule propagates "
    "cotangents backward, not tangents forward. Use reverse mode (grad, vjp, jacrev), or "
    "custom_jvp, which supports both"
)


def _no_forward_mode(inst: Instance, *rest: Any) -> NoReturn:
    raise TypeError(f"{FORWARD_MODE}. The function is {inst.params['name']}.")


def _jvp_vjp(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    if is_constant(inst, tangents):
        return without_tangents(inst)
    _no_forward_mode(inst)


def _linearize_vjp(
    inst: Instance, tangents: Tangents
) -> tuple[list[ir.Value], list[ir.Value | None]]:
    if is_constant(inst, tangents):
        return without_tangents(inst)
    if len(inst.bodies) < 3:
        raise_no_rule(inst)
    _, forward, backward = inst.bodies
    outs, residuals = split(forward.inline(inst.operands), len(inst.result_types))
    fixed = [*inst.operands[: inst.params["consts"]], *residuals]
    outgoing = custom_vjp_tangents.build(
        [*fixed, *tangents_by_wrt(inst, tangents)],
        {"consts": len(fixed), "name": inst.params["name"]},
        [backward.clone()],
    )
    return outs, spread(outgoing, [is_inexact(t.dtype) for t in inst.result_types])


def _batch_vjp(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    mapped = [d is not None for d in dims]
    batch, count = inst.engine.batch, len(inst.result_types)
    function, out = batch(inst.bodies[0], mapped, axis)
    bodies = [function]
    if len(inst.bodies) == 3:
        consts = inst.params["consts"]
        _, forward, backward = inst.bodies
        forced = [*out, *[False] * (len(forward.results) - count)]
        batched_forward, leaving = batch(forward, mapped, axis, forced)
        out = leaving[:count]
        inexact = [is_inexact(t.dtype) for t in inst.result_types]
        wrt_mapped = [mapped[consts + i] for i in inst.params["wrt"]]
        flags = [*mapped[:consts], *leaving[count:], *chosen(out, inexact)]
        batched_backward, cotangents = batch(backward, flags, axis, wrt_mapped)
        bodies = [
            batch(inst.bodies[0], mapped, axis, out)[0],
            batched_forward,
            _summed(
                batched_backward,
                [ct and not m for ct, m in zip(cotangents, wrt_mapped, strict=True)],
            ),
        ]
    return rebuild_batched(inst, operands, dims, bodies, out)


def _summed(body: Body, over_batch: Sequence[bool]) -> Body:
    """A backward rule that sums the cotangents of unbatched arguments over the batch."""

    def emit(*arguments: ir.Value) -> list[ir.Value]:
        return [
            ops.reduce_sum(ct, axes=(0,)) if is_summed else ct
            for ct, is_summed in zip(body.inline(arguments), over_batch, strict=True)
        ]

    return Body.build(body.argument_types, emit)


_EXAMPLE_VJP = """\
%y = "gnomon.custom_vjp"(%x) ({
  "gnomon.branch"() ({
  ^bb0(%a: tensor<f32>):
    %sine = "gnomon.sin"(%a) : (tensor<f32>) -> tensor<f32>
    "gnomon.yield"(%sine) : (tensor<f32>) -> ()
  }) : () -> ()
  "gnomon.branch"() ({
  ^bb0(%a: tensor<f32>):
    %sine = "gnomon.sin"(%a) : (tensor<f32>) -> tensor<f32>
    %residual = "gnomon.cos"(%a) : (tensor<f32>) -> tensor<f32>
    "gnomon.yield"(%sine, %residual) : (tensor<f32>, tensor<f32>) -> ()
  }) : () -> ()
  "gnomon.branch"() ({
  ^bb0(%residual: tensor<f32>, %ct: tensor<f32>):
    %ct_a = "gnomon.mul"(%residual, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "gnomon.yield"(%ct_a) : (tensor<f32>) -> ()
  }) : () -> ()
}) {consts = 0 : i64, wrt = array<i64: 0>, name = "f", failure = ""}
    : (tensor<f32>) -> tensor<f32>"""


custom_vjp = Op(
    name="custom_vjp",
    doc="a function (the first body) with a forward rule (the second body), which returns results "
    "and residuals, and a backward rule (the third body), which takes residuals and cotangents",
    example=_EXAMPLE_VJP,
    attributes={"consts": INT, "wrt": INTS, "name": STRING, "failure": STRING},
    results=None,
    regions=...,
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer_vjp,
    evaluate=evaluate_body,
    jvp=_jvp_vjp,
    linearize=_linearize_vjp,
    linear=BODIES,
    transpose=transpose_body,
    batch=_batch_vjp,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
    inline=inline_body,
)


# -------------------------------------------------------------------- the tangents of a custom_vjp


def _infer_tangents(
    *types: TensorType, consts: int, name: str, bodies: Sequence[Body]
) -> tuple[TensorType, ...]:
    (backward,) = bodies
    arguments = backward.argument_types
    check_arguments(
        "custom_vjp_tangents", "backward rule", types[:consts], arguments[:consts], "its constants"
    )
    require(
        backward.result_types == list(types[consts:]),
        "custom_vjp_tangents",
        "the results of the backward rule must have the types of the tangents",
    )
    return tuple(arguments[consts:])


def _no_tangents(*operands: np.ndarray, name: str, **params: Any) -> NoReturn:
    raise TypeError(f"{FORWARD_MODE}. The function is {name}.")


def _transpose_tangents(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    consts = inst.params["consts"]
    seeds = instantiated(cotangents, inst.result_types, [True] * len(cotangents))
    inputs = inst.bodies[0].inline([*inst.operands[:consts], *seeds])
    return [
        None if not is_linear else ct
        for ct, is_linear in zip([None] * consts + inputs, linear, strict=True)
    ]


def _batch_tangents(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    consts = inst.params["consts"]
    mapped = [d is not None for d in dims[:consts]]
    backward, _ = inst.engine.batch(
        inst.bodies[0], [*mapped, *[True] * len(inst.result_types)], axis, True
    )
    fixed = in_front(operands[:consts], dims[:consts])
    tangents = [
        ops.broadcast_in_dim(
            v, shape=(axis.size, *type_of(v).shape), dims=tuple(range(1, type_of(v).rank + 1))
        )
        if d is None
        else move_dim(v, d, 0)
        for v, d in zip(operands[consts:], dims[consts:], strict=True)
    ]
    results = inst.op.build([*fixed, *tangents], inst.params, [backward])
    return results, [0] * len(results)


_EXAMPLE_TANGENTS = """\
%dy = "gnomon.custom_vjp_tangents"(%residual, %dx) ({
^bb0(%r: tensor<f32>, %ct: tensor<f32>):
  %ct_x = "gnomon.mul"(%r, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  "gnomon.yield"(%ct_x) : (tensor<f32>) -> ()
}) {consts = 1 : i64, name = "f"} : (tensor<f32>, tensor<f32>) -> tensor<f32>"""


custom_vjp_tangents = Op(
    name="custom_vjp_tangents",
    doc="the tangents of a custom_vjp function, defined by their transpose: the body maps "
    "residuals and cotangents of the results to cotangents of the operands after ``consts``",
    example=_EXAMPLE_TANGENTS,
    attributes={"consts": INT, "name": STRING},
    results=None,
    regions=("backward",),
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer_tangents,
    evaluate=_no_tangents,
    jvp=_no_forward_mode,
    linearize=_no_forward_mode,
    linear=BODIES,
    transpose=_transpose_tangents,
    batch=_batch_tangents,
    sharding=sharding_rules.undetermined,
    lower=_no_forward_mode,
)
