"""The passes over a row in which a kernel of rows computes a group.

A value that depends on a reduction of the row needs another pass after that of the reduction: its
*level* is the number of passes before it. A pass reduces, stores, and adds to sums over rows all
that has its level. Values of earlier levels that it needs are computed again, or kept in a buffer
if that takes more than a few instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gnomon.backends.iree.legalize.array_kernels.code import instructions
from gnomon.backends.iree.legalize.array_kernels.emitter import bytes_of, width_of
from gnomon.backends.iree.legalize.array_kernels.row_access import (
    Access,
    Rows,
    is_literal,
    is_view,
    producer,
)
from gnomon.backends.iree.legalize.array_kernels.row_groups import (
    Candidates,
    block_of_rows,
)
from gnomon.backends.iree.legalize.array_kernels.row_numbers import NARROW, wide
from gnomon.backends.iree.legalize.loop_kernels.values import size_of
from gnomon.dialects.mlir import ir

__all__ = ["Group", "Pass", "cost_of", "plan"]

_REDUCE = "stablehlo.reduce"
# About how many instructions rounding a narrow number takes.
_ROUNDING = 4
# A value that takes more instructions is kept in a buffer for the next pass, and stored in memory
# for another kernel, rather than computed again.
_RECOMPUTED = 5
# The most bytes of a kernel's buffers on the stack, for which IREE allows 32 KiB.
_STACK = 24 << 10


def cost_of(op: ir.Operation) -> int:
    """About how many instructions an elementwise op takes for a vector."""
    is_narrow = str(op.results[0].type.element_type) in NARROW
    return instructions(op.name) + (_ROUNDING if is_narrow else 0)


class Group:
    """The ops that a kernel of rows computes.

    Args:
      candidates: the candidates of which the members are some.
      positions: the positions of the members.

    Attributes:
      rows: the rows.
      members: the ops that are in no other kernel, in order.
      computed: the ops of all values that the kernel computes, by value; those that are no members
        are computed again elsewhere, or not needed there.
      outputs: the members' results that ops outside of the group read.
      inputs: the values that the kernel reads from memory.
      block_rows: how many rows are added up for each of its sums over rows; 0 if it has none.
    """

    def __init__(self, candidates: Candidates, positions: Sequence[int]) -> None:
        self.candidates = candidates
        self.block = candidates.block
        self.rows: Rows = candidates.rows
        self.members = [self.block.ops[i] for i in positions]
        self.computed: dict[ir.Value, ir.Operation] = {op.results[0]: op for op in self.members}
        self.block_rows = max((block_of_rows(op, self.rows) or 0 for op in self.members), default=0)
        self._accesses: dict[ir.Value, Access] = {}
        inside = candidates.done.union(positions)
        self.outputs = [
            op.results[0]
            for op in self.members
            if op.results[0] in candidates.needed or self._is_read_outside(op.results[0], inside)
        ]
        self._repeat_ops()
        self.order = sorted(self.computed.values(), key=self._position)
        self.inputs = list(dict.fromkeys(self._inputs(self.order)))

    def _position(self, op: ir.Operation) -> int:
        """The position of an op in its block."""
        return self.block.positions[op.results[0]]

    def _is_read_outside(self, value: ir.Value, inside: set[int]) -> bool:
        """Whether an op that is in no kernel reads a value or a view of it."""
        for i in self.block.users.get(value, ()):
            op = self.block.ops[i]
            if i in inside:
                continue
            if not is_view(op) or self._is_read_outside(op.results[0], inside):
                return True
        return False

    def access(self, value: ir.Value) -> Access:
        """How a member reads a value."""
        if value not in self._accesses:
            found = self.candidates.access(value)
            if found is None or (
                found.source in self.computed and not self.candidates.is_read_in_place(value)
            ):
                whole = ((self.rows.count, self.rows.length),) if self.rows.count > 1 else ()
                found = Access(value, whole, 1)
            self._accesses[value] = found
        return self._accesses[value]

    def operands(self, op: ir.Operation) -> list[ir.Value]:
        """The operands of an op that have an element for each row, or for each of its elements."""
        return list(op.operands)[:1] if op.name == _REDUCE else list(op.operands)

    def is_full(self, value: ir.Value) -> bool:
        """Whether a value has an element for each element of the rows."""
        return size_of(value.type) == self.rows.size

    def initial(self, op: ir.Operation) -> Access:
        """How the start of a reduction is read."""
        return self.access(op.operands[1])

    # ------------------------------------------------------------------------ ops that are repeated

    def _repeat_ops(self) -> None:
        """Add the ops outside of the group whose results are cheaper to compute than to read."""
        waiting = list(self.members)
        needed = self._full_inputs(waiting)
        while waiting:
            op = waiting.pop()
            for value in self.operands(op):
                source = self.access(value).source
                if source in self.computed or not self.is_full(source):
                    continue
                repeated = self._free(source) or self._cheap(source, needed)
                for more in repeated:
                    self.computed[more.results[0]] = more
                if repeated:
                    waiting += repeated
                    needed |= self._full_inputs(repeated)
        self._accesses.clear()

    def _full_inputs(self, ops: Iterable[ir.Operation]) -> set[ir.Value]:
        """The arrays with all elements that ops read from memory."""
        return {v for v in self._inputs(ops) if self.is_full(v)}

    def _free(self, value: ir.Value) -> list[ir.Operation]:
        """The ops that compute a value, if it is free, see `Candidates.is_free`."""
        op = producer(value)
        if op is None or not self.candidates.is_free(value):
            return []
        sources = map(self.candidates.source_of, op.operands)
        inner = [self._free(source) for source in sources if self.is_full(source)]
        return [op, *(o for ops in inner for o in ops)]

    def _cheap(self, value: ir.Value, needed: set[ir.Value]) -> list[ir.Operation]:
        """The op of a value, if it takes few instructions, and reads at most one more array."""
        position = self.block.position(value)
        if position is None or position not in self.candidates.chosen:
            return []
        op = self.block.ops[position]
        if op.name == _REDUCE or cost_of(op) > _RECOMPUTED:
            return []
        read = {self.access(v).source for v in op.operands}
        new = {
            v
            for v in read
            if v not in needed and v not in self.computed and self.is_full(v) and not is_literal(v)
        }
        return [op] if len(new - {value}) <= 1 else []

    # ------------------------------------------------------------------------------------- inputs

    def _inputs(self, ops: Iterable[ir.Operation]) -> Iterable[ir.Value]:
        """The values that ops read from memory."""
        for op in ops:
            found = [self.access(v) for v in op.operands]
            for read in found:
                if read.source in self.computed or is_literal(read.source) or read.is_ramp:
                    continue
                yield read.source

    def width(self) -> int:
        """The most elements of a row that are computed at once: a power of two."""
        values = [*self.inputs, *self.computed]
        values += [v for op in self.computed.values() for v in op.operands]
        lanes = width_of([wide(v.type.element_type) for v in values])
        while lanes > self.rows.length:
            lanes //= 2
        return lanes


@dataclass
class Pass:
    """What one pass over a row computes.

    Attributes:
      numbers: the ops on one number per row that come before it.
      reductions: the reductions of the row.
      sums: the sums over rows to which the row is added.
      stored: the results that are stored.
      kept: the values that are stored in a buffer for later passes.
      ops: the ops on the row's elements, in order.
      work: about how many instructions it takes for a vector.
    """

    numbers: list[ir.Operation] = field(default_factory=list)
    reductions: list[ir.Operation] = field(default_factory=list)
    sums: list[ir.Operation] = field(default_factory=list)
    stored: list[ir.Value] = field(default_factory=list)
    kept: list[ir.Value] = field(default_factory=list)
    ops: list[ir.Operation] = field(default_factory=list)
    work: int = 0

    @property
    def targets(self) -> list[ir.Value]:
        """The values that are computed for their own sake."""
        terms = [op.operands[0] for op in (*self.reductions, *self.sums)]
        return [*terms, *self.stored, *self.kept]


class _Planner:
    """Decides in which pass each value of a group is computed and stored."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.levels = self._levels()
        last = max(self.levels.values(), default=0)
        self.passes = [Pass() for _ in range(last + 1)]
        self.stack = 0

    def _levels(self) -> dict[ir.Value, int]:
        """The number of passes before each value."""
        group = self.group
        levels: dict[ir.Value, int] = {}
        for op in group.order:
            level = max(
                (levels.get(group.access(v).source, 0) for v in group.operands(op)), default=0
            )
            is_row = op.name == _REDUCE and not block_of_rows(op, group.rows)
            levels[op.results[0]] = level + is_row
        return levels

    def planned(self) -> list[Pass]:
        """The passes."""
        group = self.group
        for op in group.order:
            (result,) = op.results
            level = self.levels[result]
            if op.name == _REDUCE:
                if block_of_rows(op, group.rows):
                    self.passes[level].sums.append(op)
                else:
                    self.passes[level - 1].reductions.append(op)
            elif not group.is_full(result):
                self.passes[level].numbers.append(op)
            elif result in group.outputs:
                self.passes[level].stored.append(result)
        # A buffer is another target of an earlier pass.
        for level in range(len(self.passes) - 1, -1, -1):
            step = self.passes[level]
            for value in self._from_before(step, level):
                if self._cost(value) > _RECOMPUTED and self._has_room(value):
                    self.passes[self.levels[value]].kept.append(value)
        stored: set[ir.Value] = set()
        for step in self.passes:
            step.ops = self._ops(step.targets, stored)
            step.work = sum(map(cost_of, step.ops)) + len(step.targets) + 1
            stored.update(step.kept, step.stored)
        return self.passes

    def _has_room(self, value: ir.Value) -> bool:
        """Take room on the stack for a row of a value; False if there is none left."""
        level = self.levels[value]
        if value in self.passes[level].kept:
            return False
        nbytes = self.group.rows.length * bytes_of(wide(value.type.element_type))
        if self.stack + nbytes > _STACK:
            return False
        self.stack += nbytes
        return True

    def _sources(self, op: ir.Operation) -> list[ir.Value]:
        """The values of all elements that an op reads and the kernel computes."""
        group = self.group
        found = (group.access(v).source for v in op.operands)
        return [v for v in found if v in group.computed and group.is_full(v)]

    def _from_before(self, step: Pass, level: int) -> list[ir.Value]:
        """The values of lower levels that a pass needs, and that no pass stores."""
        group = self.group
        found: dict[ir.Value, None] = {}
        seen: set[ir.Value] = set()
        waiting = [group.access(v).source for v in step.targets]
        while waiting:
            value = waiting.pop()
            if value in seen or value not in group.computed:
                continue
            seen.add(value)
            before = self.levels[value]
            if before < level:
                if value not in self.passes[before].stored:
                    found[value] = None
            else:
                waiting += self._sources(group.computed[value])
        return list(found)

    def _cost(self, value: ir.Value) -> int:
        """What it takes to compute a value from the inputs."""
        ops = self._ops([value], set())
        read = {
            self.group.access(v).source
            for op in ops
            for v in op.operands
            if self.group.access(v).source not in self.group.computed
        }
        return sum(map(cost_of, ops)) + sum(1 for v in read if self.group.is_full(v))

    def _ops(self, targets: Sequence[ir.Value], stored: set[ir.Value]) -> list[ir.Operation]:
        """The ops that compute some values from inputs and stored values, in order."""
        group = self.group
        needed: set[ir.Value] = set()
        waiting = [group.access(v).source for v in targets]
        while waiting:
            value = waiting.pop()
            if value in needed or value in stored or value not in group.computed:
                continue
            if not group.is_full(value):
                continue
            needed.add(value)
            waiting += self._sources(group.computed[value])
        return [op for op in group.order if op.results[0] in needed]


def plan(group: Group) -> list[Pass]:
    """The passes over each row that compute a group."""
    return _Planner(group).planned()
