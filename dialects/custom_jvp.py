"""``custom_jvp``: a function whose tangents are given by a rule."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INT, INTS, STRING
from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import EXPANDED, Instance, MappedAxis, Op, lookup
from gnomon.dialects.control_flow.bodies import (
    check_arguments,
    chosen,
    either,
    evaluate_body,
    inline_body,
    least_fixed_point,
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
from gnomon.dialects.emit import zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import BODIES, Form
from gnomon.dialects.types import TensorType, is_inexact, type_of


def _infer_jvp(
    *types: TensorType,
    consts: int,
    wrt: tuple[int, ...],
    name: str,
    failure: str,
    bodies: Sequence[Body],
) -> tuple[TensorType, ...]:
    require(len(bodies) in (1, 2), "custom_jvp", f"one or two bodies, got {len(bodies)}")
    results = check_function("custom_jvp", types, consts, wrt, bodies)
    if len(bodies) == 2:
        check_arguments(
            "custom_jvp",
            "rule",
            [*types, *(types[consts + i] for i in wrt)],
            bodies[1].argument_types,
            "its operands and tangents",
        )
        require(
            bodies[1].result_types == [*results, *inexact_types(results)],
            "custom_jvp",
            "the rule must return the function's results and their tangents",
        )
    return tuple(results)


def _depends_through_bodies(body: Body, first: int) -> bool:
    """Whether an op that may mix primals and tangents depends on arguments from ``first`` on.

    Such ops are region ops, calls, and ops with a ``linearize`` rule.
    """
    dependent = set(body.arguments[first:])
    for op in body.operations:
        if any(v in dependent for v in operands_of(op)):
            definition = lookup(op)
            # An op that is defined by its body is linear if the body is, and transposes with it.
            mixes = op.regions or "callee" in op.attributes or definition.linearize
            if mixes and not definition.inline:
                return True
            dependent.update(results_of(op))
    return False


def _tangents_by_rule(
    inst: Instance, tangents: Tangents, keep_apart: bool
) -> tuple[list[ir.Value], list[ir.Value | None]]:
    if is_constant(inst, tangents):
        return without_tangents(inst)
    if len(inst.bodies) < 2:
        raise_no_rule(inst)
    rule, count = inst.bodies[1], len(inst.result_types)
    incoming = tangents_by_wrt(inst, tangents)
    inexact = [is_inexact(t.dtype) for t in inst.result_types]
    if not (keep_apart and _depends_through_bodies(rule, len(inst.operands))):
        values = rule.inline([*inst.operands, *incoming])
        return values[:count], spread(values[count:], inexact)
    # A loop in the rule may mix primal and tangent values, but its linearization separates them.
    # The rule is linear in the tangents, so its derivative in their direction, at any point, is
    # the rule itself.
    nonzero = [False] * len(inst.operands) + [True] * len(incoming)
    parts = inst.engine.linearize(rule, nonzero)
    results = len(parts.out_nonzero)
    values = parts.forward.inline([*inst.operands, *(zeros(type_of(t)) for t in incoming)])
    outgoing = spread(parts.linear.inline([*values[results:], *incoming]), parts.out_nonzero)
    return values[:count], spread(outgoing[count:], inexact)


def _batch_jvp(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    mapped = [d is not None for d in dims]
    function, out = inst.engine.batch(inst.bodies[0], mapped, axis)
    bodies = [function]
    if len(inst.bodies) == 2:
        consts = inst.params["consts"]
        inexact = [is_inexact(t.dtype) for t in inst.result_types]
        arguments = [*mapped, *(mapped[consts + i] for i in inst.params["wrt"])]

        def step(out: list[bool]) -> tuple[Body, list[bool]]:
            """Batch the rule with at least the results ``out`` batched; return the mask of all."""
            forced = [*out, *chosen(out, inexact)]
            rule, batched = inst.engine.batch(inst.bodies[1], arguments, axis, forced)
            tangents = [bool(b) for b in spread(batched[len(out) :], inexact)]
            return rule, either(batched[: len(out)], tangents)

        rule, out = least_fixed_point(out, step)
        bodies = [inst.engine.batch(inst.bodies[0], mapped, axis, out)[0], rule]
    return rebuild_batched(inst, operands, dims, bodies, out)


_EXAMPLE_JVP = """\
%y = "gnomon.custom_jvp"(%x) ({
  "gnomon.branch"() ({
  ^bb0(%a: tensor<f32>):
    %sine = "gnomon.sin"(%a) : (tensor<f32>) -> tensor<f32>
    "gnomon.yield"(%sine) : (tensor<f32>) -> ()
  }) : () -> ()
  "gnomon.branch"() ({
  ^bb0(%a: tensor<f32>, %da: tensor<f32>):
    %sine = "gnomon.sin"(%a) : (tensor<f32>) -> tensor<f32>
    %cosine = "gnomon.cos"(%a) : (tensor<f32>) -> tensor<f32>
    %tangent = "gnomon.mul"(%cosine, %da) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "gnomon.yield"(%sine, %tangent) : (tensor<f32>, tensor<f32>) -> ()
  }) : () -> ()
}) {consts = 0 : i64, wrt = array<i64: 0>, name = "f", failure = ""}
    : (tensor<f32>) -> tensor<f32>"""


custom_jvp = Op(
    name="custom_jvp",
    doc="a function (the first body) whose tangents are given by a rule (the second body)",
    example=_EXAMPLE_JVP,
    attributes={"consts": INT, "wrt": INTS, "name": STRING, "failure": STRING},
    results=None,
    regions=...,
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer_jvp,
    evaluate=evaluate_body,
    jvp=lambda inst, tangents: _tangents_by_rule(inst, tangents, False),
    linearize=lambda inst, tangents: _tangents_by_rule(inst, tangents, True),
    linear=BODIES,
    transpose=transpose_body,
    batch=_batch_jvp,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
    inline=inline_body,
)
