"""The code of a kernel: control flow, memory, and elementwise ops unrolled to scalars.

Ops that only move elements, and reductions, are unrolled by `moves`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from gnomon.backends.iree.legalize.control.counters import counter_of
from gnomon.backends.iree.legalize.loop_kernels.carries import Carries
from gnomon.backends.iree.legalize.loop_kernels.regions import repeat
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    ELEMENTWISE,
    UnsupportedError,
    index,
    number,
    scalar,
    signless,
)
from gnomon.backends.iree.legalize.loop_kernels.values import (
    FEW,
    Array,
    Cell,
    Numbers,
    Value,
    elements_of,
    filled,
    literal_of,
    map_numbers,
    scalar_array,
    size_of,
    storage,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, cost_of

__all__ = ["Kernel", "Rule"]

Rule: TypeAlias = "Callable[[Kernel, ir.Operation], Sequence[Value]]"

# The most scalar ops in a kernel: they take about as long as launching another kernel.
_BUDGET = 4000
_COSTLY = 16


class Kernel:
    """Emits ops of StableHLO as scalar code at the current insertion point.

    Args:
      captured: the kernel's values for tensors from outside.
      start: a value before which elements of tensors from outside are read.
      keeps_arrays: whether small arrays also stay in memory if a loop updates them at computed
        indices. Otherwise such an update is a select for each element.
      rules: the rules of ops that are not elementwise, by name.

    Attributes:
      values: the new values, by the values of the original blocks.
    """

    def __init__(
        self,
        captured: dict[ir.Value, ir.Value],
        start: ir.Value,
        keeps_arrays: bool,
        rules: Mapping[str, Rule],
    ) -> None:
        self.rules = rules
        self.captured = captured
        self.start = start
        self.keeps_arrays = keeps_arrays
        self.values: dict[ir.Value, Value] = {}
        self.outside: dict[ir.Value, Numbers] = {}
        self.depth = 0
        self.spent = 0

    def spend(self, ops: int) -> None:
        """Count scalar ops.

        Raises:
          UnsupportedError: there are too many.
        """
        self.spent += ops
        if self.spent > _BUDGET:
            raise UnsupportedError("too many scalar ops")

    @contextmanager
    def inside(self, block: ir.Block) -> Iterator[None]:
        """Emit into a block of a nested region; values made there are not visible outside."""
        outer = self.values
        self.values = dict(outer)
        self.depth += 1
        with ir.InsertionPoint(block):
            yield
        self.depth -= 1
        self.values = outer

    # ------------------------------------------------------------------------------------- values

    def value(self, old: ir.Value) -> Value:
        """The new value for a value of the original blocks."""
        if old in self.values:
            return self.values[old]
        shape, element = tuple(old.type.shape), old.type.element_type
        literal = literal_of(old)
        if old in self.captured:
            return Array(self.captured[old], shape, element)
        assert literal is not None
        return self.literal(literal)

    def numbers(self, old: ir.Value) -> Numbers:
        """The elements of a small value."""
        value = self.value(old)
        if isinstance(value, np.ndarray):
            return value
        if value.cell is None and value.fill is None:
            if old not in self.outside:
                with ir.InsertionPoint(self.start.owner):
                    self.outside[old] = self.load(value)
            return self.outside[old]
        return self.load(value)

    def load(self, array: Array) -> Numbers:
        """All elements of an array in memory."""
        size = math.prod(array.shape)
        if size > FEW:
            raise UnsupportedError(f"{size} numbers at once")
        out = np.empty(array.shape, object)
        for at in np.ndindex(*array.shape):
            out[at] = self.read(array, [number(index(), i) for i in at])
        return out

    def number_of(self, old: ir.Value) -> ir.Value:
        """The scalar that a value of rank 0 holds."""
        return self.numbers(old)[()]

    def literal(self, op: ir.Operation) -> Value:
        """The value of a ``stablehlo.constant``."""
        type_ = op.results[0].type
        shape, element = tuple(type_.shape), type_.element_type
        if op.results[0] in self.captured:
            return Array(self.captured[op.results[0]], shape, element)
        if not size_of(type_):
            return np.empty(shape, object)
        elements = elements_of(op)
        if len(elements) == 1:
            if size_of(type_) > FEW:
                return Array(self.start, shape, element, fill=elements[0])
            repeated = number(signless(element), elements[0])
            return filled(shape, repeated)
        flat = np.empty(len(elements), object)
        flat[:] = [number(signless(element), v) for v in elements]
        return flat.reshape(shape)

    def as_tensor(self, value: Value, stored: ir.RankedTensorType) -> ir.Value:
        """A value as a tensor of a storage type."""
        if isinstance(value, Array):
            value.check()
            if value.cell is None or value.tensor.type != stored:
                value = self.copied(value, stored)
            return value.tensor
        if value.size and value.item(0).type != stored.element_type:
            value = map_numbers(lambda v: scalar("arith.extui", [v], stored.element_type), value)
        return ir.Operation.create(
            "tensor.from_elements", results=[stored], operands=list(value.flat)
        ).results[0]

    # ------------------------------------------------------------------------------------- memory

    def places(self, array: Array, at: Sequence[ir.Value]) -> list[ir.Value]:
        """Indices into the tensor that stores an array."""
        stored = tuple(array.tensor.type.shape)
        if stored == array.shape:
            return list(at)
        if [n for n in stored if n != 1] == [n for n in array.shape if n != 1]:
            moving = iter(i for i, n in zip(at, array.shape, strict=True) if n != 1)
            return [next(moving) if n != 1 else number(index(), 0) for n in stored]
        linear = number(index(), 0)
        for i, size in zip(at, array.shape, strict=True):
            scaled = scalar("arith.muli", [linear, number(index(), size)], index())
            linear = scalar("arith.addi", [scaled, i], index())
        indices: list[ir.Value] = []
        for size in reversed(stored):
            divisor = number(index(), size)
            indices.append(scalar("arith.remui", [linear, divisor], index()))
            linear = scalar("arith.divui", [linear, divisor], index())
        return indices[::-1]

    def read(self, array: Array, at: Sequence[ir.Value]) -> ir.Value:
        """One element of an array in memory."""
        array.check()
        self.spend(1)
        type_ = signless(array.element)
        if array.fill is not None:
            return number(type_, array.fill)
        stored = array.tensor.type.element_type
        value = scalar("tensor.extract", [array.tensor, *self.places(array, at)], stored)
        return value if stored == type_ else scalar("arith.trunci", [value], type_)

    def write(self, array: Array, value: ir.Value, at: Sequence[ir.Value]) -> Array:
        """An array in memory with one element replaced."""
        array.check()
        if array.cell is None or array.cell.depth != self.depth:
            raise UnsupportedError("the update of an array from outside")
        self.spend(1)
        stored = array.tensor.type
        if value.type != stored.element_type:
            value = scalar("arith.extui", [value], stored.element_type)
        tensor = scalar("tensor.insert", [value, array.tensor, *self.places(array, at)], stored)
        return self.renewed(array, tensor)

    def renewed(self, array: Array, tensor: ir.Value) -> Array:
        """A new version of an array, which makes the earlier ones stale."""
        assert array.cell is not None
        array.cell.version += 1
        return Array(tensor, array.shape, array.element, array.cell, array.cell.version)

    def copied(self, array: Array, stored: ir.RankedTensorType) -> Array:
        """A copy of an array, which the kernel owns."""
        empty = ir.Operation.create("tensor.empty", results=[stored]).results[0]
        shape = array.shape
        own = Array(empty, shape, array.element)

        def fill(dims: tuple[int, ...], at: list[ir.Value], into: ir.Value) -> ir.Value:
            if not dims:
                value = self.read(array, at)
                if value.type != stored.element_type:
                    value = scalar("arith.extui", [value], stored.element_type)
                return scalar("tensor.insert", [value, into, *self.places(own, at)], stored)

            def row(i: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
                return [fill(dims[1:], [*at, i], carried[0])]

            zero, one = number(index(), 0), number(index(), 1)
            return self.count(zero, number(index(), dims[0]), one, [into], row)[0]

        return Array(fill(shape, [], empty), shape, array.element, Cell(self.depth))

    # ---------------------------------------------------------------------------------------- ops

    def block(self, block: ir.Block) -> list[Value]:
        """Emit the ops of a block, and return the values of its terminator."""
        for op in block.operations:
            op = op.operation
            if op.name == "stablehlo.return":
                return [self.value(v) for v in op.operands]
            with op.location:
                self.operation(op)
        raise AssertionError("a block without a terminator")

    def operation(self, op: ir.Operation) -> None:
        """Emit one op."""
        emit = ELEMENTWISE.get(op.name)
        if emit is not None:
            (result,) = op.results
            shape = tuple(result.type.shape)
            size = math.prod(shape)
            if size > FEW:
                raise UnsupportedError(f"{size} numbers")
            is_costly = (cost_of(op.name) or Cost.OPERATION) >= Cost.DIVISION
            self.spend(size * (_COSTLY if is_costly else 1))
            operands = [np.broadcast_to(self.numbers(v), shape) for v in op.operands]
            out = np.empty(shape, object)
            for at in np.ndindex(*shape):
                out[at] = emit(op, [x[at] for x in operands])
            self.values[result] = out
            return
        rule = self.rules.get(op.name)
        if rule is None:
            raise UnsupportedError(op.name)
        results = rule(self, op)
        self.values.update(zip(op.results, results, strict=True))

    # ------------------------------------------------------------------------------------- control

    def count(
        self,
        start: ir.Value,
        bound: ir.Value,
        step: ir.Value,
        initial: Sequence[ir.Value],
        iteration: Callable[[ir.Value, Sequence[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """A loop over an index."""
        types = [v.type for v in initial]
        loop = ir.Operation.create(
            "scf.for", results=types, operands=[start, bound, step, *initial], regions=1
        )
        block = loop.regions[0].blocks.append(index(), *types)
        with self.inside(block):
            leaving = iteration(block.arguments[0], list(block.arguments)[1:])
            ir.Operation.create("scf.yield", operands=list(leaving))
        return list(loop.results)

    def loop(
        self, op: ir.Operation, stored: Sequence[ir.RankedTensorType | None] = ()
    ) -> list[Value]:
        """A ``stablehlo.while``; ``stored`` gives types for its carries that are in memory."""
        cond, body = (region.blocks[0] for region in op.regions)
        types = [storage(v.type) for v in op.operands]
        carries = Carries(self, op, [s or t for s, t in zip(stored or types, types, strict=True)])
        counter = counter_of(cond, body)
        if counter is None:
            results = self._repeat(carries, cond, body)
        else:
            type_ = op.operands[counter.index].type.element_type
            start, bound = (
                scalar("arith.index_cast", [self.number_of(v)], index())
                for v in (op.operands[counter.index], counter.bound)
            )

            def iteration(i: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
                state = carries.enter(carried)
                state[counter.index] = scalar_array(scalar("arith.index_cast", [i], type_))
                self.values.update(zip(body.arguments, state, strict=True))
                return carries.leave(self.block(body))

            step = number(index(), counter.step)
            results = self.count(start, bound, step, carries.initial, iteration)
        return carries.results(results)

    def _repeat(self, carries: Carries, cond: ir.Block, body: ir.Block) -> list[ir.Value]:
        """A loop without a counter."""

        def condition(numbers: list[ir.Value]) -> ir.Value:
            self.values.update(zip(cond.arguments, carries.enter(numbers), strict=True))
            (tested,) = self.block(cond)
            assert isinstance(tested, np.ndarray)
            return tested[()]

        def iteration(numbers: list[ir.Value]) -> list[ir.Value]:
            self.values.update(zip(body.arguments, carries.enter(numbers), strict=True))
            return carries.leave(self.block(body))

        return repeat(self, carries.initial, condition, iteration)
