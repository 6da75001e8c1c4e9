"""The code of a kernel: values of the program, and elementwise ops in shared loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from gnomon.backends.iree.legalize.array_kernels.emitter import (
    Place,
    first_place,
    width_of,
)
from gnomon.backends.iree.legalize.array_kernels.layout import (
    Layout,
    Splat,
    View,
    dense,
    merged_dims,
    reshaped,
)
from gnomon.backends.iree.legalize.array_kernels.storage import Storage
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    ELEMENTWISE,
    UnsupportedError,
    number,
    signless,
)
from gnomon.backends.iree.legalize.loop_kernels.values import elements_of
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, cost_of

__all__ = ["Kernel", "Rule", "instructions", "is_splat", "reshape", "shape_of"]

Rule: TypeAlias = "Callable[[Kernel, ir.Operation], Sequence[Layout]]"

# About how many instructions a number takes in an elementwise op of each cost.
_INSTRUCTIONS = {
    **dict.fromkeys((Cost.NOTHING, Cost.OPERATION), 1),
    **dict.fromkeys((Cost.DIVISION, Cost.ROOT), 4),
    Cost.FUNCTION: 20,
}
# Ops of which the compiler makes good kernels for several threads.
_SHARED = frozenset({"stablehlo.dot_general", "stablehlo.reduce"})


def instructions(name: str) -> int:
    """About how many instructions a number takes in an elementwise op."""
    cost = cost_of(name)
    return 1 if cost is None else _INSTRUCTIONS[cost]


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The shape of a tensor."""
    return tuple(value.type.shape)


def is_splat(op: ir.Operation) -> bool:
    """Whether an op is a literal with equal elements."""
    return op.name == "stablehlo.constant" and (
        math.prod(op.results[0].type.shape) == 1
        or ir.DenseElementsAttr(op.attributes["value"]).is_splat
    )


class Kernel(Storage):
    """Emits StableHLO ops on small arrays.

    A value of one element is a number. Elementwise ops are not emitted at once: they wait until one
    of their results is needed in memory. Then all waiting ops of that shape are emitted as one nest
    of loops, which stores only the results that other ops read.

    Args:
      start: the op before which the kernel allocates memory.
      before_loops: the op before which it prepares values that do not change in the loops.
      scratch: a buffer of bytes.
      rules: the rules of ops that are not elementwise, by name.

    Attributes:
      values: maps values of the original blocks to emitted ones; those of waiting ops are absent.
      prepared: copies of arrays from outside, with their dimensions in another order.
    """

    def __init__(
        self,
        start: ir.Operation,
        before_loops: ir.Operation,
        scratch: ir.Value,
        rules: Mapping[str, Rule],
    ) -> None:
        super().__init__(start, scratch)
        self.before_loops = before_loops
        self.rules = rules
        self.values: dict[ir.Value, Layout] = {}
        self.waiting: dict[tuple[int, ...], list[ir.Operation]] = {}
        self.prepared: dict[tuple[int, tuple[int, ...], tuple[int, ...]], View] = {}

    # ------------------------------------------------------------------------------------- values

    def set(self, old: ir.Value, layout: Layout) -> None:
        """Define a value."""
        if isinstance(layout, View) and math.prod(layout.shape) == 1:
            layout = Splat(self.load(layout, first_place(layout), 1, 1), layout.shape)
        self.values[old] = layout
        if isinstance(layout, View) and layout.buffer is not None:
            layout.buffer.viewers.append(old)

    def layout(self, old: ir.Value) -> Layout:
        """Where the elements of a value are; emits the value first if it waits."""
        if old in self.waits:
            self.flush(self.waits[old])
        if old not in self.values:
            owner = old.owner
            assert not isinstance(owner, ir.Block)
            self.values[old] = self.literal(owner.operation)
        return self.values[old]

    def number_of(self, old: ir.Value) -> ir.Value:
        """The number that a value of one element holds."""
        layout = self.layout(old)
        assert isinstance(layout, Splat)
        return layout.value

    def literal(self, op: ir.Operation) -> Layout:
        """The number that a literal repeats."""
        if not is_splat(op):
            raise UnsupportedError("a literal inside of the kernel")
        type_ = op.results[0].type
        # Emitted at the start, since every region may use it.
        with ir.InsertionPoint(self.start):
            value = number(signless(type_.element_type), elements_of(op)[0])
        return Splat(value, tuple(type_.shape))

    def copied(self, layout: Layout, element: ir.Type) -> View:
        """A copy in a new buffer."""
        view = self.dense(element, layout.shape)
        self.copy(layout, view)
        return view

    def copy(self, source: Layout, target: View) -> None:
        """Copy elements; the two must not overlap."""
        self.nest(target.shape, [source], [target], lambda values: values, [target.element])

    # ---------------------------------------------------------------------------------------- ops

    @contextmanager
    def inside(self, block: ir.Block) -> Iterator[None]:
        """Emit into a block of a nested region; values made there are not visible outside."""
        assert not self.waiting
        values = dict(self.values)
        self.depth += 1
        with ir.InsertionPoint(block):
            yield
        assert not self.waiting
        self.depth -= 1
        self.values = values

    def block(self, block: ir.Block) -> list[ir.Value]:
        """Emit the ops of a block; return the operands of its terminator."""
        outer = self.here, self.positions, self.current
        ops = [op.operation for op in block.operations]
        self.current = block
        self.positions = {r: i for i, op in enumerate(ops) for r in op.results}
        for i, op in enumerate(ops[:-1]):
            self.here = i
            with op.location:
                self.operation(op)
        self.here = len(ops) - 1
        self.flush_all()
        self.here, self.positions, self.current = outer
        return list(ops[-1].operands)

    def operation(self, op: ir.Operation) -> None:
        """Emit an op, or let it wait."""
        if op.name == "stablehlo.constant":
            return
        if op.name in ELEMENTWISE:
            (result,) = op.results
            shape = shape_of(result)
            if math.prod(shape) == 0:
                raise UnsupportedError("an array without elements")
            signless(result.type.element_type)
            for value in op.operands:
                if value in self.waits and self.waits[value] != shape:
                    self.flush(self.waits[value])
            self.waits[result] = shape
            self.waiting.setdefault(shape, []).append(op)
            if math.prod(shape) == 1:
                self.flush(shape)
            return
        rule = self.rules.get(op.name)
        if rule is None:
            raise UnsupportedError(op.name)
        if op.name in _SHARED:
            # What the op reads is emitted first, and does not count.
            for value in op.operands:
                self.layout(value)
        before = self.work
        for result, layout in zip(op.results, rule(self, op), strict=True):
            self.set(result, layout)
        if op.name in _SHARED:
            self.shared += self.work - before

    def flush_all(self) -> None:
        """Emit everything that waits."""
        while self.waiting:
            self.flush(next(iter(self.waiting)))

    def flush(self, shape: tuple[int, ...]) -> None:
        """Emit the waiting ops of a shape as one nest of loops."""
        ops = self.waiting.pop(shape)
        results = {op.results[0] for op in ops}
        for value in results:
            del self.waits[value]
        kept = [
            op.results[0]
            for op in ops
            if any(not _has_result(use.owner, results) for use in op.results[0].uses)
        ]
        inputs = list(dict.fromkeys(v for op in ops for v in op.operands if v not in results))
        layouts = [self.layout(v) for v in inputs]
        elements = [v.type.element_type for op in ops for v in (*op.operands, *op.results)]

        def emit(values: list[ir.Value]) -> list[ir.Value]:
            number_by_value = dict(zip(inputs, values, strict=True))
            for op in ops:
                number_by_value[op.results[0]] = self.elementwise(
                    op, [number_by_value[v] for v in op.operands]
                )
            return [number_by_value[v] for v in kept]

        if math.prod(shape) == 1:
            assert all(isinstance(layout, Splat) for layout in layouts)
            # Outside of this kernel, numbers are kernels too.
            self.loops += self.trips
            values = emit([layout.value for layout in layouts if isinstance(layout, Splat)])
            for old, value in zip(kept, values, strict=True):
                self.values[old] = Splat(value, shape)
            return
        self.emitting.update(ops)
        targets = [self.overwritten(v, layouts) or self.place(v) for v in kept]
        self.nest(shape, layouts, targets, emit, elements)
        self.emitting.difference_update(ops)
        for old, view in zip(kept, targets, strict=True):
            self.set(old, view)

    def elementwise(self, op: ir.Operation, values: list[ir.Value]) -> ir.Value:
        """An elementwise op on numbers or vectors."""
        self.spend(1)
        self.work += (instructions(op.name) - 1) * self.trips
        return ELEMENTWISE[op.name](op, values)

    def nest(
        self,
        shape: tuple[int, ...],
        sources: Sequence[Layout],
        targets: Sequence[View],
        emit: Callable[[list[ir.Value]], Sequence[ir.Value]],
        elements: Sequence[ir.Type],
    ) -> None:
        """Loops over a shape, with vectors along the last dimension.

        Args:
          shape: the shape.
          sources: the layouts to read; numbers have any shape.
          targets: the layouts to write.
          emit: computes the values to store from the loaded ones.
          elements: the types of all intermediate values.
        """
        self.loops += self.trips
        none = (0,) * len(shape)
        every = [*sources, *targets]
        sizes, strides = merged_dims(
            shape, [none if isinstance(v, Splat) else v.strides for v in every]
        )
        if not sizes:
            sizes, strides = [1], [[0] * len(every)]
        *outer, last = strides
        width = width_of(elements)
        # Elements at the end of a row may be computed twice, unless they are overwritten meanwhile.
        twice = not any(
            isinstance(source, View) and source.may_overlap(target)
            for source in sources
            for target in targets
        )

        def row(places: list[Place]) -> None:
            def piece(i: ir.Value | int, lanes: int) -> None:
                at = [p.plus(i, s) for p, s in zip(places, last, strict=True)]
                loaded = [
                    self.load(v, p, lanes, s) for v, p, s in zip(sources, at, last, strict=False)
                ]
                self.accesses += self.trips * sum(s != 0 for s in last)
                values = emit(loaded)
                for value, view, p, s in zip(
                    values, targets, at[len(sources) :], last[len(sources) :], strict=True
                ):
                    self.store(value, view, p, s)

            self.pieces(sizes[-1], width, piece, twice=twice)

        self.over(sizes[:-1], [first_place(v) for v in every], outer, row)

    def region(self, block: ir.Block, values: Sequence[ir.Value]) -> list[ir.Value]:
        """The code of a reduction's region, on numbers or on vectors."""
        number_by_value = dict(zip(block.arguments, values, strict=True))
        (first, *_) = values

        def value_of(old: ir.Value) -> ir.Value:
            if old in number_by_value:
                return number_by_value[old]
            layout = self.layout(old)
            assert isinstance(layout, Splat)
            if isinstance(first.type, ir.VectorType):
                return self.spread(layout.value, first.type.shape[0])
            return layout.value

        for op in block.operations:
            op = op.operation
            if op.name == "stablehlo.return":
                return [value_of(v) for v in op.operands]
            if op.name == "stablehlo.constant":
                continue
            if op.name not in ELEMENTWISE:
                raise UnsupportedError(f"{op.name} in a reduction")
            number_by_value[op.results[0]] = self.elementwise(
                op, [value_of(v) for v in op.operands]
            )
        raise AssertionError("a region without a terminator")

    # -------------------------------------------------------------------------------- other orders

    def prepare(self, view: View, order: Sequence[int]) -> View:
        """Copy an array to memory with another order of dimensions; return a view in the old order.

        The copy of an array that nothing overwrites is made once, before the loops.
        """
        shape = tuple(view.shape[d] for d in order)
        source = view.with_layout(shape, [view.strides[d] for d in order])
        buffer = view.buffer
        if buffer is None or buffer.owner is not None or view.moved is not None:
            copy = self.copied(source, view.element)
        else:
            key = id(buffer), (view.offset, *view.strides), (*order, *shape)
            if key not in self.prepared:
                before = self.trips, self.depth
                self.trips, self.depth = 1.0, 0
                with ir.InsertionPoint(self.before_loops):
                    self.prepared[key] = self.copied(source, view.element)
                self.trips, self.depth = before
            copy = self.prepared[key]
        back = [0] * len(order)
        for i, d in enumerate(order):
            back[d] = copy.strides[i]
        return copy.with_layout(view.shape, back)


def _has_result(op: ir.Operation, values: set[ir.Value]) -> bool:
    results = op.operation.results
    return len(results) == 1 and results[0] in values


def reshape(kernel: Kernel, layout: Layout, shape: tuple[int, ...], element: ir.Type) -> Layout:
    """An array in another shape; its elements are copied if they are not evenly spaced."""
    if isinstance(layout, Splat):
        return Splat(layout.value, shape)
    strides = reshaped(layout.shape, layout.strides, shape)
    if strides is None:
        return kernel.copied(layout, element).with_layout(shape, dense(shape))
    return layout.with_layout(shape, strides)
