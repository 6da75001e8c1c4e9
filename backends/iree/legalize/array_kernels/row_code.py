"""The code of a kernel of rows.

Each workgroup takes some rows, one after the other, and makes the passes of `row_passes` over each
of them. Between passes, everything that a row needs is in the first cache or in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gnomon.backends.iree.legalize.array_kernels.code import Kernel
from gnomon.backends.iree.legalize.array_kernels.emitter import Place
from gnomon.backends.iree.legalize.array_kernels.layout import Buffer, View
from gnomon.backends.iree.legalize.array_kernels.reductions import (
    ACROSS,
    across,
    combiner,
    identity,
)
from gnomon.backends.iree.legalize.array_kernels.row_access import Access, is_literal
from gnomon.backends.iree.legalize.array_kernels.row_numbers import (
    NARROW,
    computed,
    from_bits,
    to_bits,
    wide,
)
from gnomon.backends.iree.legalize.array_kernels.row_passes import Group, Pass
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    binary,
    index,
    kind_of,
    number,
    scalar,
    signless,
)
from gnomon.backends.iree.legalize.loop_kernels.values import elements_of
from gnomon.dialects.mlir import ir

__all__ = ["RowCode", "Split"]

# A reduction has several vectors of partial results, since each addition waits for the one before.
# With more values in registers there is no room for them.
_PARTIAL, _FEW_OPS, _SOME_OPS = 4, 8, 24


class Split(NamedTuple):
    """How the rows are divided among workgroups.

    Attributes:
      workgroups: their number.
      rows: the number of rows of each; the last one may have fewer.
      block: how many rows are added up for each sum over rows; 0 for none. It divides `rows`.
    """

    workgroups: int
    rows: int
    block: int


class RowCode:
    """Writes the code of a group into a kernel.

    Args:
      kernel: the kernel, whose inputs are set.
      group: the group.
      passes: its passes.
      split: the rows of each workgroup.
      targets: the memory of the group's outputs.
    """

    def __init__(
        self,
        kernel: Kernel,
        group: Group,
        passes: Sequence[Pass],
        split: Split,
        targets: Mapping[ir.Value, View],
    ) -> None:
        self.kernel = kernel
        self.group = group
        self.passes = passes
        self.split = split
        self.targets = targets
        self.lanes = group.width()
        self.buffers = {v: self._buffer(v) for step in passes for v in step.kept}
        self.row: ir.Value = number(index(), 0)
        self.sums_at = Place()
        # What is known of the current row: where it begins in the arrays, and its numbers.
        self.places: dict[Access, Place] = {}
        self.numbers: dict[ir.Value, ir.Value] = {}
        self.loaded: dict[Access, ir.Value] = {}
        self.stored: set[ir.Value] = set()

    def _buffer(self, value: ir.Value) -> View:
        """A buffer for a row of a value, on the stack, since each workgroup needs its own."""
        element, length = wide(value.type.element_type), self.group.rows.length
        stored = ir.IntegerType.get_signless(8) if kind_of(element) == "b" else signless(element)
        with ir.InsertionPoint(self.kernel.start):
            memory = ir.Operation.create(
                "memref.alloca",
                results=[ir.MemRefType.get([length], stored)],
                attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])},
            ).results[0]
        return View(Buffer(memory, element, 0), (length,), (1,), element)

    # --------------------------------------------------------------------------------------- rows

    def write(self) -> None:
        """Write the loops over the rows."""
        count, split = self.group.rows.count, self.split
        dimension = {"dimension": ir.IntegerAttr.get(index(), 0)}
        if split.workgroups == 1:
            first, end = number(index(), 0), number(index(), count)
            own = first
        else:
            own = ir.Operation.create(
                "stream.dispatch.workgroup.id", results=[index()], attributes=dimension
            ).results[0]
            first = scalar("arith.muli", [own, number(index(), split.rows)], index())
            end = scalar("arith.addi", [first, number(index(), split.rows)], index())
            if split.rows * split.workgroups != count:
                end = scalar("arith.minui", [end, number(index(), count)], index())
        one = number(index(), 1)

        def rows(start: ir.Value, stop: ir.Value, times: int) -> None:
            self.kernel.count((start, stop, one), times, [], self._row)

        if not split.block:
            rows(first, end, split.rows)
        elif split.block == split.rows:
            # Each workgroup has one sum, the last one perhaps of fewer rows.
            self._clear(own)
            rows(first, end, split.rows)
        else:
            step = number(index(), split.block)

            def block(start: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
                self._clear(scalar("arith.divui", [start, step], index()))
                rows(start, scalar("arith.addi", [start, step], index()), split.block)
                return []

            self.kernel.count((first, end, step), split.rows // split.block, [], block)

    def _clear(self, block: ir.Value) -> None:
        """Set the sums over the rows of a block to zero."""
        self.sums_at = Place().plus(block, self.group.rows.length)
        views = [self.targets[op.results[0]] for step in self.passes for op in step.sums]

        def piece(start: ir.Value | int, lanes: int) -> None:
            at = self.sums_at.plus(start, 1)
            for view in views:
                zero = number(signless(view.element), 0)
                self.kernel.store(self.kernel.spread(zero, lanes), view, at, 1)

        self.kernel.pieces(self.group.rows.length, self.lanes, piece, twice=True)

    def _row(self, row: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        """Write the code for a row; the body of the loops over rows."""
        self.row = row
        self.places, self.numbers, self.loaded, self.stored = {}, {}, {}, set()
        for step in self.passes:
            for op in step.numbers:
                operands = [self._number(self.group.access(v)) for v in op.operands]
                self._set_number(op.results[0], computed(self.kernel, op, operands))
            if step.targets:
                self._pass(step)
            self.stored.update(step.kept, step.stored)
        return []

    def _place(self, access: Access) -> Place:
        """Where the elements of the row begin in the source of an access."""
        if access not in self.places:
            place, rest = Place(), self.row
            for d, (n, stride) in reversed(list(enumerate(access.rows))):
                i = rest
                if d:
                    i = scalar("arith.remui", [rest, number(index(), n)], index())
                    rest = scalar("arith.divui", [rest, number(index(), n)], index())
                place = place.plus(i, stride)
            self.places[access] = place
        return self.places[access]

    # ------------------------------------------------------------------------------------- values

    def _set_number(self, result: ir.Value, value: ir.Value) -> None:
        """Define one number of the row, and store it if it is an output."""
        self.numbers[result] = value
        if result in self.targets:
            view = self.targets[result]
            at = Place().plus(self.row, 1) if self.group.rows.count > 1 else Place()
            self.kernel.store(to_bits(self.kernel, result.type.element_type, value), view, at, 1)

    def _number(self, access: Access) -> ir.Value:
        """The one number of the row, or of all rows."""
        if access.source in self.numbers:
            return self.numbers[access.source]
        if access not in self.loaded:
            self.loaded[access] = self._first(access)
        return self.loaded[access]

    def _first(self, access: Access) -> ir.Value:
        """The number that an access reads at the start of the row."""
        if is_literal(access.source):
            op = access.source.owner.operation
            element = access.source.type.element_type
            if str(element) in NARROW:
                value = ir.DenseElementsAttr(op.attributes["value"]).get_splat_value().value
                return number(wide(element), value)
            return number(signless(element), elements_of(op)[0])
        return self._load(access, self._place(access), 1)

    def _load(self, access: Access, at: Place, lanes: int) -> ir.Value:
        """Neighbouring numbers of a source, as they are computed."""
        element = access.source.type.element_type
        if access.is_ramp:
            view = View(None, (self.group.rows.size,), (1,), element)
            return self.kernel.load(view, at, lanes, access.column)
        layout = self.kernel.layout(access.source)
        if isinstance(layout, View):
            value = self.kernel.load(layout, at, lanes, access.column)
        else:
            value = self.kernel.spread(layout.value, lanes)
        return from_bits(self.kernel, element, value)

    # ------------------------------------------------------------------------------------- passes

    def _pass(self, step: Pass) -> None:
        """Write a pass over the row: full vectors, then the last ones, then what is reduced."""
        kernel, length = self.kernel, self.group.rows.length
        partial = self._partial(step)
        self._prepare(step)
        starts = [self._nothing(op) for op in step.reductions]
        stride = self.lanes * partial
        whole = length - length % stride
        sums = [[kernel.spread(v, self.lanes) for v in starts] for _ in range(partial)]

        def several(i: ir.Value | int, carried: list[ir.Value]) -> list[ir.Value]:
            count = len(starts)
            leaving: list[ir.Value] = []
            for k in range(partial):
                before = carried[k * count : (k + 1) * count]
                leaving += self._piece(step, i, k * self.lanes, before)
            return leaving

        flat = kernel.steps(whole, stride, [v for part in sums for v in part], several)
        totals = [flat[k :: len(starts)] for k in range(len(starts))]
        first = [values[0] for values in totals]
        first = kernel.steps(
            length - length % self.lanes,
            self.lanes,
            first,
            lambda i, carried: self._piece(step, i, 0, carried),
            start=whole,
        )
        if length % self.lanes:
            first = self._piece(step, length - self.lanes, 0, first, new=length % self.lanes)
        for op, total, others in zip(step.reductions, first, totals, strict=True):
            self._finish(op, [total, *others[1:]])

    def _prepare(self, step: Pass) -> None:
        """Compute before the loop what does not change in it: positions, and numbers of the row."""
        made = {op.results[0] for op in step.ops}
        terms = [op.operands[0] for op in (*step.reductions, *step.sums)]
        for value in [*(v for op in step.ops for v in op.operands), *terms]:
            read = self.group.access(value)
            if read.source in made or read.source in self.stored:
                continue
            if read.column:
                self._place(read)
            else:
                self._number(read)

    def _partial(self, step: Pass) -> int:
        """How many vectors of partial results each reduction of a pass has."""
        if not step.reductions:
            return 1
        work = len(step.ops) + len(step.targets)
        partial = _PARTIAL if work <= _FEW_OPS else _PARTIAL // 2 if work <= _SOME_OPS else 1
        while partial > 1 and self.group.rows.length < 2 * partial * self.lanes:
            partial //= 2
        return partial

    def _element(self, op: ir.Operation) -> ir.Type:
        """The type in which a reduction is computed."""
        return wide(op.results[0].type.element_type)

    def _nothing(self, op: ir.Operation) -> ir.Value:
        """The identity of a reduction."""
        element = self._element(op)
        name = combiner(op)
        assert name is not None
        return number(
            signless(element), identity(ACROSS[name][kind_of(element)], signless(element))
        )

    def _combined(self, op: ir.Operation, x: ir.Value, y: ir.Value) -> ir.Value:
        """Two partial results of a reduction, or of a sum over rows, as one."""
        self.kernel.spend(1)
        name = combiner(op)
        assert name is not None
        return binary(name, kind_of(self._element(op)), x, y)

    def _finish(self, op: ir.Operation, partial: list[ir.Value]) -> None:
        """Reduce the partial results of a row to its number."""
        while len(partial) > 1:
            half = len(partial) // 2
            pairs = zip(partial[:half], partial[half:], strict=True)
            partial = [self._combined(op, x, y) for x, y in pairs]
        (total,) = partial
        name = combiner(op)
        assert name is not None
        if isinstance(total.type, ir.VectorType):
            total = across(self.kernel, ACROSS[name][kind_of(self._element(op))], total)
        start = self._number(self.group.initial(op))
        self._set_number(op.results[0], self._combined(op, start, total))

    def _piece(
        self,
        step: Pass,
        i: ir.Value | int,
        offset: int,
        totals: Sequence[ir.Value],
        new: int | None = None,
    ) -> list[ir.Value]:
        """The code for some elements of a row, a vector.

        Args:
          step: the pass.
          i, offset: the sum of the two is the first element's position in the row.
          totals: the partial results of the reductions.
          new: how many of the elements, the last ones, have not been covered before; None for all.

        Returns:
          The new partial results.
        """
        kernel, group = self.kernel, self.group
        values: dict[ir.Value, ir.Value] = {}
        loaded: dict[Access, ir.Value] = {}

        def at(place: Place) -> Place:
            return place.plus(i, 1).plus(offset, 1)

        def value_of(old: ir.Value) -> ir.Value:
            read = group.access(old)
            source = read.source
            if source in values:
                return values[source]
            if read not in loaded:
                if source in self.stored:
                    loaded[read] = self._stored(source, at)
                elif read.column:
                    loaded[read] = self._load(read, at(self._place(read)), self.lanes)
                else:
                    loaded[read] = kernel.spread(self._number(read), self.lanes)
            return loaded[read]

        for op in step.ops:
            values[op.results[0]] = computed(self.kernel, op, [value_of(v) for v in op.operands])
        reduced = [value_of(op.operands[0]) for op in step.reductions]
        added = [value_of(op.operands[0]) for op in step.sums]
        for value in step.stored:
            bits = to_bits(self.kernel, value.type.element_type, values[value])
            kernel.store(bits, self.targets[value], at(self._row_place()), 1)
        for value in step.kept:
            kernel.store(values[value], self.buffers[value], at(Place()), 1)
        is_new = self._mask(new)
        for op, term in zip(step.sums, added, strict=True):
            view, place = self.targets[op.results[0]], at(self.sums_at)
            before = kernel.load(view, place, self.lanes, 1)
            kernel.store(
                self._where(is_new, self._combined(op, before, term), before), view, place, 1
            )
        return [
            self._where(is_new, self._combined(op, total, term), total)
            for op, total, term in zip(step.reductions, totals, reduced, strict=True)
        ]

    def _row_place(self) -> Place:
        """Where the row begins in an output that has all rows' elements."""
        return Place().plus(self.row, self.group.rows.length)

    def _stored(self, value: ir.Value, at: Callable[[Place], Place]) -> ir.Value:
        """A value that an earlier pass has stored."""
        if value in self.buffers:
            return self.kernel.load(self.buffers[value], at(Place()), self.lanes, 1)
        bits = self.kernel.load(self.targets[value], at(self._row_place()), self.lanes, 1)
        return from_bits(self.kernel, value.type.element_type, bits)

    def _mask(self, new: int | None) -> ir.Value | None:
        """Flags of the last elements of a vector, those that are new; None if all are."""
        if new is None:
            return None
        i1 = ir.IntegerType.get_signless(1)
        flags = [ir.IntegerAttr.get(i1, -int(k >= self.lanes - new)) for k in range(self.lanes)]
        type_ = ir.VectorType.get([self.lanes], i1)
        value = ir.DenseElementsAttr.get(flags, type_)
        return ir.Operation.create(
            "arith.constant", results=[type_], attributes={"value": value}
        ).results[0]

    def _where(self, mask: ir.Value | None, x: ir.Value, y: ir.Value) -> ir.Value:
        """The first vector where the mask is set, else the second."""
        return x if mask is None else scalar("arith.select", [mask, x, y], x.type)
