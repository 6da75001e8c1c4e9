"""The groups of ops that are functions of rows: which ops a kernel of rows computes.

A group belongs to rows of one number and length. Its members are elementwise ops on all elements or
on one number per row, reductions of rows, and sums of rows over blocks of rows. Reshapes and
broadcasts are no members: members read through them (`row_access`).

A group must be convex: no op outside of it may both need a member's result and be needed by a
member. So the ops around a reduction that could be members are numbered by *phases*: an op's phase
is the largest number of times that a path to it has left the candidates and come back. The
candidates of one phase are convex, and no path leads from a later phase to an earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from gnomon.backends.iree.legalize.array_kernels.reductions import ACROSS, combiner
from gnomon.backends.iree.legalize.array_kernels.row_access import (
    Access,
    Rows,
    access,
    is_literal,
    is_view,
    producer,
    source_of,
)
from gnomon.backends.iree.legalize.array_kernels.row_numbers import NARROW
from gnomon.backends.iree.legalize.loop_kernels.attributes import integers
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import ELEMENTWISE
from gnomon.backends.iree.legalize.loop_kernels.values import size_of
from gnomon.dialects.mlir import ir

__all__ = ["Block", "Candidates", "block_of_rows", "is_ordered", "reads", "rows_of"]

_REDUCE = "stablehlo.reduce"

_ELEMENTS = (
    NARROW | {"f32", "f64", "i1"} | {f"{s}{n}" for s in ("i", "ui") for n in (8, 16, 32, 64)}
)
# Ops whose rounding, or whose bits, differ if narrow numbers are computed in f32.
_NOT_NARROW = frozenset({"stablehlo.bitcast_convert", "stablehlo.remainder"})
# The most elements that one workgroup adds up for each row of sums. If all rows are added up, each
# workgroup adds up its own.
_LARGEST_BLOCK = 1 << 16
# Literals and ops that read no memory are repeated in each kernel that needs them.
_FREE_OPS = 8


def _operations_in(op: ir.Operation) -> Iterator[ir.Operation]:
    """An op and the ops in its regions."""
    yield op
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _operations_in(inner.operation)


class Block:
    """The ops of a block, with the ops that read each value.

    Attributes:
      ops: the ops in order.
      positions: the position of each op, by its first result.
      users: for each value, the positions of the ops that read it, in regions too.
    """

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self.ops = [op.operation for op in block.operations]
        self.positions: dict[ir.Value, int] = {}
        self.users: dict[ir.Value, list[int]] = {}
        for i, op in enumerate(self.ops):
            for result in op.results:
                self.positions[result] = i
            for value in reads(op):
                self.users.setdefault(value, []).append(i)

    def position(self, value: ir.Value) -> int | None:
        """The position of the op that computes a value; None if it is not in the block."""
        return self.positions.get(value)


def reads(op: ir.Operation) -> list[ir.Value]:
    """The values that an op and the ops in its regions read."""
    if not len(op.regions):
        return list(op.operands)
    return [value for inner in _operations_in(op) for value in inner.operands]


def rows_of(op: ir.Operation) -> Rows | None:
    """The rows that an op reduces; None if it does not reduce the last dimensions by one op."""
    parts = _reduced(op)
    if parts is None:
        return None
    outer, inner = parts
    kept = [n for n, is_reduced in outer if not is_reduced]
    if len(kept) != len(outer) or not inner:
        return None
    return Rows(math.prod(kept), math.prod(inner))


def block_of_rows(op: ir.Operation, rows: Rows) -> int | None:
    """How many rows that follow each other an op adds up, for each sum; None if it does not.

    Its operand has the shape ``(count, block, length)`` of the rows, or one with split dimensions.
    """
    if op.name != _REDUCE or size_of(op.operands[0].type) != rows.size:
        return None
    if _reduced(op) is None or combiner(op) != "add" or not _starts_at_zero(op):
        return None
    shape, axes = list(op.operands[0].type.shape), integers(op, "dimensions")
    split, columns = len(shape), 1
    while columns < rows.length and split:
        split -= 1
        columns *= shape[split]
    reduced = [d for d in axes if shape[d] != 1]
    if columns != rows.length or not reduced or max(reduced) >= split:
        return None
    first = min(reduced)
    if any(d not in axes and shape[d] != 1 for d in range(first, split)):
        return None
    return math.prod(shape[first:split])


def _starts_at_zero(op: ir.Operation) -> bool:
    """Whether the start of a sum is a literal zero."""
    initial = producer(source_of(op.operands[1]))
    if initial is None or not is_literal(initial.results[0]):
        return False
    return float(ir.DenseElementsAttr(initial.attributes["value"]).get_splat_value().value) == 0


def _reduced(op: ir.Operation) -> tuple[list[tuple[int, bool]], list[int]] | None:
    """The dimensions of a reduction by one op: all before the reduced last ones, and those."""
    if op.name != _REDUCE or len(op.results) != 1:
        return None
    name, type_ = combiner(op), op.operands[0].type
    element = str(type_.element_type)
    if name is None or element not in _ELEMENTS or not type_.has_static_shape:
        return None
    if element in NARROW:
        if name not in ("maximum", "minimum"):
            return None
    elif _kind(element) not in ACROSS[name]:
        return None
    axes = integers(op, "dimensions")
    dims = [(n, d in axes) for d, n in enumerate(type_.shape) if n != 1]
    inner: list[int] = []
    while dims and dims[-1][1]:
        inner.append(dims.pop()[0])
    return dims, inner


def _kind(element: str) -> str:
    """The kind of number of a dtype, see `scalar_code.kind_of`."""
    if element == "i1":
        return "b"
    return "u" if element.startswith("ui") else "s" if element.startswith("i") else "f"


def _is_elementwise(op: ir.Operation) -> bool:
    """Whether kernels of rows have code for an elementwise op on its dtypes."""
    if op.name not in ELEMENTWISE or len(op.results) != 1:
        return False
    types = [v.type for v in (*op.operands, op.results[0])]
    if not all(isinstance(t, ir.RankedTensorType) and t.has_static_shape for t in types):
        return False
    names = [str(t.element_type) for t in types]
    if not _ELEMENTS.issuperset(names):
        return False
    if "compare_type" in op.attributes and "TOTAL" in str(op.attributes["compare_type"]):
        return False
    if NARROW.isdisjoint(names):
        return True
    return op.name not in _NOT_NARROW and "f64" not in names


@dataclass
class Candidates:
    """The ops around a reduction that may be members of groups for the same rows.

    Args:
      block: the block.
      rows: the rows.
      seed: the position of the reduction.
      most: the most candidates.

    Attributes:
      chosen: their positions.
      done: the positions of those for which a kernel is written.
      needed: the values that these kernels read.
    """

    block: Block
    rows: Rows
    seed: int
    most: int
    chosen: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    needed: set[ir.Value] = field(default_factory=set)
    _of_reduction: set[ir.Value] = field(default_factory=set)
    _free: dict[ir.Value, int] = field(default_factory=dict)
    _seen: set[ir.Value] = field(default_factory=set)
    _blocks: int = 0
    _accesses: dict[ir.Value, Access | None] = field(default_factory=dict)
    _sources: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose the candidates that the reduction is connected with."""
        self._survey()
        waiting = [self.seed]
        self.chosen.add(self.seed)
        while waiting and len(self.chosen) < self.most:
            for i in self._neighbours(self.block.ops[waiting.pop()]):
                if i not in self.chosen and self._may_be_chosen(self.block.ops[i]):
                    self.chosen.add(i)
                    waiting.append(i)

    def _neighbours(self, op: ir.Operation) -> Iterator[int]:
        """The ops that read a result of an op, or make or share an operand of it."""
        if block_of_rows(op, self.rows) is None:
            yield from self._readers(op.results[0])
        for value in list(op.operands)[:1] if op.name == _REDUCE else op.operands:
            source = self.source_of(value)
            position = self.block.position(source)
            size = size_of(source.type)
            if size == self.rows.size:
                if position is not None:
                    yield position
                if source not in self._seen:
                    # Groups that read the same array become one.
                    self._seen.add(source)
                    yield from self._readers(source)
            elif position is not None and size == self.rows.count and source in self._of_reduction:
                yield position

    def _readers(self, value: ir.Value) -> Iterator[int]:
        """The ops that read a value, or a view of it."""
        for i in self.block.users.get(value, ()):
            op = self.block.ops[i]
            if is_view(op):
                yield from self._readers(op.results[0])
            else:
                yield i

    def _may_be_chosen(self, op: ir.Operation) -> bool:
        """Whether an op is a function of the rows."""
        if op.name == _REDUCE:
            if rows_of(op) == self.rows:
                return True
            block = block_of_rows(op, self.rows)
            if block is None:
                return False
            if block < self.rows.count and block * self.rows.length > _LARGEST_BLOCK:
                return False
            # All sums over blocks of a kernel have blocks of one size.
            self._blocks = self._blocks or block
            return self._blocks == block
        if not _is_elementwise(op):
            return False
        (result,) = op.results
        size = size_of(result.type)
        if size not in (self.rows.size, self.rows.count):
            return False
        for value in op.operands:
            if size_of(value.type) not in (1, size):
                return False
        return not self.is_free(result)

    def _survey(self) -> None:
        """Find the numbers of rows that depend on reductions, and the free values, in order."""
        for op in self.block.ops:
            if len(op.results) != 1 or not isinstance(op.results[0].type, ir.RankedTensorType):
                continue
            (result,) = op.results
            size = size_of(result.type)
            if size == self.rows.count and self._is_of_reduction(op):
                self._of_reduction.add(result)
            elif size == self.rows.size and _is_elementwise(op):
                ops = self._count_free(op)
                if ops is not None and ops <= _FREE_OPS:
                    self._free[result] = ops

    def _is_of_reduction(self, op: ir.Operation) -> bool:
        """Whether one number of each row is computed from a reduction of the rows."""
        if op.name == _REDUCE:
            return rows_of(op) == self.rows
        return op.name in ELEMENTWISE and any(
            self.source_of(v) in self._of_reduction for v in op.operands
        )

    def _count_free(self, op: ir.Operation) -> int | None:
        """How many ops make a value from less than an array; None if one needs an array."""
        ops = 1
        for operand in op.operands:
            source = self.source_of(operand)
            if is_literal(source):
                continue
            found = self.access(operand)
            if found is not None and found.is_ramp:
                continue
            if size_of(source.type) < self.rows.size:
                if found is None or source in self._of_reduction:
                    return None
                continue
            if source not in self._free:
                return None
            ops += self._free[source]
        return ops

    def is_free(self, value: ir.Value) -> bool:
        """Whether a few ops compute all elements from less than an array of them.

        Such ops are repeated in each kernel that needs them, like masks that iotas make.
        """
        return value in self._free

    def source_of(self, value: ir.Value) -> ir.Value:
        """The value that a value is a view of."""
        if value not in self._sources:
            self._sources[value] = source_of(value)
        return self._sources[value]

    def access(self, value: ir.Value) -> Access | None:
        """How a value of one or of all elements of each row is read, see `access`."""
        if value not in self._accesses:
            self._accesses[value] = access(value, self.rows)
        return self._accesses[value]

    def is_read_in_place(self, value: ir.Value) -> bool:
        """Whether a member may read a value from the members that it is a view of."""
        found = self.access(value)
        if found is None:
            return False
        if size_of(found.source.type) == self.rows.size:
            return found.is_whole(self.rows)
        return found.is_per_row(self.rows)

    # -------------------------------------------------------------------------------------- phases

    def groups(self) -> list[list[int]]:
        """The positions of the members of each group, the first groups first."""
        phases = self._phases()
        joined = {i: i for i in self.chosen}

        def root(i: int) -> int:
            while joined[i] != i:
                joined[i] = i = joined[joined[i]]
            return i

        # Those of a phase that read an array that none of them computes.
        siblings: dict[tuple[ir.Value, int], list[int]] = {}
        for i in sorted(self.chosen):
            for value in self.block.ops[i].operands:
                source = self.source_of(value)
                j = self.block.position(source)
                if j is not None and phases.get(j) == phases[i]:
                    joined[root(i)] = root(j)
                elif size_of(source.type) == self.rows.size and not is_literal(source):
                    siblings.setdefault((source, phases[i]), []).append(i)
        reducing = {root(i) for i in self.chosen if self.is_reduction(i)}
        for readers in siblings.values():
            groups = list(dict.fromkeys(root(i) for i in readers if root(i) in reducing))
            for group in groups[1:]:
                joined[root(group)] = root(groups[0])
                reducing.add(root(group))
        found: dict[int, list[int]] = {}
        for i in sorted(self.chosen):
            found.setdefault(root(i), []).append(i)
        ordered = sorted(found.values(), key=lambda group: (phases[group[0]], group[0]))
        return [group for group in ordered if any(map(self.is_reduction, group))]

    def is_reduction(self, i: int) -> bool:
        """Whether the op at a position reduces rows."""
        return rows_of(self.block.ops[i]) == self.rows

    def _phases(self) -> dict[int, int]:
        """The phase of each candidate, by position."""
        phases: dict[int, int] = {}
        # For each value, the phase of the members that it depends on, and whether it is a view of
        # such a member's result.
        depends: dict[ir.Value, tuple[int, bool]] = {}
        effects = 0
        for i in range(min(self.chosen), max(self.chosen) + 1):
            op = self.block.ops[i]
            phase = 0
            is_member = i in self.chosen
            for value in reads(op):
                before, is_inside = depends.get(value, (0, False))
                if is_inside and not (is_view(op) or (is_member and self._reads(op, value))):
                    before += 1
                phase = max(phase, before)
            if is_member:
                phases[i] = phase
            elif is_ordered(op):
                effects = phase = max(effects, phase)
            inside = is_member or (is_view(op) and depends.get(op.operands[0], (0, False))[1])
            if phase or inside:
                for result in op.results:
                    depends[result] = (phase, inside)
        return phases

    def _reads(self, op: ir.Operation, value: ir.Value) -> bool:
        """Whether a member reads a value in place, and from a member that is in a register."""
        position = self.block.position(self.source_of(value))
        if position is not None and block_of_rows(self.block.ops[position], self.rows) is not None:
            return False
        if op.name == _REDUCE and value != op.operands[0]:
            return False
        return self.is_read_in_place(value)


def is_ordered(op: ir.Operation) -> bool:
    """Whether an op may have effects, and must stay in order with others that have."""
    if op.name.startswith(("stablehlo.", "chlo.")):
        return op.name in ("stablehlo.custom_call", "stablehlo.while", "stablehlo.case")
    return not op.name.startswith(("arith.", "tensor.", "flow."))
