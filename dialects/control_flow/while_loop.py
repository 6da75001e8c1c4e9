"""``gnomon.while``: repeat a body on carried values as long as a condition holds.

Only forward mode is supported: reverse mode would have to save the residuals of every iteration,
and the number of iterations is not known before the loop has run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INT
from gnomon.dialects.body import Body
from gnomon.dialects.combinators import Tangents, Values, describe, require, to_front
from gnomon.dialects.contract import Instance, MappedAxis, Op, has_effects
from gnomon.dialects.control_flow.bodies import (
    body_may_not_end,
    check_arguments,
    check_carry,
    instantiated,
    least_fixed_point,
    nonzero_mask,
    present,
    rebuild,
    replace_unselected,
    select_elements,
    split,
    spread,
    without_effects,
)
from gnomon.dialects.emit import at_dim, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import BODIES, Form
from gnomon.dialects.types import TensorType, mlir_type, type_of

_PREDICATE = TensorType((), np.dtype(np.bool_))

Arrays = Sequence[np.ndarray]


class ReverseModeWhileError(ValueError):
    """Reverse-mode differentiation reached a loop with an unknown number of iterations."""


def _parts(inst: Instance, values: Sequence[Any]) -> list[list[Any]]:
    """Split a list into constants of the condition, constants of the body, and carries."""
    return split(values, inst.params["cond_consts"], inst.params["body_consts"])


def _infer(
    *types: TensorType, cond_consts: int, body_consts: int, bodies: Sequence[Body]
) -> tuple[TensorType, ...]:
    require(
        cond_consts >= 0 and body_consts >= 0 and cond_consts + body_consts <= len(types),
        "while",
        f"{cond_consts} constants of the condition and {body_consts} of the body "
        f"do not fit {len(types)} operands",
    )
    for_cond, for_body, carry = split(types, cond_consts, body_consts)
    cond, body = bodies
    check_arguments(
        "while", "condition", [*for_cond, *carry], cond.argument_types, "constants and carries"
    )
    check_arguments(
        "while", "body", [*for_body, *carry], body.argument_types, "constants and carries"
    )
    tested = cond.result_types
    require(
        tested == [_PREDICATE],
        "while",
        f"the condition must return one {_PREDICATE}, but it returns ({describe(tested)})",
    )
    leaving = body.result_types
    check_carry("while", "body", carry, leaving)
    require(
        len(leaving) == len(carry),
        "while",
        f"the body must return the {len(carry)} carries, but it returns ({describe(leaving)})",
    )
    return tuple(carry)


def _evaluate(
    *operands: np.ndarray,
    cond_consts: int,
    body_consts: int,
    bodies: Sequence[Callable[..., Arrays]],
) -> Arrays:
    for_cond, for_body, carry = split(operands, cond_consts, body_consts)
    cond, body = bodies
    state: Arrays = carry
    while cond(*for_cond, *state)[0]:
        state = body(*for_body, *state)
    return state


# --------------------------------------------------------------------------------- differentiation


def _jvp(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    for_cond, for_body, carry = _parts(inst, inst.operands)
    _, d_body, d_carry = _parts(inst, tangents)
    cond, body = inst.bodies
    const_nonzero = nonzero_mask(d_body)

    def step(nonzero: list[bool]) -> tuple[Body, list[bool]]:
        derived: Body
        derived, leaving = inst.engine.jvp(body, [*const_nonzero, *nonzero], nonzero)
        return derived, leaving

    derived, nonzero = least_fixed_point(nonzero_mask(d_carry), step)
    count = len(carry)
    if not any(nonzero):
        return rebuild(inst), [None] * count
    tangent_consts = present(d_body)
    entering = instantiated(d_carry, inst.result_types, nonzero)
    types = [[type_of(v) for v in part] for part in (for_body, tangent_consts, carry, entering)]

    def emit(*arguments: ir.Value) -> list[ir.Value]:
        consts, consts_t, state, state_t = split(arguments, *map(len, types[:3]))
        return derived.inline([*consts, *state, *consts_t, *state_t])

    values = inst.op.build(
        [*for_cond, *for_body, *tangent_consts, *carry, *entering],
        {
            "cond_consts": len(for_cond),
            "body_consts": len(for_body) + len(tangent_consts),
        },
        [
            _ignoring_last(cond, types[3]),
            Body.build([t for part in types for t in part], emit),
        ],
    )
    return values[:count], spread(values[count:], nonzero)


def _ignoring_last(cond: Body, extra: Sequence[TensorType]) -> Body:
    """The condition with additional carries that it ignores."""
    taken = cond.argument_types
    return Body.build([*taken, *extra], lambda *arguments: cond.inline(arguments[: len(taken)]))


def _linearize(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    # The residuals of the iterations are not saved, so the linear part runs the primal loop again,
    # without its effects.
    primal = inst.bodies
    inst.bodies = [without_effects(b) if any(map(has_effects, b.operations)) else b for b in primal]
    outs, tangents_out = _jvp(inst, tangents)
    if inst.bodies == primal and all(t is None for t in tangents_out):
        return outs, tangents_out
    inst.bodies = primal
    return rebuild(inst), tangents_out


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    raise ReverseModeWhileError(
        "reverse-mode differentiation (grad, vjp, jacrev) of a while_loop, or of a fori_loop whose "
        "bounds are not static, is not possible: the number of iterations is not known before the "
        "loop has run, so the values that the backward pass needs cannot be saved. "
        "Use lax.scan, or lax.fori_loop with bounds that are Python integers; or forward mode "
        f"(jvp, jacfwd), which differentiates this loop ({ir.Location.current})"
    )


# ---------------------------------------------------------------------------------------- batching


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    for_cond, for_body, carry = _parts(inst, to_front(operands, dims, axis, only_batched=True))
    cond_mapped, body_mapped, carry_mapped = _parts(inst, [d is not None for d in dims])
    cond, body = inst.bodies

    def step(mapped: list[bool]) -> tuple[Body, list[bool]]:
        made: Body
        made, leaving = inst.engine.batch(body, [*body_mapped, *mapped], axis, mapped)
        return made, leaving

    batched, mapped = least_fixed_point(carry_mapped, step)
    _, (by_element,) = inst.engine.batch(cond, [*cond_mapped, *mapped], axis)
    if by_element:
        # Elements stop after different numbers of iterations, so every changing carry is batched.
        passed = body.arguments[len(for_body) :]
        changes = [r != a for r, a in zip(body.results, passed, strict=True)]
        starting = [m or c for m, c in zip(mapped, changes, strict=True)]
        batched, mapped = least_fixed_point(starting, step)
    tested, _ = inst.engine.batch(cond, [*cond_mapped, *mapped], axis, force=by_element)
    entering = [
        at_dim(v, None, axis.size) if wanted and not has else v
        for v, has, wanted in zip(carry, carry_mapped, mapped, strict=True)
    ]
    out_dims = [0 if m else None for m in mapped]
    if not by_element:
        results = inst.op.build([*for_cond, *for_body, *entering], inst.params, [tested, batched])
        return results, out_dims

    careful = body_may_not_end(body, inst.engine.program)
    state_mapped = [*body_mapped, *mapped]

    def emit(*arguments: ir.Value) -> list[ir.Value]:
        cond_values, body_values, state = split(arguments, len(for_cond), len(for_body))
        (running,) = tested.inline([*cond_values, *state])
        values = [*body_values, *state]
        if careful:
            values = replace_unselected(running, values, state_mapped)
        return [
            select_elements(running, new, old) if m else old
            for new, old, m in zip(batched.inline(values), state, mapped, strict=True)
        ]

    def any_running(*arguments: ir.Value) -> list[ir.Value]:
        return [ops.reduce_or(tested.inline(arguments)[0], axes=(0,))]

    consts = [*for_cond, *for_body]
    types = [type_of(v) for v in (*consts, *entering)]
    tested_types = [type_of(v) for v in (*for_cond, *entering)]
    results = inst.op.build(
        [*for_cond, *consts, *entering],
        {"cond_consts": len(for_cond), "body_consts": len(consts)},
        [Body.build(tested_types, any_running), Body.build(types, emit)],
    )
    return results, out_dims


# ---------------------------------------------------------------------------------------- lowering


def _lower(inst: Instance) -> list[ir.Value]:
    for_cond, for_body, carry = _parts(inst, inst.operands)
    cond, body = inst.bodies
    created = ir.Operation.create(
        "stablehlo.while",
        results=[mlir_type(t) for t in inst.result_types],
        operands=carry,
        regions=2,
    )
    inst.engine.fill(created.regions[0], cond, captured=for_cond)
    inst.engine.fill(created.regions[1], body, captured=for_body)
    return list(created.results)


_EXAMPLE = """\
%y = "gnomon.while"(%bound, %x) ({
^bb0(%limit: tensor<f32>, %a: tensor<f32>):
  %below = "gnomon.lt"(%a, %limit) : (tensor<f32>, tensor<f32>) -> tensor<i1>
  "gnomon.yield"(%below) : (tensor<i1>) -> ()
}, {
^bb0(%a: tensor<f32>):
  %next = "gnomon.exp"(%a) : (tensor<f32>) -> tensor<f32>
  "gnomon.yield"(%next) : (tensor<f32>) -> ()
}) {cond_consts = 1 : i64, body_consts = 0 : i64} : (tensor<f32>, tensor<f32>) -> tensor<f32>"""


while_ = Op(
    name="while",
    doc="apply a body to carried values as long as a condition on them holds",
    example=_EXAMPLE,
    attributes={"cond_consts": INT, "body_consts": INT},
    results=None,
    regions=("cond", "body"),
    form=Form.CONTROL,
    stablehlo=("while",),
    work=work_rules.nothing,
    infer=_infer,
    evaluate=_evaluate,
    jvp=_jvp,
    linearize=_linearize,
    linear=BODIES,
    transpose=_transpose,
    batch=_batch,
    sharding=sharding_rules.undetermined,
    lower=_lower,
)

__all__ = ["ReverseModeWhileError", "while_"]
