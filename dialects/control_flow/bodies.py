"""Building blocks of the rules of region ops: partitions, fixed points, and masks of bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from gnomon.dialects.body import Body, clone_into, operands_of, results_of
from gnomon.dialects.combinators import describe
from gnomon.dialects.contract import (
    ENGINE,
    Instance,
    TypeRuleError,
    bodies_of,
    has_effects,
    instance_of,
    lookup,
)
from gnomon.dialects.emit import broadcast_new_dim, constant, move_dim, ops, zeros
from gnomon.dialects.functions import Program, callee
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import may_be_zero
from gnomon.dialects.types import TensorType, type_of

T = TypeVar("T")
Tangent: TypeAlias = "ir.Value | None"

_I32 = np.dtype(np.int32)


def split(values: Sequence[T], *counts: int) -> list[list[T]]:
    """Split a list into parts of the given lengths, followed by the rest."""
    parts, at = [], 0
    for count in counts:
        parts.append(list(values[at : at + count]))
        at += count
    return [*parts, list(values[at:])]


def nonzero_mask(tangents: Sequence[Tangent]) -> list[bool]:
    """The mask of the tangents that are not symbolic zeros."""
    return [t is not None for t in tangents]


def present(tangents: Sequence[Tangent]) -> list[ir.Value]:
    """The tangents that are not symbolic zeros."""
    return [t for t in tangents if t is not None]


def chosen(values: Sequence[T], mask: Sequence[bool]) -> list[T]:
    """The values for which the mask is true."""
    return [v for v, keep in zip(values, mask, strict=True) if keep]


def spread(values: Sequence[T], mask: Sequence[bool]) -> list[T | None]:
    """The inverse of `chosen`: ``None`` where the mask is false."""
    given = iter(values)
    return [next(given) if keep else None for keep in mask]


def instantiated(
    tangents: Sequence[Tangent], types: Sequence[TensorType], mask: Sequence[bool]
) -> list[ir.Value]:
    """The tangents for which the mask is true; symbolic zeros become arrays of zeros."""
    return [
        zeros(type_) if tangent is None else tangent
        for tangent, type_, keep in zip(tangents, types, mask, strict=True)
        if keep
    ]


def is_used(value: ir.Value) -> bool:
    """Whether a value has uses."""
    return next(iter(value.uses), None) is not None


def either(a: Sequence[bool], b: Sequence[bool]) -> list[bool]:
    """The union of two masks."""
    return [x or y for x, y in zip(a, b, strict=True)]


def least_fixed_point(
    start: Sequence[bool], step: Callable[[list[bool]], tuple[T, Sequence[bool]]]
) -> tuple[T, list[bool]]:
    """Grow a mask of the carries until a step adds nothing.

    ``step`` takes the mask on entry to an iteration and returns a result and the mask on exit.

    Returns:
      The result of the last step, and the mask.
    """
    mask = list(start)
    while True:
        made, leaving = step(mask)
        grown = either(mask, leaving)
        if grown == mask:
            return made, mask
        mask = grown


def rebuild(inst: Instance) -> list[ir.Value]:
    """Rebuild the op on ``inst.operands`` at the current insertion point; return its results."""
    return inst.op.build(inst.operands, inst.params, [body.clone() for body in inst.bodies])


def needed_operations(
    body: Body, wanted: Sequence[ir.Value]
) -> tuple[list[ir.Operation], set[ir.Value]]:
    """The ops, in order, on which values of a body depend, and all values that those ops use.

    Ops with effects are always included.
    """
    needed = set(wanted)
    found: list[ir.Operation] = []
    for op in reversed(list(body.operations)):
        if any(r in needed for r in results_of(op)) or has_effects(op):
            found.append(op)
            needed.update(operands_of(op))
    return found[::-1], needed


def needed_arguments(body: Body, results: Sequence[bool]) -> list[bool]:
    """The mask of the arguments on which the results in a mask depend."""
    _, needed = needed_operations(body, chosen(body.results, results))
    return [a in needed for a in body.arguments]


def inline_values(
    body: Body, operands: Sequence[ir.Value | None], wanted: Sequence[ir.Value]
) -> list[ir.Value]:
    """Like `Body.inline`, for any values of the body; clones only the ops that they depend on.

    An operand may be ``None`` if those ops do not use the argument.
    """
    env = dict(zip(body.arguments, operands, strict=True))
    for op in needed_operations(body, wanted)[0]:
        clone_into(op, env)
    return [env[v] for v in wanted]


# ------------------------------------------------------------ ops that are defined by their body


def evaluate_body(
    *operands: np.ndarray, bodies: Sequence[Callable[..., Any]], **params: Any
) -> Any:
    """Evaluate an op that is defined by its first body."""
    return bodies[0](*operands)


def inline_body(inst: Instance) -> list[ir.Value]:
    """Inline an op that is defined by its first body."""
    return inst.bodies[0].inline(inst.operands)


def transpose_body(
    inst: Instance, cotangents: Sequence[Tangent], linear: Sequence[bool]
) -> list[Tangent]:
    """Transpose an op that is defined by its first body, which is linear in some operands."""
    nonzero = nonzero_mask(cotangents)
    body, found = inst.engine.transpose_without_zeros(inst.bodies[0], linear, nonzero)
    return spread(body.inline([*present(inst.operands), *present(cotangents)]), found)


def in_front(operands: Sequence[ir.Value], dims: Sequence[int | None]) -> list[ir.Value]:
    """Move the batch dimension of batched operands to the front."""
    return [v if d is None else move_dim(v, d, 0) for v, d in zip(operands, dims, strict=True)]


# ------------------------------------------------------------------------------------- type checks


def check_arguments(
    op: str, body: str, expected: Sequence[TensorType], given: Sequence[TensorType], what: str
) -> None:
    """Raise `TypeRuleError` unless a body has the argument types that the op passes to it."""
    if list(expected) != list(given):
        raise TypeRuleError(
            f"gnomon.{op}: the {body} takes ({describe(given)}), "
            f"but the op passes {what}: ({describe(expected)})"
        )


def check_carry(
    op: str, body: str, entering: Sequence[TensorType], leaving: Sequence[TensorType]
) -> None:
    """Raise `TypeRuleError` unless a body returns every carry with the type that it takes."""
    if len(entering) > len(leaving):
        raise TypeRuleError(
            f"gnomon.{op}: the {body} must return the {len(entering)} carries "
            f"({describe(entering)}), but it returns ({describe(leaving)})"
        )
    for i, (before, after) in enumerate(zip(entering, leaving, strict=False)):
        if before != after:
            raise TypeRuleError(
                f"gnomon.{op}: carry {i} enters the {body} as {before} and leaves it as {after}; "
                "a carry must keep its shape and dtype"
            )


# ------------------------------------------------------------------------------------- dependence


def dependent_results(body: Body, arguments: Sequence[bool]) -> list[bool]:
    """The mask of the results that depend on the arguments in a mask."""
    dependent = set(chosen(body.arguments, arguments))
    for op in body.operations:
        if any(operand in dependent for operand in operands_of(op)):
            dependent.update(results_of(op))
    return [r in dependent for r in body.results]


def may_not_end(op: ir.Operation, program: Program | None = None) -> bool:
    """Whether an op contains a ``gnomon.while`` at any depth, so that it may not terminate.

    Callees are examined if the program is given; otherwise any call may not terminate.
    """
    if op.name == "gnomon.while":
        return True
    definition = lookup(op)
    if definition.evaluate is ENGINE or "callee" in op.attributes:
        return program is None or body_may_not_end(program.body(callee(op)), program)
    if not definition.is_control_flow:
        return False
    return any(body_may_not_end(body, program) for body in bodies_of(op))


def body_may_not_end(body: Body, program: Program | None = None) -> bool:
    """Whether any op of a body may not terminate; see `may_not_end`."""
    return any(may_not_end(op, program) for op in body.operations)


def kept_in_scan(length: Any) -> Callable[[ir.Operation], bool]:
    """A predicate for the ops that must not leave the body of a scan of a length.

    Before a scan of length 0, which runs no op, an op that does not terminate must not run.
    """
    return may_not_end if may_be_zero(length) else lambda op: False


class Partition(NamedTuple):
    """A body that was split by dependence on its late arguments.

    Attributes:
      early: maps the early arguments to the requested results, followed by the crossing values.
      late: maps early arguments, crossing values and late arguments to all results of the body.
      crossing: the types of the values that early ops compute and that late ops or results use.
    """

    early: Body
    late: Body
    crossing: list[TensorType]


def partition(
    body: Body,
    is_late: Sequence[bool],
    keep_late: Callable[[ir.Operation], bool] = lambda op: False,
    results: Sequence[int] = (),
) -> Partition:
    """Split a body in two; the body itself is not changed.

    Args:
      body: the body to split.
      is_late: the mask of the late arguments.
      keep_late: a predicate of ops that are late even if all their operands are early. Ops with
        effects are always late.
      results: positions of results, none of them late, that the early body also returns.
    """
    arguments = body.arguments
    late_values = set(chosen(arguments, is_late))
    early_ops: list[ir.Operation] = []
    late_ops: list[ir.Operation] = []
    # An op without operands (a literal, a ramp) is cloned into each half that needs it.
    literals: dict[ir.Value, ir.Operation] = {}
    for op in body.operations:
        if has_effects(op):
            late_ops.append(op)
            late_values.update(results_of(op))
        elif not op.operands and not op.regions:
            literals.update((r, op) for r in results_of(op))
        elif any(v in late_values for v in operands_of(op)) or keep_late(op):
            late_ops.append(op)
            late_values.update(results_of(op))
        else:
            early_ops.append(op)
    early_values = {r for op in early_ops for r in results_of(op)}
    body_results = body.results
    used = [v for op in late_ops for v in operands_of(op)]
    crossing = list(dict.fromkeys(v for v in (*used, *body_results) if v in early_values))

    early_arguments = [a for a, late in zip(arguments, is_late, strict=True) if not late]
    late_arguments = chosen(arguments, is_late)

    def emit(
        taken: Sequence[ir.Value], operations: list[ir.Operation], wanted: Sequence[ir.Value]
    ) -> Callable[..., list[ir.Value]]:
        def run(*given: ir.Value) -> list[ir.Value]:
            env = dict(zip(taken, given, strict=True))
            needed = {v for op in operations for v in operands_of(op)} | set(wanted)
            for op in dict.fromkeys(literals[v] for v in literals if v in needed):
                clone_into(op, env)
            for op in operations:
                clone_into(op, env)
            return [env[v] for v in wanted]

        return run

    def types(values: Sequence[ir.Value]) -> list[TensorType]:
        return [type_of(v) for v in values]

    given_early = [*(body_results[i] for i in results), *crossing]
    early = Body.build(types(early_arguments), emit(early_arguments, early_ops, given_early))
    taken = [*early_arguments, *crossing, *late_arguments]
    late = Body.build(types(taken), emit(taken, late_ops, body_results))
    return Partition(early, late, types(crossing))


def without_effects(body: Body) -> Body:
    """A copy of a body without its ops with effects.

    Raises:
      TypeRuleError: an op with effects has results, or is a call.
    """

    def strip(body: Body, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        env = dict(zip(body.arguments, arguments, strict=True))
        for op in body.operations:
            if not has_effects(op):
                clone_into(op, env)
                continue
            definition = lookup(op)
            if definition.is_control_flow:
                inst = instance_of(op, [env[v] for v in operands_of(op)])
                inner = [without_effects(b) for b in inst.bodies]
                env.update(
                    zip(
                        results_of(op),
                        inst.op.build(inst.operands, inst.params, inner),
                        strict=True,
                    )
                )
            elif results_of(op) or "callee" in op.attributes:
                raise TypeRuleError(
                    f"{op.name} has effects and would have to run twice, once for the values of "
                    f"the loop around it and once for their derivatives ({op.location}). Use "
                    "lax.scan, or move the effect out of the loop"
                )
        return [env[r] for r in body.results]

    return Body.build(body.argument_types, lambda *arguments: strip(body, arguments))


# --------------------------------------------------------------------------------------- batching


def select_elements(predicate: ir.Value, on_true: ir.Value, on_false: ir.Value) -> ir.Value:
    """Select between values with a leading batch dimension by one predicate per batch element."""
    shape = type_of(on_true).shape
    if len(shape) > 1:
        predicate = ops.broadcast_in_dim(predicate, shape=shape, dims=(0,))
    return ops.select(predicate, on_true, on_false)


def replace_unselected(
    predicate: ir.Value, values: Sequence[ir.Value], batched: Sequence[bool]
) -> list[ir.Value]:
    """Replace every unselected batch element by the first selected one.

    A loop that terminates for each selected element may not terminate for the others. After the
    replacement they compute the result of a selected element, which is not used. At least one
    element must be selected.
    """
    (size,) = type_of(predicate).shape
    if size == 0:
        return list(values)
    first = ops.argmax(predicate, axis=0, index_dtype=_I32)
    replaced = []
    for value, has_batch in zip(values, batched, strict=True):
        if not has_batch:
            replaced.append(value)
            continue
        shape = type_of(value).shape
        starts = [first, *(constant(np.int32(0)) for _ in shape[1:])]
        window = ops.dynamic_slice(value, *starts, sizes=(1, *shape[1:]))
        element = ops.reshape(window, shape=shape[1:])
        repeated = ops.stop_gradient(broadcast_new_dim(element, size))
        replaced.append(select_elements(predicate, value, repeated))
    return replaced
