"""The carries of a loop in a kernel of vector code.

A carry of one element is a number. Any other has memory, in one of three ways:

- A carry that the body updates at some positions is updated in place.
- Elementwise ops overwrite a carry with its new value if they read it at the same positions only.
- Otherwise the memory of a large carry holds two arrays, which take turns: the body reads one and
  writes the other. So a step of a stencil is one nest of loops, without a copy. If the body
  replaces the same part of the carry in each iteration, the two arrays are equal around that part,
  so that the rest need not be copied either.

The new value of any other carry is copied at the end of an iteration.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

from gnomon.backends.iree.legalize.array_kernels.code import Kernel, shape_of
from gnomon.backends.iree.legalize.array_kernels.emitter import bytes_of
from gnomon.backends.iree.legalize.array_kernels.layout import Buffer, Layout, Splat, View, dense
from gnomon.backends.iree.legalize.array_kernels.storage import (
    constant_window,
    is_plain_pad,
    through_barriers,
)
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    ELEMENTWISE,
    UnsupportedError,
    index,
    number,
    scalar,
)
from gnomon.dialects.mlir import ir

__all__ = ["Carries"]

# Smaller carries are copied, which takes less time than to compute where the two arrays are.
_LEAST_BYTES_OF_TWO = 4096


class _Way(enum.Enum):
    """How a carry gets its new value."""

    COPIED = enum.auto()
    OVERWRITTEN = enum.auto()
    IN_TURNS = enum.auto()
    # The new value is the old one but for a part.
    PARTLY_IN_TURNS = enum.auto()


def _way(body: ir.Block, i: int) -> _Way:
    carry = body.arguments[i]
    *_, last = body.operations
    leaving = last.operands[i]
    new = through_barriers(leaving)
    once = sum(value == leaving for value in last.operands) == 1
    if not once or isinstance(new.owner, ir.Block) or new.owner.operation.block != body:
        return _Way.COPIED
    op = new.owner.operation
    if op.name == "stablehlo.dynamic_update_slice":
        operand, update = list(op.operands)[:2]
        whole, part = math.prod(shape_of(operand)), math.prod(shape_of(update))
        known = operand == carry and constant_window(op) is not None
        return _Way.PARTLY_IN_TURNS if known and whole // 2 <= part < whole else _Way.COPIED
    if op.name in ELEMENTWISE and all(
        use.owner.name in ELEMENTWISE and shape_of(use.owner.results[0]) == shape_of(carry)
        for use in carry.uses
    ):
        return _Way.OVERWRITTEN
    if (
        op.name in ELEMENTWISE
        or op.name == "stablehlo.concatenate"
        or (op.name == "stablehlo.pad" and is_plain_pad(op))
    ):
        return _Way.IN_TURNS
    return _Way.COPIED


class Carries:
    """The carries of a loop: numbers, and buffers of arrays.

    Args:
      kernel: the kernel.
      op: the loop.
      targets: memory for some of the results.
    """

    def __init__(self, kernel: Kernel, op: ir.Operation, targets: Sequence[View | None]) -> None:
        self.kernel = kernel
        self.body = op.regions[1].blocks[0]
        self.shapes = [shape_of(v) for v in op.operands]
        self.views: list[View | None] = []
        self.initial: list[ir.Value] = []
        # The carries with two arrays, and where the body writes them.
        self.in_turns: set[int] = set()
        self.spares: dict[int, View] = {}
        # Which of the two arrays the next iteration reads.
        self.next: ir.Value | None = None
        for i, (old, target) in enumerate(zip(op.operands, targets, strict=True)):
            layout = kernel.layout(old)
            if not math.prod(layout.shape):
                raise UnsupportedError("an array without elements")
            if math.prod(layout.shape) == 1:
                assert isinstance(layout, Splat)
                self.initial.append(layout.value)
                self.views.append(None)
            else:
                self.views.append(self._array(i, layout, old.type.element_type, target))
        if self.in_turns:
            self.initial.append(number(index(), 0))

    def _array(self, i: int, layout: Layout, element: ir.Type, target: View | None) -> View:
        """The memory of a carry, with its first value."""
        kernel, size = self.kernel, math.prod(layout.shape)
        way = _way(self.body, i)
        if (
            way in (_Way.IN_TURNS, _Way.PARTLY_IN_TURNS)
            and size * bytes_of(element) >= _LEAST_BYTES_OF_TWO
        ):
            self.in_turns.add(i)
            both = kernel.allocate(element, 2 * size)
            view = View(both, layout.shape, dense(layout.shape), element)
            if way is _Way.PARTLY_IN_TURNS:
                kernel.copy(layout, view.with_layout(view.shape, view.strides, size))
        else:
            view = target or kernel.dense(element, layout.shape)
        kernel.copy(layout, view)
        if way is _Way.OVERWRITTEN:
            *_, last = self.body.operations
            kernel.in_place[last.operands[i]] = view
            kernel.in_place[through_barriers(last.operands[i])] = view
        return view

    def enter(self, block: ir.Block, numbers_inside: Sequence[ir.Value]) -> None:
        """Define the arguments of a region of the loop, inside of it."""
        numbers = iter(numbers_inside)
        if self.in_turns and block == self.body:
            one = number(index(), 1)
            self.next = scalar("arith.subi", [one, numbers_inside[-1]], index())
        for i, (old, shape, view) in enumerate(
            zip(block.arguments, self.shapes, self.views, strict=True)
        ):
            if view is None:
                self.kernel.set(old, Splat(next(numbers), shape))
                continue
            assert view.buffer is not None
            view.buffer.owner = self.kernel.depth
            if i not in self.in_turns:
                self.kernel.set(old, view)
                continue
            turn = numbers_inside[-1]
            self.kernel.set(old, self._half(view, turn))
            if self.next is not None and block == self.body:
                self.spares[i] = spare = self._half(view, self.next)
                view.buffer.spare = spare.moved
                *_, last = block.operations
                new = through_barriers(last.operands[i])
                self.kernel.places[last.operands[i]] = self.kernel.places[new] = spare

    def _half(self, view: View, turn: ir.Value) -> View:
        """One of the two arrays of a carry."""
        size = number(index(), math.prod(view.shape))
        moved = scalar("arith.muli", [turn, size], index())
        return View(view.buffer, view.shape, view.strides, view.element, 0, moved)

    def leave(self, leaving: Sequence[ir.Value]) -> list[ir.Value]:
        """Overwrite the buffers at the end of an iteration; return the numbers."""
        kernel = self.kernel
        out = []
        moved: list[tuple[Layout, View]] = []
        buffers = {view.buffer for view in self.views if view is not None}
        for i, (old, view) in enumerate(zip(leaving, self.views, strict=True)):
            layout = kernel.layout(old)
            view = self.spares.get(i, view)
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
        if self.next is not None:
            out.append(self.next)
        return out

    def _apart(self, layout: Layout, view: View, buffers: set[Buffer | None]) -> Layout:
        if isinstance(layout, View) and layout.buffer in buffers:
            return self.kernel.copied(layout, view.element)
        return layout

    def results(self, numbers_after: Sequence[ir.Value]) -> list[Layout]:
        """The carries after the loop."""
        numbers = iter(numbers_after)
        layouts: list[Layout] = []
        for i, (shape, view) in enumerate(zip(self.shapes, self.views, strict=True)):
            if view is None:
                layouts.append(Splat(next(numbers), shape))
                continue
            assert view.buffer is not None
            view.buffer.owner = self.kernel.depth
            layouts.append(self._half(view, numbers_after[-1]) if i in self.in_turns else view)
        return layouts
