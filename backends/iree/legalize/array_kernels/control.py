"""Loops and branches in a kernel of vector code.

A carry of one element is a number. Any other has a buffer, which the end of an iteration overwrites
with the new values, except where the body has updated it in place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gnomon.backends.iree.legalize.array_kernels.code import Kernel, shape_of
from gnomon.backends.iree.legalize.array_kernels.layout import Buffer, Layout, Splat, View
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


class _Carries:
    """The carries of a loop: numbers, and buffers of arrays.

    Args:
      kernel: the kernel.
      op: the loop.
      targets: memory for some of the results.
    """

    def __init__(self, kernel: Kernel, op: ir.Operation, targets: Sequence[View | None]) -> None:
        self.kernel = kernel
        self.shapes = [shape_of(v) for v in op.operands]
        self.views: list[View | None] = []
        self.initial: list[ir.Value] = []
        for old, target in zip(op.operands, targets, strict=True):
            layout = kernel.layout(old)
            if not math.prod(layout.shape):
                raise UnsupportedError("an array without elements")
            if math.prod(layout.shape) == 1:
                assert isinstance(layout, Splat)
                self.initial.append(layout.value)
                self.views.append(None)
                continue
            view = target or kernel.dense(old.type.element_type, layout.shape)
            kernel.copy(layout, view)
            self.views.append(view)

    def enter(self, arguments: Sequence[ir.Value], numbers_inside: Sequence[ir.Value]) -> None:
        """Define the arguments of a region of the loop, inside of it."""
        numbers = iter(numbers_inside)
        for old, shape, view in zip(arguments, self.shapes, self.views, strict=True):
            if view is None:
                self.kernel.set(old, Splat(next(numbers), shape))
            else:
                assert view.buffer is not None
                view.buffer.owner = self.kernel.depth
                self.kernel.set(old, view)

    def leave(self, leaving: Sequence[ir.Value]) -> list[ir.Value]:
        """Overwrite the buffers at the end of an iteration; return the numbers."""
        kernel = self.kernel
        out = []
        moved: list[tuple[Layout, View]] = []
        buffers = {view.buffer for view in self.views if view is not None}
        for old, view in zip(leaving, self.views, strict=True):
            layout = kernel.layout(old)
            if view is None:
                assert isinstance(layout, Splat)
                out.append(layout.value)
            elif layout != view:
                moved.append((layout, view))
        if len(moved) > 1:
            # A new value in the buffer of another carry would be overwritten before it is read.
            moved = [(self._apart(x, view, buffers), view) for x, view in moved]
        else:
            moved = [
                (self._apart(x, view, buffers), view)
                if isinstance(x, View) and x.buffer is view.buffer
                else (x, view)
                for x, view in moved
            ]
        for layout, view in moved:
            kernel.copy(layout, view)
        return out

    def _apart(self, layout: Layout, view: View, buffers: set[Buffer | None]) -> Layout:
        if isinstance(layout, View) and layout.buffer in buffers:
            return self.kernel.copied(layout, view.element)
        return layout

    def results(self, numbers_after: Sequence[ir.Value]) -> list[Layout]:
        """The carries after the loop."""
        numbers = iter(numbers_after)
        layouts: list[Layout] = []
        for shape, view in zip(self.shapes, self.views, strict=True):
            if view is None:
                layouts.append(Splat(next(numbers), shape))
            else:
                assert view.buffer is not None
                view.buffer.owner = self.kernel.depth
                layouts.append(view)
        return layouts


def _literal(old: ir.Value) -> int | None:
    owner = old.owner
    if isinstance(owner, ir.Block) or owner.name != CONSTANT:
        return None
    return int(value_of(owner.operation))


def loop(kernel: Kernel, op: ir.Operation, targets: Sequence[View | None] = ()) -> list[Layout]:
    """The rule of ``stablehlo.while``; ``targets`` gives memory for results."""
    kernel.flush_all()
    cond, body = (region.blocks[0] for region in op.regions)
    carries = _Carries(kernel, op, targets or [None] * len(op.operands))
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
            carries.enter(body.arguments, carried)
            return carries.leave(kernel.block(body))

    return carries.results(kernel.count(bounds, times, carries.initial, iteration))


def _repeat(kernel: Kernel, carries: _Carries, cond: ir.Block, body: ir.Block) -> list[ir.Value]:
    """A loop without a counter."""

    def condition(numbers: list[ir.Value]) -> ir.Value:
        carries.enter(cond.arguments, numbers)
        (tested,) = kernel.block(cond)
        return kernel.number_of(tested)

    def iteration(numbers: list[ir.Value]) -> list[ir.Value]:
        carries.enter(body.arguments, numbers)
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
