"""``gnomon.checkpoint``: a body whose values are recomputed, not saved, for the backward pass.

``gnomon.name`` names a value, for policies that select values by name.

Linearizing a checkpoint gives two checkpoints. The first computes the results and the values that
the policy saves. The second is linear in the tangents: it takes the operands and the saved values,
and recomputes the other residuals. The second has the attribute ``differentiated``: when it is
inlined, its operands pass through an optimization barrier unless ``prevent_cse`` is false, so that
the compiler neither merges it with the first nor runs it before the cotangents are available.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import BOOL, STRING
from gnomon.dialects.body import Body, clone_into, operands_of, results_of
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import (
    EXPANDED,
    Instance,
    MappedAxis,
    Op,
    bodies_of,
    has_effects,
    lookup,
    params_of,
)
from gnomon.dialects.control_flow.bodies import (
    check_arguments,
    chosen,
    inline_values,
    is_used,
    nonzero_mask,
    present,
    rebuild,
    split,
    spread,
)
from gnomon.dialects.emit import move_dim, ops
from gnomon.dialects.functions import Program, callee
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import BODIES, Form, linear
from gnomon.dialects.types import TensorType, type_of

# --------------------------------------------------------------------------------------- policies

# Decides whether a policy saves the results of an op, from the op's name and parameters and the
# names that the policy was created with.
Rule = Callable[[str, Mapping[str, Any], Sequence[str]], bool]


def _is_named(op: str, params: Mapping[str, Any], names: Sequence[str]) -> bool:
    return op == "name" and params["name"] in names


def _is_unbatched_dot(op: str, params: Mapping[str, Any], names: Sequence[str]) -> bool:
    return op == "dot_general" and not params["lhs_batch"]


POLICIES: dict[str, Rule] = {
    "nothing_saveable": lambda op, params, names: False,
    "everything_saveable": lambda op, params, names: True,
    "dots_saveable": lambda op, params, names: op in ("dot_general", "conv_general_dilated"),
    "dots_with_no_batch_dims_saveable": _is_unbatched_dot,
    "save_only_these_names": _is_named,
    "save_any_names_but_these": lambda op, params, names: (
        op == "name" and not _is_named(op, params, names)
    ),
    "save_anything_except_these_names": lambda op, params, names: not _is_named(op, params, names),
}


def policy_text(rule: str, names: Sequence[str] = ()) -> str:
    """Encode a policy as an attribute: ``rule`` or ``rule:name,name``; ``|`` joins several."""
    return f"{rule}:{','.join(quote(n, safe='') for n in names)}" if names else rule


def saves(policy: str, op: str, params: Mapping[str, Any]) -> bool:
    """Whether a policy saves the results of an op with this name and these parameters."""
    return any(rule(op, params, names) for rule, names in _parse(policy))


def _parse(policy: str) -> list[tuple[Rule, list[str]]]:
    found = []
    for part in policy.split("|"):
        rule, _, names = part.partition(":")
        require(
            rule in POLICIES,
            "checkpoint",
            f"unknown policy {rule!r}; the policies are {', '.join(sorted(POLICIES))}",
        )
        found.append((POLICIES[rule], [unquote(n) for n in names.split(",") if n]))
    return found


def _saveable(policy: str, program: Program) -> Callable[[ir.Value], bool]:
    """A predicate that says whether a policy saves a value.

    A result of a call or region op other than ``while`` is saved if the policy saves the value that
    the function, any branch, or the first body of another op yields.
    """

    return partial(_is_saved, policy, program)


def _is_saved(policy: str, program: Program, value: ir.Value) -> bool:
    if isinstance(value.owner, ir.Block):
        return False
    op = producer(value)
    if saves(policy, lookup(op).name, params_of(op)):
        return True
    place = results_of(op).index(value)
    if op.name == "func.call":
        return _is_saved(policy, program, program.body(callee(op)).results[place])
    # A while cannot return the values of its iterations, so nothing inside can be saved.
    bodies = bodies_of(op) if op.regions and op.name != "gnomon.while" else []
    if op.name != "gnomon.switch":
        bodies = bodies[:1]  # the others are rules for derivatives and batching
    return any(_is_saved(policy, program, body.results[place]) for body in bodies)


def producer(value: ir.Value) -> ir.Operation:
    """The op that defines a value."""
    op = value.owner.operation
    if op.name == "builtin.unrealized_conversion_cast":
        return op.operands[0].owner.operation
    return op


# ------------------------------------------------------------------------------- type and meaning


def _infer(
    *types: TensorType,
    policy: str,
    prevent_cse: bool,
    differentiated: bool,
    bodies: Sequence[Body],
) -> tuple[TensorType, ...]:
    _parse(policy)
    check_arguments("checkpoint", "body", types, bodies[0].argument_types, "its operands")
    return tuple(bodies[0].result_types)


def _evaluate(*operands: np.ndarray, bodies: Sequence[Any], **params: Any) -> Any:
    return bodies[0](*operands)


def _inline(inst: Instance) -> list[ir.Value]:
    operands = inst.operands
    if inst.params["differentiated"] and inst.params["prevent_cse"] and operands:
        operands = ops.optimization_barrier.build(operands, {})
    return inst.bodies[0].inline(operands)


# --------------------------------------------------------------------------------- differentiation


def _jvp(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    body, out_nonzero = inst.engine.jvp(inst.bodies[0], nonzero_mask(tangents))
    values = inst.op.build([*inst.operands, *present(tangents)], inst.params, [body])
    outs, found = split(values, len(out_nonzero))
    return outs, spread(found, out_nonzero)


def _recomputed(
    body: Body, wanted: Sequence[ir.Value], saves: Callable[[ir.Value], bool]
) -> tuple[list[ir.Value], list[ir.Operation]]:
    """The values to save, and the ops that recompute the wanted values from them.

    The body's arguments are available to the recomputation as well.
    """
    saved: dict[ir.Value, None] = {}
    needed: set[ir.Value] = set()
    work = list(wanted)
    while work:
        value = work.pop()
        if isinstance(value.owner, ir.Block) or value in saved or value in needed:
            continue
        op = producer(value)
        # An op without operands costs nothing to recompute; one with effects must not run twice.
        if has_effects(op) or (operands_of(op) and saves(value)):
            saved[value] = None
            continue
        needed.add(value)
        work.extend(operands_of(op))
    again = [op for op in body.operations if any(r in needed for r in results_of(op))]
    return list(saved), again


def _linearize(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    parts = inst.engine.linearize(inst.bodies[0], nonzero_mask(tangents))
    count = len(parts.out_nonzero)
    if not any(parts.out_nonzero):
        return rebuild(inst), [None] * count
    forward, linear = parts.forward, parts.linear
    outs, residuals = split(forward.results, count)
    saved, again = _recomputed(
        forward, residuals, _saveable(inst.params["policy"], inst.engine.program)
    )
    first = Body.build(
        forward.argument_types, lambda *given: inline_values(forward, given, [*outs, *saved])
    )
    values = inst.op.build(inst.operands, inst.params, [first])
    kept = values[count:]

    used = {v for op in again for v in operands_of(op)} | set(residuals)
    argument_used = [a in used for a in forward.arguments]
    tangent_used = [is_used(a) for a in linear.arguments[len(residuals) :]]
    # A result may itself be one of the tangents.
    passed = set(linear.results)
    tangent_used = [
        u or a in passed
        for u, a in zip(tangent_used, linear.arguments[len(residuals) :], strict=True)
    ]
    constants = [*chosen(inst.operands, argument_used), *kept]
    directions = chosen(present(tangents), tangent_used)

    def second(*given: ir.Value) -> list[ir.Value]:
        fixed, moving = split(given, len(constants))
        taken = [*chosen(forward.arguments, argument_used), *saved]
        env = dict(zip(taken, fixed, strict=True))
        for op in again:
            with op.location:
                clone_into(op, env)
        return linear.inline([*(env[r] for r in residuals), *spread(moving, tangent_used)])

    operands = [*constants, *directions]
    if again:
        body = Body.build([type_of(v) for v in operands], second)
        found = inst.op.build(operands, {**inst.params, "differentiated": True}, [body])
    else:
        found = second(*operands)
    return values[:count], spread(found, parts.out_nonzero)


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    nonzero = nonzero_mask(cotangents)
    body, found = inst.engine.transpose_without_zeros(inst.bodies[0], linear, nonzero)
    operands = [*present(inst.operands), *present(cotangents)]
    return spread(inst.op.build(operands, inst.params, [body]), found)


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    front = [v if d is None else move_dim(v, d, 0) for v, d in zip(operands, dims, strict=True)]
    body, out = inst.engine.batch(inst.bodies[0], [d is not None for d in dims], axis)
    results = inst.op.build(front, inst.params, [body])
    return results, [0 if m else None for m in out]


_EXAMPLE = """\
%y = "gnomon.checkpoint"(%x) ({
^bb0(%a: tensor<f32>):
  %inner = "gnomon.sin"(%a) : (tensor<f32>) -> tensor<f32>
  %outer = "gnomon.sin"(%inner) : (tensor<f32>) -> tensor<f32>
  "gnomon.yield"(%outer) : (tensor<f32>) -> ()
}) {policy = "nothing_saveable", prevent_cse = true, differentiated = false}
    : (tensor<f32>) -> tensor<f32>"""


checkpoint = Op(
    name="checkpoint",
    doc="the results of a body; the backward pass recomputes its other values, except those that "
    "the policy saves",
    example=_EXAMPLE,
    attributes={"policy": STRING, "prevent_cse": BOOL, "differentiated": BOOL},
    results=None,
    regions=("body",),
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer,
    evaluate=_evaluate,
    jvp=_jvp,
    linearize=_linearize,
    linear=BODIES,
    transpose=_transpose,
    batch=_batch,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
    inline=_inline,
)

name = Op(
    name="name",
    doc="the operand, under a name that checkpoint policies refer to",
    example='%y = "gnomon.name"(%x) {name = "hidden"} : (tensor<4xf32>) -> tensor<4xf32>',
    attributes={"name": STRING},
    operands=("operand",),
    form=Form.IDENTITY,
    work=work_rules.nothing,
    infer=lambda operand, name: operand,
    evaluate=lambda operand, name: operand,
    jvp=lambda inst, outs, tangents: [inst.op(tangents[0], **inst.params)],
    linear=linear(),
    transpose=lambda inst, cotangents, linear: [cotangents[0]],
    batch=lambda inst, operands, dims, axis: (inst.op.build(operands, inst.params), dims),
    sharding=sharding_rules.elementwise,
    lower=lambda inst: inst.operands,
)

__all__ = ["POLICIES", "checkpoint", "name", "policy_text", "producer", "saves"]
