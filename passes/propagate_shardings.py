"""Propagation of shardings from the arguments of a program to its values.

The sharding of a value is a tuple with the names of the mesh axes that split each dimension. The
``sharding`` facet of an op says how its results are split (see `gnomon.dialects.sharding_rules`);
this module follows programs, their loops and their branches.

An `Inspected` is reported for each value whose sharding the program asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.contract import bodies_of, lookup, params_of
from gnomon.dialects.inspect_sharding import inspect_sharding
from gnomon.dialects.mlir import ir
from gnomon.dialects.sharding_rules import Shape, Split, SplitUse
from gnomon.dialects.types import type_of

__all__ = ["Inspected", "Split", "joined", "propagate"]


@dataclass(frozen=True)
class Inspected:
    """A value whose sharding a program asks for (``gnomon.inspect_sharding``).

    Attributes:
      callback: the number of the callback that receives the sharding.
      split: the sharding of the value.
    """

    callback: int
    split: Split


def unsplit(shape: Shape) -> Split:
    """The sharding of a value that no axis splits."""
    return ((),) * len(shape)


def propagate(
    body: Body,
    splits: Sequence[Split],
    sizes: Mapping[str, int],
    findings: list[Inspected] | None = None,
) -> list[Split]:
    """The shardings of the results of a body without calls, given those of its arguments."""
    split_of: dict[ir.Value, Split] = dict(zip(body.arguments, splits, strict=True))
    reported: list[Inspected] = [] if findings is None else findings
    for op in body.operations:
        operands = operands_of(op)
        incoming = [split_of[v] for v in operands]
        results = results_of(op)
        outgoing = _of_operation(op, operands, results, incoming, sizes, reported)
        split_of.update(zip(results, outgoing, strict=True))
    return [split_of[v] for v in body.results]


def _of_operation(
    op: ir.Operation,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Value],
    incoming: Sequence[Split],
    sizes: Mapping[str, int],
    findings: list[Inspected],
) -> list[Split]:
    definition = lookup(op)
    name = op.name.removeprefix("gnomon.")
    params = params_of(op, definition)
    shapes = [type_of(v).shape for v in results]
    if name in _STRUCTURED:
        return _STRUCTURED[name](params, bodies_of(op), incoming, shapes, sizes, findings)
    if definition.is_control_flow:
        (first, *_) = bodies_of(op)
        if len(first.arguments) == len(incoming):
            return propagate(first, incoming, sizes, findings)
        return [unsplit(shape) for shape in shapes]
    if definition is inspect_sharding:
        findings.append(Inspected(params["callback"], incoming[0]))
        return []
    of_operands = [type_of(v).shape for v in operands]
    use = SplitUse(name, params, of_operands, shapes, incoming, sizes)
    return definition.sharding.automatic(use)


def joined(first: Split, second: Split) -> Split:
    """The first of two shardings; the second splits the dimensions that the first leaves whole."""
    used = {axis for axes in first for axis in axes}
    united = []
    for first_axes, second_axes in zip(first, second, strict=True):
        axes = first_axes or (second_axes if used.isdisjoint(second_axes) else ())
        united.append(axes)
        used.update(axes)
    return tuple(united)


def _stable(
    step: Callable[[list[Split]], list[Split]], carry: list[Split]
) -> tuple[list[Split], list[Split]]:
    """The fixed point of the shardings of a loop's carries, and the results of the last step."""
    while True:
        results = step(carry)
        grown = [joined(old, leaving) for old, leaving in zip(carry, results, strict=False)]
        if grown == carry:
            return carry, results
        carry = grown


def _scan(
    params: Mapping[str, Any],
    bodies: Sequence[Body],
    incoming: Sequence[Split],
    shapes: Sequence[Shape],
    sizes: Mapping[str, int],
    findings: list[Inspected],
) -> list[Split]:
    consts, count = params["consts"], params["carry"]
    fixed, slices = list(incoming[:consts]), [split[1:] for split in incoming[consts + count :]]

    def step(carry: list[Split]) -> list[Split]:
        return propagate(bodies[0], [*fixed, *carry, *slices], sizes)

    carry, results = _stable(step, list(incoming[consts : consts + count]))
    propagate(bodies[0], [*fixed, *carry, *slices], sizes, findings)
    return [*carry, *(((), *split) for split in results[count:])]


def _while(
    params: Mapping[str, Any],
    bodies: Sequence[Body],
    incoming: Sequence[Split],
    shapes: Sequence[Shape],
    sizes: Mapping[str, int],
    findings: list[Inspected],
) -> list[Split]:
    start = params["cond_consts"]
    first = start + params["body_consts"]
    fixed = list(incoming[start:first])

    def step(carry: list[Split]) -> list[Split]:
        return propagate(bodies[1], [*fixed, *carry], sizes)

    carry, _ = _stable(step, list(incoming[first:]))
    propagate(bodies[1], [*fixed, *carry], sizes, findings)
    return carry


def _switch(
    params: Mapping[str, Any],
    bodies: Sequence[Body],
    incoming: Sequence[Split],
    shapes: Sequence[Shape],
    sizes: Mapping[str, int],
    findings: list[Inspected],
) -> list[Split]:
    united = None
    for body in bodies:
        results = propagate(body, incoming[1:], sizes, findings)
        united = results if united is None else list(map(joined, united, results))
    return united or []


_STRUCTURED: dict[str, Callable[..., list[Split]]] = {
    "scan": _scan,
    "while": _while,
    "switch": _switch,
}
