"""``gnomon.switch``: run one of several branches, chosen by an index; the basis of ``lax.cond``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.body import Body
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    describe,
    require,
    stablehlo,
    stablehlo_constant,
    to_front,
)
from gnomon.dialects.contract import Instance, MappedAxis, Op
from gnomon.dialects.control_flow.bodies import (
    body_may_not_end,
    check_arguments,
    chosen,
    either,
    is_used,
    nonzero_mask,
    present,
    rebuild,
    replace_unselected,
    select_elements,
    spread,
)
from gnomon.dialects.emit import at_dim, constant, ops, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import BODIES, Form
from gnomon.dialects.types import TensorType, is_inexact, mlir_type, type_of

_INDEX = TensorType((), np.dtype(np.int32))

Arrays = Sequence[np.ndarray]


def _infer(
    index: TensorType, *operands: TensorType, bodies: Sequence[Body]
) -> tuple[TensorType, ...]:
    require(index == _INDEX, "switch", f"the index must be {_INDEX}, got {index}")
    require(len(bodies) > 0, "switch", "at least one branch is needed, got none")
    first = bodies[0].result_types
    for i, body in enumerate(bodies):
        check_arguments("switch", f"branch {i}", operands, body.argument_types, "its operands")
        types = body.result_types
        require(
            len(types) == len(first),
            "switch",
            "all branches must return the same types: branch 0 returns "
            f"({describe(first)}), branch {i} returns ({describe(types)})",
        )
        for position, (a, b) in enumerate(zip(first, types, strict=True)):
            require(
                a == b,
                "switch",
                f"all branches must return the same types: result {position} is {a} in branch 0 "
                f"and {b} in branch {i}",
            )
    return tuple(first)


def _evaluate(
    index: np.ndarray, *operands: np.ndarray, bodies: Sequence[Callable[..., Arrays]]
) -> Arrays:
    return bodies[min(max(int(index), 0), len(bodies) - 1)](*operands)


# --------------------------------------------------------------------------------- differentiation


def _with_zeros(
    tangents: Values, nonzero: Sequence[bool], wanted: Sequence[bool], types: Sequence[TensorType]
) -> list[ir.Value]:
    """The tangents of a branch, with zeros for tangents that only other branches have."""
    return [
        zeros(type_) if tangent is None else tangent
        for tangent, type_, keep in zip(spread(tangents, nonzero), types, wanted, strict=True)
        if keep
    ]


def _jvp(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    types = inst.result_types
    nonzero = nonzero_mask(tangents[1:])
    derived = [inst.engine.jvp(body, nonzero) for body in inst.bodies]
    joined = [False] * len(types)
    for _, out_nonzero in derived:
        joined = either(joined, out_nonzero)
    operands = [*inst.operands, *present(tangents)]

    def branch(body: Body, out_nonzero: Sequence[bool]) -> Body:
        def emit(*arguments: ir.Value) -> list[ir.Value]:
            values = body.inline(arguments)
            primals, given = values[: len(types)], values[len(types) :]
            return [*primals, *_with_zeros(given, out_nonzero, joined, types)]

        return Body.build(body.argument_types, emit)

    values = inst.op.build(operands, {}, [branch(*pair) for pair in derived])
    return values[: len(types)], spread(values[len(types) :], joined)


def _linearize(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    types, count = inst.result_types, len(inst.result_types)
    index, *operands = inst.operands
    operand_types = inst.operand_types[1:]
    nonzero = nonzero_mask(tangents[1:])
    parts = [inst.engine.linearize(body, nonzero) for body in inst.bodies]
    joined = [False] * count
    for part in parts:
        joined = either(joined, part.out_nonzero)
    if not any(joined):
        return rebuild(inst), [None] * count

    # Only one branch runs, so branches share slots for residuals of equal type.
    slots: list[TensorType] = []
    places: list[list[int | None]] = []
    for part in parts:
        free: dict[TensorType, list[int]] = defaultdict(list)
        for i, type_ in enumerate(slots):
            free[type_].append(i)
        taken: list[int | None] = []
        for type_, argument in zip(part.residual_types, part.residual_arguments, strict=True):
            if argument is not None:  # an operand of the switch need not be saved
                taken.append(None)
            elif free[type_]:
                taken.append(free[type_].pop(0))
            else:
                taken.append(len(slots))
                slots.append(type_)
        places.append(taken)

    def forward_branch(part: Any, taken: Sequence[int | None]) -> Body:
        def emit(*arguments: ir.Value) -> list[ir.Value]:
            values = part.forward.inline(arguments)
            residuals = {
                place: value
                for place, value in zip(taken, values[count:], strict=True)
                if place is not None
            }
            kept = [residuals[i] if i in residuals else zeros(t) for i, t in enumerate(slots)]
            return [*values[:count], *kept]

        return Body.build(operand_types, emit)

    values = inst.op.build(
        [index, *operands],
        {},
        [forward_branch(p, taken) for p, taken in zip(parts, places, strict=True)],
    )

    shared = sorted({a for part in parts for a in part.residual_arguments if a is not None})
    # Leave out tangents that no branch uses: they would get zero cotangents.
    used = [
        any(map(is_used, arguments))
        for arguments in zip(
            *(p.linear.arguments[len(p.residual_types) :] for p in parts), strict=True
        )
    ]
    given_tangents = chosen(present(tangents), used)
    linear_operands = [*(operands[a] for a in shared), *values[count:], *given_tangents]

    def linear_branch(part: Any, taken: Sequence[int | None]) -> Body:
        def emit(*arguments: ir.Value) -> list[ir.Value]:
            slot_values = arguments[len(shared) : len(shared) + len(slots)]
            residuals = [
                arguments[shared.index(argument)] if place is None else slot_values[place]
                for place, argument in zip(taken, part.residual_arguments, strict=True)
            ]
            given = arguments[len(shared) + len(slots) :]
            found = part.linear.inline([*residuals, *spread(given, used)])
            return _with_zeros(found, part.out_nonzero, joined, types)

        return Body.build([type_of(v) for v in linear_operands], emit)

    out = inst.op.build(
        [index, *linear_operands],
        {},
        [linear_branch(p, taken) for p, taken in zip(parts, places, strict=True)],
    )
    return values[:count], spread(out, joined)


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    index, *operands = inst.operands
    flags = linear[1:]
    nonzero = nonzero_mask(cotangents)
    bodies = [inst.engine.transpose(body, flags, nonzero) for body in inst.bodies]
    given = [*(v for v in operands if v is not None), *present(cotangents)]
    return [None, *spread(inst.op.build([index, *given], {}, bodies), flags)]


# ---------------------------------------------------------------------------------------- batching


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    index, *values = to_front(operands, dims, axis, only_batched=True)
    mapped = [d is not None for d in dims[1:]]
    if dims[0] is not None:
        return _batch_by_element(inst, index, values, mapped, axis)
    batched = [inst.engine.batch(body, mapped, axis) for body in inst.bodies]
    joined = [False] * len(inst.result_types)
    for _, out_mapped in batched:
        joined = either(joined, out_mapped)

    def branch(body: Body, out_mapped: Sequence[bool]) -> Body:
        def emit(*arguments: ir.Value) -> list[ir.Value]:
            return [
                at_dim(r, None, axis.size) if wanted and not has else r
                for r, has, wanted in zip(body.inline(arguments), out_mapped, joined, strict=True)
            ]

        return Body.build(body.argument_types, emit)

    results = inst.op.build([index, *values], {}, [branch(*pair) for pair in batched])
    return results, [0 if m else None for m in joined]


def _batch_by_element(
    inst: Instance,
    index: ir.Value,
    values: list[ir.Value],
    mapped: Sequence[bool],
    axis: MappedAxis,
) -> tuple[list[ir.Value], list[int | None]]:
    """Run all branches on all batch elements and select by the index of each element."""
    last = len(inst.bodies) - 1
    results: list[ir.Value] | None = None
    for i in reversed(range(len(inst.bodies))):
        body, _ = inst.engine.batch(inst.bodies[i], mapped, axis, force=True)
        bound = at_dim(constant(np.int32(i)), None, axis.size)
        chosen_here = (ops.le if i == 0 else ops.ge if i == last else ops.eq)(index, bound)
        if last == 0:
            return body.inline(values), [0] * len(inst.result_types)
        if body_may_not_end(inst.bodies[i], inst.engine.program):
            found = _run_if_any(inst.op, body, chosen_here, values, mapped)
        else:
            found = body.inline(_shield(chosen_here, values, mapped))
        if results is None:
            results = found
        else:
            results = [
                select_elements(chosen_here, new, old)
                for new, old in zip(found, results, strict=True)
            ]
    assert results is not None
    return results, [0] * len(results)


def _shield(predicate: ir.Value, values: Values, mapped: Sequence[bool]) -> list[ir.Value]:
    """Stop the gradient of the elements that do not choose the branch.

    Otherwise their cotangent would be zero times a derivative that may be infinite: nan.
    """
    return [
        select_elements(predicate, v, ops.stop_gradient(v))
        if has_batch and is_inexact(type_of(v).dtype)
        else v
        for v, has_batch in zip(values, mapped, strict=True)
    ]


def _run_if_any(
    switch_op: Op, body: Body, predicate: ir.Value, values: Values, mapped: Sequence[bool]
) -> list[ir.Value]:
    """Run a branch that may not terminate, with the elements that do not choose it replaced."""
    some = ops.reduce_or(predicate, axes=(0,))
    result_types = body.result_types

    def run(selected: ir.Value, *arguments: ir.Value) -> list[ir.Value]:
        return body.inline(replace_unselected(selected, arguments, mapped))

    def skip(selected: ir.Value, *arguments: ir.Value) -> list[ir.Value]:
        return [zeros(t) for t in result_types]

    types = [type_of(predicate), *body.argument_types]
    bodies = [Body.build(types, skip), Body.build(types, run)]
    return switch_op.build([ops.convert(some, dtype=_INDEX.dtype), predicate, *values], {}, bodies)


# ---------------------------------------------------------------------------------------- lowering


def _lower(inst: Instance) -> list[ir.Value]:
    index, *operands = inst.operands
    # StableHLO's case runs the last branch for every index out of range; ours clamps.
    bounds = [stablehlo_constant(np.asarray(n, np.int32)) for n in (0, len(inst.bodies) - 1)]
    (clamped,) = stablehlo("clamp", [bounds[0], index, bounds[1]], [_INDEX])
    created = ir.Operation.create(
        "stablehlo.case",
        results=[mlir_type(t) for t in inst.result_types],
        operands=[clamped],
        regions=len(inst.bodies),
    )
    for region, body in zip(created.regions, inst.bodies, strict=True):
        inst.engine.fill(region, body, captured=operands)
    return list(created.results)


_EXAMPLE = """\
%operands = builtin.unrealized_conversion_cast %index, %x
    : tensor<i32>, tensor<f32> to tuple<tensor<i32>, tensor<f32>>
%y = "gnomon.switch"(%operands) ({
  "gnomon.branch"() ({
  ^bb0(%a: tensor<f32>):
    %sine = "gnomon.sin"(%a) : (tensor<f32>) -> tensor<f32>
    "gnomon.yield"(%sine) : (tensor<f32>) -> ()
  }) : () -> ()
  "gnomon.branch"() ({
  ^bb0(%a: tensor<f32>):
    %cosine = "gnomon.cos"(%a) : (tensor<f32>) -> tensor<f32>
    "gnomon.yield"(%cosine) : (tensor<f32>) -> ()
  }) : () -> ()
}) : (tuple<tensor<i32>, tensor<f32>>) -> tensor<f32>"""


switch = Op(
    name="switch",
    doc="run the branch with the given index, clamped to the number of branches, on the operands",
    example=_EXAMPLE,
    results=None,
    regions=...,
    form=Form.CONTROL,
    stablehlo=("case",),
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

__all__ = ["switch"]
