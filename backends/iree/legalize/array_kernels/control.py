"""Loops and branches in a kernel of vector code."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gnomon.backends.iree.legalize.array_kernels.carries import Carries
from gnomon.backends.iree.legalize.array_kernels.code import Kernel, shape_of
from gnomon.backends.iree.legalize.array_kernels.layout import Layout, Splat, View
from gnomon.backends.iree.legalize.control.counters import counter_of
from gnomon.backends.iree.legalize.control.host_scalars import CONSTANT, value_of
from gnomon.backends.iree.legalize.loop_kernels.regions import branch, repeat
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    UnsupportedError,
    index,
    number,
    scalar,
    signless,
)
from gnomon.dialects.mlir import ir

__all__ = ["case", "loop"]

# The trip count that is assumed for a loop whose trip count is not known.
_UNKNOWN_TRIPS = 100


def _literal(old: ir.Value) -> int | None:
    owner = old.owner
    if isinstance(owner, ir.Block) or owner.name != CONSTANT:
        return None
    return int(value_of(owner.operation))


def loop(kernel: Kernel, op: ir.Operation, targets: Sequence[View | None] = ()) -> list[Layout]:
    """The rule of ``stablehlo.while``; ``targets`` gives memory for results."""
    kernel.flush_all()
    cond, body = (region.blocks[0] for region in op.regions)
    carries = Carries(kernel, op, targets or [None] * len(op.operands))
    counter = counter_of(cond, body)
    if counter is None:
        return carries.results(_repeat(kernel, carries, cond, body))
    numbers = [i for i, view in enumerate(carries.views) if view is None]
    start, bound = op.operands[counter.index], counter.bound
    literal_bounds = _literal(start), _literal(bound)
    times = float(_UNKNOWN_TRIPS)
    if literal_bounds[0] is not None and literal_bounds[1] is not None:
        times = max(1.0, (literal_bounds[1] - literal_bounds[0]) / counter.step)
    bounds = (
        *(scalar("arith.index_cast", [kernel.number_of(v)], index()) for v in (start, bound)),
        number(index(), counter.step),
    )
    type_ = start.type.element_type

    def iteration(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        with kernel.inside(i.owner):
            carried[numbers.index(counter.index)] = scalar("arith.index_cast", [i], type_)
            carries.enter(body, carried)
            return carries.leave(kernel.block(body))

    return carries.results(kernel.count(bounds, times, carries.initial, iteration))


def _repeat(kernel: Kernel, carries: Carries, cond: ir.Block, body: ir.Block) -> list[ir.Value]:
    """A loop without a counter."""

    def condition(numbers: list[ir.Value]) -> ir.Value:
        carries.enter(cond, numbers)
        (tested,) = kernel.block(cond)
        return kernel.number_of(tested)

    def iteration(numbers: list[ir.Value]) -> list[ir.Value]:
        carries.enter(body, numbers)
        return carries.leave(kernel.block(body))

    with kernel.repeated(_UNKNOWN_TRIPS):
        return repeat(kernel, carries.initial, condition, iteration)


def case(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    """The rule of ``stablehlo.case``."""
    kernel.flush_all()
    chosen = kernel.number_of(op.operands[0])
    blocks = [region.blocks[0] for region in op.regions]
    shapes = [shape_of(r) for r in op.results]
    if any(not math.prod(shape) for shape in shapes):
        raise UnsupportedError("an array without elements")
    views = [
        None if math.prod(shape) == 1 else kernel.dense(r.type.element_type, shape)
        for r, shape in zip(op.results, shapes, strict=True)
    ]
    types = [_number_type(r) for r, view in zip(op.results, views, strict=True) if view is None]

    def emit(block: ir.Block) -> list[ir.Value]:
        numbers = []
        for old, view in zip(kernel.block(block), views, strict=True):
            layout = kernel.layout(old)
            if view is not None:
                kernel.copy(layout, view)
            else:
                assert isinstance(layout, Splat)
                numbers.append(layout.value)
        return numbers

    numbers = iter(branch(kernel, chosen, blocks, types, emit))
    return [
        Splat(next(numbers), shape) if view is None else view
        for shape, view in zip(shapes, views, strict=True)
    ]


def _number_type(value: ir.Value) -> ir.Type:
    return signless(value.type.element_type)
