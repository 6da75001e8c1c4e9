"""Functions with custom derivative rules: ``custom_jvp``, ``custom_vjp`` and its tangents.

The function and its rules are the closed bodies of one op, so a program is complete without the
Python code from which it was traced. The op is defined by its first body, which replaces it after
differentiation. The rules are not traced if nothing differentiates the op; it then has one body.

The first ``consts`` operands are the values that the bodies close over. A rule does not give the
derivative with respect to these, so it is an error if one that the function reads has a tangent. A
value that only the rules read does not affect the first derivative; for higher derivatives, the
expanded rules are differentiated with respect to it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from gnomon.dialects.attributes import INT, INTS, STRING
from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import EXPANDED, Instance, MappedAxis, Op, lookup
from gnomon.dialects.control_flow.bodies import (
    check_arguments,
    chosen,
    either,
    evaluate_body,
    in_front,
    inline_body,
    instantiated,
    split,
    spread,
    transpose_body,
)
from gnomon.dialects.emit import move_dim, ops, zeros
from gnomon.dialects.errors import UnexpectedTracerError
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_inexact, type_of

# The errors that rules raised while they were traced, by their text, which is an attribute of the
# op. A rule that failed matters only if it is used; then the user's original exception is raised.
_failures: OrderedDict[str, Exception] = OrderedDict()
_MAX_FAILURES = 256


def remember_failure(error: Exception) -> str:
    """Keep the error of a rule until the rule is used; return the text that identifies it."""
    text = f"{type(error).__name__}: {error}"
    _failures[text] = error
    while len(_failures) > _MAX_FAILURES:
        _failures.popitem(last=False)
    return text


def raise_failure(inst: Instance) -> None:
    """Raise the error that an op's rule raised while it was traced, if any."""
    failure, name = inst.params["failure"], inst.params["name"]
    if failure in _failures:
        raise _failures[failure]
    if failure:
        raise TypeError(f"the derivative rule of {name} raised {failure}")


def _no_rule(inst: Instance) -> NoReturn:
    raise_failure(inst)
    name = inst.params["name"]
    raise TypeError(
        f"{inst.op.full_name}: the rule of {name} is not in the program, since nothing "
        "differentiated it when it was traced"
    )


def _check_closed_over(inst: Instance, tangents: Tangents) -> None:
    """Raise an error if the function closes over a value that has a tangent.

    Values that only the rules close over are allowed: the result does not depend on them.
    """
    closed_over = inst.bodies[0].arguments[: inst.params["consts"]]
    for argument, tangent in zip(closed_over, tangents, strict=False):
        if tangent is not None and next(iter(argument.uses), None) is not None:
            raise closed_over_error(inst.op.name, inst.params["name"])


_ADVICE = {
    "custom_jvp": "handle its tangent in the rule",
    "custom_vjp": "return its cotangent from the backward rule",
}


def closed_over_error(kind: str, name: str) -> UnexpectedTracerError:
    """The error for a tangent of a value that a function with custom rules closes over."""
    return UnexpectedTracerError(
        f"differentiation of the {kind} function {name} with respect to a value that it closes "
        "over: its rule gives only the derivative with respect to its arguments. Pass the value as "
        f"an argument, and {_ADVICE[kind]}."
    )


def _is_constant(inst: Instance, tangents: Tangents) -> bool:
    """Whether all results have zero tangents: no argument has one, or no result is inexact."""
    given = tangents[inst.params["consts"] :]
    return all(t is None for t in given) or not _inexact(inst.result_types)


def _without_tangents(inst: Instance) -> tuple[list[ir.Value], list[ir.Value | None]]:
    outs = inst.op.build(inst.operands, inst.params, [body.clone() for body in inst.bodies])
    return outs, [None] * len(outs)


def _inexact(types: Sequence[TensorType]) -> list[TensorType]:
    return [t for t in types if is_inexact(t.dtype)]


def _check_wrt(op: str, consts: int, wrt: Sequence[int], types: Sequence[TensorType]) -> None:
    arguments = types[consts:]
    for i in wrt:
        require(
            0 <= i < len(arguments) and is_inexact(arguments[i].dtype),
            op,
            f"wrt contains {i}, which is not an argument of an inexact dtype; the function has "
            f"{len(arguments)} arguments",
        )


# ------------------------------------------------------------------------------------ custom_jvp


def _infer_jvp(
    *types: TensorType,
    consts: int,
    wrt: tuple[int, ...],
    name: str,
    failure: str,
    bodies: Sequence[Body],
) -> tuple[TensorType, ...]:
    require(len(bodies) in (1, 2), "custom_jvp", f"one or two bodies, got {len(bodies)}")
    _check_wrt("custom_jvp", consts, wrt, types)
    check_arguments("custom_jvp", "function", types, bodies[0].argument_types, "its operands")
    results = bodies[0].result_types
    if len(bodies) == 2:
        given = [*types, *(types[consts + i] for i in wrt)]
        what = "its operands and tangents"
        check_arguments("custom_jvp", "rule", given, bodies[1].argument_types, what)
        expected = [*results, *_inexact(results)]
        require(
            bodies[1].result_types == expected,
            "custom_jvp",
            "the rule must return the function's results and their tangents",
        )
    return tuple(results)


def _depends_through_bodies(body: Body, first: int) -> bool:
    """Whether a region op or call uses a value that depends on arguments from ``first`` on."""
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
    _check_closed_over(inst, tangents)
    if _is_constant(inst, tangents):
        return _without_tangents(inst)
    if len(inst.bodies) < 2:
        _no_rule(inst)
    consts, wrt = inst.params["consts"], inst.params["wrt"]
    rule, count = inst.bodies[1], len(inst.result_types)
    wanted = [i - consts in wrt for i in range(len(inst.operands))]
    given = instantiated(tangents, inst.operand_types, wanted)
    inexact = [is_inexact(t.dtype) for t in inst.result_types]
    if not (keep_apart and _depends_through_bodies(rule, len(inst.operands))):
        values = rule.inline([*inst.operands, *given])
        return values[:count], spread(values[count:], inexact)
    # A loop in the rule may mix primal and tangent values, but its linearization separates them.
    # The rule is linear in the tangents, so its derivative in their direction, at any point, is
    # the rule itself.
    nonzero = [False] * len(inst.operands) + [True] * len(given)
    parts = inst.engine.linearize(rule, nonzero)
    results = len(parts.out_nonzero)
    values = parts.forward.inline([*inst.operands, *(zeros(type_of(t)) for t in given)])
    found = spread(parts.linear.inline([*values[results:], *given]), parts.out_nonzero)
    return values[:count], spread(found[count:], inexact)


def _batch_jvp(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    mapped = [d is not None for d in dims]
    function, out = inst.engine.batch(inst.bodies[0], mapped, axis)
    bodies = [function]
    if len(inst.bodies) == 2:
        consts = inst.params["consts"]
        inexact = [is_inexact(t.dtype) for t in inst.result_types]
        given = [*mapped, *(mapped[consts + i] for i in inst.params["wrt"])]
        while True:
            rule, found = inst.engine.batch(
                inst.bodies[1], given, axis, [*out, *chosen(out, inexact)]
            )
            tangents = [bool(m) for m in spread(found[len(out) :], inexact)]
            grown = either(out, either(found[: len(out)], tangents))
            if grown == out:
                break
            out = grown
        bodies = [inst.engine.batch(inst.bodies[0], mapped, axis, out)[0], rule]
    results = inst.op.build(in_front(operands, dims), inst.params, bodies)
    return results, [0 if m else None for m in out]


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
    infer=_infer_jvp,
    evaluate=evaluate_body,
    jvp=lambda inst, tangents: _tangents_by_rule(inst, tangents, False),
    linearize=lambda inst, tangents: _tangents_by_rule(inst, tangents, True),
    transpose=transpose_body,
    batch=_batch_jvp,
    lower=EXPANDED,
    inline=inline_body,
)

# ------------------------------------------------------------------------------------ custom_vjp


def _infer_vjp(
    *types: TensorType,
    consts: int,
    wrt: tuple[int, ...],
    name: str,
    failure: str,
    bodies: Sequence[Body],
) -> tuple[TensorType, ...]:
    require(len(bodies) in (1, 3), "custom_vjp", f"one or three bodies, got {len(bodies)}")
    _check_wrt("custom_vjp", consts, wrt, types)
    check_arguments("custom_vjp", "function", types, bodies[0].argument_types, "its operands")
    results = bodies[0].result_types
    if len(bodies) == 3:
        _, forward, backward = bodies
        check_arguments("custom_vjp", "forward rule", types, forward.argument_types, "its operands")
        given = forward.result_types
        require(
            given[: len(results)] == results,
            "custom_vjp",
            "the forward rule must return the function's results, then residuals",
        )
        check_arguments(
            "custom_vjp",
            "backward rule",
            [*types[:consts], *given[len(results) :], *_inexact(results)],
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
    _check_closed_over(inst, tangents)
    if _is_constant(inst, tangents):
        return _without_tangents(inst)
    _no_forward_mode(inst)


def _linearize_vjp(
    inst: Instance, tangents: Tangents
) -> tuple[list[ir.Value], list[ir.Value | None]]:
    _check_closed_over(inst, tangents)
    if _is_constant(inst, tangents):
        return _without_tangents(inst)
    if len(inst.bodies) < 3:
        _no_rule(inst)
    _, forward, backward = inst.bodies
    consts, wrt = inst.params["consts"], inst.params["wrt"]
    outs, residuals = split(forward.inline(inst.operands), len(inst.result_types))
    wanted = [i - consts in wrt for i in range(len(inst.operands))]
    given = instantiated(tangents, inst.operand_types, wanted)
    fixed = [*inst.operands[:consts], *residuals]
    found = custom_vjp_tangents.build(
        [*fixed, *given],
        {"consts": len(fixed), "name": inst.params["name"]},
        [backward.clone()],
    )
    return outs, spread(found, [is_inexact(t.dtype) for t in inst.result_types])


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
        batched_forward, given = batch(forward, mapped, axis, forced)
        out = given[:count]
        inexact = [is_inexact(t.dtype) for t in inst.result_types]
        wrt_mapped = [mapped[consts + i] for i in inst.params["wrt"]]
        flags = [*mapped[:consts], *given[count:], *chosen(out, inexact)]
        batched_backward, found = batch(backward, flags, axis, wrt_mapped)
        bodies = [
            batch(inst.bodies[0], mapped, axis, out)[0],
            batched_forward,
            _summed(
                batched_backward, [f and not m for f, m in zip(found, wrt_mapped, strict=True)]
            ),
        ]
    results = inst.op.build(in_front(operands, dims), inst.params, bodies)
    return results, [0 if m else None for m in out]


def _summed(body: Body, over_batch: Sequence[bool]) -> Body:
    """A backward rule that sums the cotangents of unbatched arguments over the batch."""

    def emit(*arguments: ir.Value) -> list[ir.Value]:
        return [
            ops.reduce_sum(ct, axes=(0,)) if wanted else ct
            for ct, wanted in zip(body.inline(arguments), over_batch, strict=True)
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
    infer=_infer_vjp,
    evaluate=evaluate_body,
    jvp=_jvp_vjp,
    linearize=_linearize_vjp,
    transpose=transpose_body,
    batch=_batch_vjp,
    lower=EXPANDED,
    inline=inline_body,
)

# -------------------------------------------------------------------- the tangents of a custom_vjp


def _infer_tangents(
    *types: TensorType, consts: int, name: str, bodies: Sequence[Body]
) -> tuple[TensorType, ...]:
    (backward,) = bodies
    given = backward.argument_types
    check_arguments(
        "custom_vjp_tangents", "backward rule", types[:consts], given[:consts], "its constants"
    )
    require(
        backward.result_types == list(types[consts:]),
        "custom_vjp_tangents",
        "the results of the backward rule must have the types of the tangents",
    )
    return tuple(given[consts:])


def _no_tangents(*operands: np.ndarray, name: str, **params: Any) -> NoReturn:
    raise TypeError(f"{FORWARD_MODE}. The function is {name}.")


def _transpose_tangents(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    consts = inst.params["consts"]
    seeds = instantiated(cotangents, inst.result_types, [True] * len(cotangents))
    found = inst.bodies[0].inline([*inst.operands[:consts], *seeds])
    return [
        None if not is_linear else ct
        for ct, is_linear in zip([None] * consts + found, linear, strict=True)
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
    infer=_infer_tangents,
    evaluate=_no_tangents,
    jvp=_no_forward_mode,
    linearize=_no_forward_mode,
    transpose=_transpose_tangents,
    batch=_batch_tangents,
    lower=_no_forward_mode,
)

__all__ = [
    "closed_over_error",
    "custom_jvp",
    "custom_vjp",
    "custom_vjp_tangents",
    "raise_failure",
    "remember_failure",
]
