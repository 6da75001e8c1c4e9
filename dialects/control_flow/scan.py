"""``gnomon.scan``: a loop of known length with carries, sliced inputs and stacked results.

The operands are constants, carries and stacked inputs. The body maps constants, carries and one
slice of each input to carries and one slice of each stacked result. Forward and reverse mode are
both supported: the residuals of an iteration are stacked like any other result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import BOOL, INT
from gnomon.dialects.body import Body
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import EXPANDED, Instance, MappedAxis, Op
from gnomon.dialects.control_flow.bodies import (
    check_arguments,
    check_carry,
    chosen,
    dependent_results,
    inline_values,
    instantiated,
    is_used,
    kept_in_scan,
    least_fixed_point,
    nonzero_mask,
    partition,
    present,
    rebuild,
    split,
    spread,
)
from gnomon.dialects.control_flow.residuals import rematerialize
from gnomon.dialects.cotangents import add_cotangents
from gnomon.dialects.emit import at_dim, move_dim, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import exceeds
from gnomon.dialects.traits import BODIES, Form
from gnomon.dialects.types import TensorType, type_of

Arrays = Sequence[np.ndarray]

# Iterations are counted in int32.
_MAX_LENGTH = int(np.iinfo(np.int32).max)


def _parts(inst: Instance, values: Sequence[Any]) -> list[list[Any]]:
    """Split a list with one entry per operand into constants, carries and stacked inputs."""
    return split(values, inst.params["consts"], inst.params["carry"])


def _build(
    inst: Instance,
    consts: Values,
    carry: Values,
    xs: Values,
    emit: Callable[..., Sequence[ir.Value]],
    *,
    reverse: bool | None = None,
) -> tuple[list[ir.Value], list[ir.Value]]:
    """Build a scan of the same length over other values; return its carries and stacked results.

    ``emit(consts, carry, slices)`` returns the values that the body yields.
    """
    operands = [*consts, *carry, *xs]
    types = [
        *(type_of(v) for v in (*consts, *carry)),
        *(type_of(v).with_shape(type_of(v).shape[1:]) for v in xs),
    ]
    body = Body.build(types, lambda *arguments: emit(*split(arguments, len(consts), len(carry))))
    params = {
        **inst.params,
        "consts": len(consts),
        "carry": len(carry),
        "reverse": inst.params["reverse"] if reverse is None else reverse,
    }
    values = inst.op.build(operands, params, [body])
    return values[: len(carry)], values[len(carry) :]


# ------------------------------------------------------------------------------- type and meaning


def _infer(
    *types: TensorType,
    consts: int,
    carry: int,
    length: int,
    reverse: bool,
    unroll: int,
    bodies: Sequence[Body],
) -> tuple[TensorType, ...]:
    require(
        consts >= 0 and carry >= 0 and consts + carry <= len(types),
        "scan",
        f"{consts} constants and {carry} carries do not fit {len(types)} operands",
    )
    fits = length >= 0 and not exceeds(length, _MAX_LENGTH)
    require(fits, "scan", f"the length must be in [0, {_MAX_LENGTH}], got {length}")
    require(unroll >= 1, "scan", f"unroll must be at least 1, got {unroll}")
    constants, entering, stacked = split(types, consts, carry)
    for i, type_ in enumerate(stacked):
        require(
            type_.rank > 0 and type_.shape[0] == length,
            "scan",
            f"stacked input {i} must have leading dimension {length}, got {type_}",
        )
    (body,) = bodies
    slices = [t.with_shape(t.shape[1:]) for t in stacked]
    check_arguments(
        "scan",
        "body",
        [*constants, *entering, *slices],
        body.argument_types,
        "constants, carries and slices",
    )
    results = body.result_types
    check_carry("scan", "body", entering, results)
    return (*entering, *(t.with_shape((length, *t.shape)) for t in results[carry:]))


def _evaluate(
    *operands: np.ndarray,
    consts: int,
    carry: int,
    length: int,
    reverse: bool,
    unroll: int,
    bodies: Sequence[Any],
) -> list[np.ndarray]:
    (body,) = bodies
    constants, state, xs = split(operands, consts, carry)
    ys = [np.empty((length, *t.shape), t.dtype) for t in body.result_types[carry:]]
    for i in range(length - 1, -1, -1) if reverse else range(length):
        # With the ellipsis, a slice of rank 0 is an array, not a scalar.
        values = body(*constants, *state, *[x[i, ...] for x in xs])
        state = values[:carry]
        for y, value in zip(ys, values[carry:], strict=True):
            y[i] = value
    return [*state, *ys]


# ----------------------------------------------------------------------------------- forward mode


def _jvp(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    consts, carry, xs = _parts(inst, inst.operands)
    d_consts, d_carry, d_xs = _parts(inst, tangents)
    (body,) = inst.bodies
    stacked_count = len(inst.result_types) - len(carry)

    def step(nonzero: list[bool]) -> tuple[tuple[Body, list[bool]], list[bool]]:
        given = [*nonzero_mask(d_consts), *nonzero, *nonzero_mask(d_xs)]
        derived, leaving = inst.engine.jvp(body, given, [*nonzero, *[False] * stacked_count])
        return (derived, leaving), leaving[: len(carry)]

    (derived, out_nonzero), nonzero = least_fixed_point(nonzero_mask(d_carry), step)
    if not any(out_nonzero):
        return rebuild(inst), [None] * len(out_nonzero)
    entering = instantiated(d_carry, inst.result_types[: len(carry)], nonzero)
    tangent_consts, tangent_xs = present(d_consts), present(d_xs)

    def emit(
        consts_: list[ir.Value], carry_: list[ir.Value], xs_: list[ir.Value]
    ) -> list[ir.Value]:
        primal_consts, t_consts = split(consts_, len(consts))
        primal_carry, t_carry = split(carry_, len(carry))
        primal_xs, t_xs = split(xs_, len(xs))
        values = derived.inline(
            [*primal_consts, *primal_carry, *primal_xs, *t_consts, *t_carry, *t_xs]
        )
        new_carry, ys, t_out = split(values, len(carry), stacked_count)
        new_t_carry, t_ys = split(t_out, len(entering))
        return [*new_carry, *new_t_carry, *ys, *t_ys]

    final, stacked = _build(
        inst, [*consts, *tangent_consts], [*carry, *entering], [*xs, *tangent_xs], emit
    )
    final_carry, final_tangents = split(final, len(carry))
    ys, ys_tangents = split(stacked, stacked_count)
    return [*final_carry, *ys], spread([*final_tangents, *ys_tangents], out_nonzero)


# -------------------------------------------------------------------------------------- linearize


class _Residual(NamedTuple):
    """The source of a residual of the linear scan: ``consts``, ``xs`` or ``ys``, and its index."""

    source: str
    place: int


def _linearize(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    consts, carry, xs = _parts(inst, inst.operands)
    d_consts, d_carry, d_xs = _parts(inst, tangents)
    (body,) = inst.bodies
    result_count, carry_count = len(inst.result_types), len(carry)

    def step(nonzero: list[bool]) -> tuple[Any, list[bool]]:
        given = [*nonzero_mask(d_consts), *nonzero, *nonzero_mask(d_xs)]
        instantiate = [*nonzero, *[False] * (result_count - carry_count)]
        made = inst.engine.linearize(body, given, instantiate)
        return made, made.out_nonzero[:carry_count]

    parts, nonzero = least_fixed_point(nonzero_mask(d_carry), step)
    if not any(parts.out_nonzero):
        return rebuild(inst), [None] * result_count

    # Values that depend on constants only are computed before the loop and never stacked.
    is_late = [False] * len(consts) + [True] * (len(carry) + len(xs))
    before, inner, _ = partition(parts.forward, is_late, kept_in_scan(inst.params["length"]))
    all_consts = [*consts, *before.inline(consts)]
    values = inner.results
    argument_at = {a: i for i, a in enumerate(inner.arguments)}
    first_x = len(all_consts) + carry_count
    kept: dict[ir.Value, int] = {}
    for i, value in enumerate(values[carry_count:result_count]):
        kept.setdefault(value, i)
    yielded = list(values[:result_count])
    free = [*inner.arguments[: len(all_consts)], *inner.arguments[first_x:], *kept]
    rematerialized = rematerialize(inner, values[result_count:], free)
    residuals: dict[ir.Value, _Residual] = {}
    for leaf in (leaf for made in rematerialized for leaf in made.leaves):
        at = argument_at.get(leaf)
        if at is not None and at < len(all_consts):
            residuals[leaf] = _Residual("consts", at)
        elif at is not None and at >= first_x:
            residuals[leaf] = _Residual("xs", at - first_x)
        else:
            if leaf not in kept:
                kept[leaf] = len(yielded) - carry_count
                yielded.append(leaf)
            residuals[leaf] = _Residual("ys", kept[leaf])
    forward_body = Body.build(
        inner.argument_types, lambda *given: inline_values(inner, given, yielded)
    )

    def forward(*groups: list[ir.Value]) -> list[ir.Value]:
        return forward_body.inline([v for group in groups for v in group])

    final, stacked = _build(inst, all_consts, carry, xs, forward)
    outs = [*final, *stacked[: result_count - carry_count]]

    sources = {"consts": all_consts, "xs": xs, "ys": stacked}
    distinct = list(dict.fromkeys(residuals.values()))
    constant = [r for r in distinct if r.source == "consts"]
    per_slice = [r for r in distinct if r.source != "consts"]
    entering = instantiated(d_carry, inst.result_types[:carry_count], nonzero)

    tangent_consts, tangent_xs = present(d_consts), present(d_xs)
    linear_arguments = split(
        parts.linear.arguments, len(rematerialized), len(tangent_consts), len(entering)
    )
    # A constant that the loop does not use would carry a sum of zeros through the backward pass.
    const_used = [is_used(a) for a in linear_arguments[1]]
    x_used = [is_used(a) for a in linear_arguments[3]]

    def linear(
        consts_: list[ir.Value], carry_: list[ir.Value], xs_: list[ir.Value]
    ) -> list[ir.Value]:
        constant_values, t_consts = split(consts_, len(constant))
        slice_values, t_xs = split(xs_, len(per_slice))
        found = dict(zip([*constant, *per_slice], [*constant_values, *slice_values], strict=True))
        tangents_in = [*spread(t_consts, const_used), *carry_, *spread(t_xs, x_used)]
        leaves = {leaf: found[r] for leaf, r in residuals.items()}
        given = [made.emit(leaves) for made in rematerialized]
        return parts.linear.inline([*given, *tangents_in])

    final_tangents, ys_tangents = _build(
        inst,
        [*(sources[r.source][r.place] for r in constant), *chosen(tangent_consts, const_used)],
        entering,
        [*(sources[r.source][r.place] for r in per_slice), *chosen(tangent_xs, x_used)],
        linear,
    )
    return outs, spread([*final_tangents, *ys_tangents], parts.out_nonzero)


# -------------------------------------------------------------------------------------- transpose


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    const_linear, carry_given, x_linear = _parts(inst, linear)
    consts, carry, xs = _parts(inst, inst.operands)
    (body,) = inst.bodies
    carry_count = len(carry)

    def step(mask: list[bool]) -> tuple[list[bool], list[bool]]:
        dependent = dependent_results(body, [*const_linear, *mask, *x_linear])
        return dependent, dependent[:carry_count]

    # A carry that starts from a nonlinear value (a literal zero) may become linear in the loop.
    dependent, carry_linear = least_fixed_point(carry_given, step)
    fixed_consts, fixed_xs = present(consts), present(xs)
    fixed_carry = _carried_values(inst, [*const_linear, *carry_linear, *x_linear])
    ct_carry, ct_ys = split(cotangents, carry_count)
    y_wanted = [
        ct is not None and depends
        for ct, depends in zip(ct_ys, dependent[carry_count:], strict=True)
    ]
    wanted = [*carry_linear, *y_wanted]
    transposed = inst.engine.transpose(body, [*const_linear, *carry_linear, *x_linear], wanted)
    const_types, carry_types, _ = (
        chosen(types, mask)
        for types, mask in zip(
            _parts(inst, inst.operand_types), (const_linear, carry_linear, x_linear), strict=True
        )
    )
    ct_final = [
        zeros(type_) if ct is None else ct
        for ct, type_ in zip(chosen(ct_carry, carry_linear), carry_types, strict=True)
    ]

    def emit(
        consts_: list[ir.Value], carry_: list[ir.Value], xs_: list[ir.Value]
    ) -> list[ir.Value]:
        totals, ct_state = split(carry_, len(const_types))
        fixed, ct_slices = split(xs_, len(fixed_carry) + len(fixed_xs))
        values = transposed.inline([*consts_, *fixed, *ct_state, *ct_slices])
        terms, ct_rest = split(values, len(const_types))
        return [*(add_cotangents(a, b) for a, b in zip(totals, terms, strict=True)), *ct_rest]

    final, ct_xs = _build(
        inst,
        fixed_consts,
        [*(zeros(t) for t in const_types), *ct_final],
        [*fixed_carry, *fixed_xs, *present(chosen(ct_ys, y_wanted))],
        emit,
        reverse=not inst.params["reverse"],
    )
    ct_consts, ct_initial = split(final, len(const_types))
    return [
        *spread(ct_consts, const_linear),
        # A nonlinear value gets no cotangent, even if it is the initial value of a linear carry.
        *(
            ct if given else None
            for ct, given in zip(spread(ct_initial, carry_linear), carry_given, strict=True)
        ),
        *spread(ct_xs, x_linear),
    ]


def _carried_values(inst: Instance, linear: Sequence[bool]) -> list[ir.Value]:
    """The stacked values of the nonlinear carries at the start of each iteration.

    The transposed scan runs the iterations in reverse order, so these values are computed first.
    """
    _, carry_linear, _ = _parts(inst, linear)
    fixed = [i for i, is_linear in enumerate(carry_linear) if not is_linear]
    if not fixed:
        return []
    consts, carry, xs = _parts(inst, inst.operands)
    early = partition(inst.bodies[0], linear, results=fixed).early

    def emit(*groups: list[ir.Value]) -> list[ir.Value]:
        values = early.inline([v for group in groups for v in group])
        return [*values[: len(fixed)], *groups[1]]

    starts = [carry[i] for i in fixed]
    _, stacked = _build(inst, present(consts), starts, present(xs), emit)
    return stacked


# ---------------------------------------------------------------------------------------- batching


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    const_dims, carry_dims, x_dims = _parts(inst, dims)
    consts, carry, xs = _parts(inst, operands)
    (body,) = inst.bodies
    carry_count = len(carry)
    const_mapped, carry_mapped, x_mapped = (
        [d is not None for d in part] for part in (const_dims, carry_dims, x_dims)
    )
    stacked_count = len(inst.result_types) - carry_count

    def step(mapped: list[bool]) -> tuple[tuple[Body, list[bool]], list[bool]]:
        made, leaving = inst.engine.batch(
            body,
            [*const_mapped, *mapped, *x_mapped],
            axis,
            [*mapped, *[False] * stacked_count],
        )
        return (made, leaving), leaving[:carry_count]

    (batched, out_mapped), mapped = least_fixed_point(carry_mapped, step)
    # Slices are taken along dimension 0, so the batch dimension of stacked values is dimension 1.
    front = [v if d is None else move_dim(v, d, 0) for v, d in zip(consts, const_dims, strict=True)]
    entering = [
        at_dim(v, d, axis.size) if m else v
        for v, d, m in zip(carry, carry_dims, mapped, strict=True)
    ]
    second = [v if d is None else move_dim(v, d, 1) for v, d in zip(xs, x_dims, strict=True)]
    results = inst.op.build([*front, *entering, *second], inst.params, [batched])
    places = [0] * carry_count + [1] * stacked_count
    return results, [place if m else None for place, m in zip(places, out_mapped, strict=True)]


_EXAMPLE = """\
%operands = builtin.unrealized_conversion_cast %start, %xs
    : tensor<f32>, tensor<4xf32> to tuple<tensor<f32>, tensor<4xf32>>
%results = "gnomon.scan"(%operands) ({
^bb0(%carry: tensor<f32>, %x: tensor<f32>):
  %sum = "gnomon.add"(%carry, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  "gnomon.yield"(%sum, %sum) : (tensor<f32>, tensor<f32>) -> ()
}) {consts = 0 : i64, carry = 1 : i64, length = 4 : i64, reverse = false, unroll = 1 : i64}
    : (tuple<tensor<f32>, tensor<4xf32>>) -> tuple<tensor<f32>, tensor<4xf32>>
%total, %sums = builtin.unrealized_conversion_cast %results
    : tuple<tensor<f32>, tensor<4xf32>> to tensor<f32>, tensor<4xf32>"""


scan = Op(
    name="scan",
    doc="apply a body a fixed number of times to carried values and to slices along dimension 0, "
    "and stack the results for each slice",
    example=_EXAMPLE,
    attributes={"consts": INT, "carry": INT, "length": INT, "reverse": BOOL, "unroll": INT},
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
)

__all__ = ["scan"]
