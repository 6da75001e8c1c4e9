"""Functions of the rows of an array, each group of ops as one kernel.

A layer normalization, a softmax, or the gradient of one is a function of rows: it reduces each row,
spreads the results over the row, and computes each element from its row alone. IREE 3.13 makes one
to four kernels of it, which take each stage from one end of a block of rows to the other. The
kernels of this module take one row after the other, which stays in the first-level cache, and make
one pass over it for each level of reductions.

Milliseconds of a call with IREE's kernels and with these (f32[2048,512], two cores of an AMD EPYC,
the least of sixty calls): layer normalization 1.05 and 0.22, with all its gradients 6.4 and 0.85,
sums of squares 0.51 and 0.13, x / norm(x) 0.70 and 0.27, softmax 0.90 and 0.61, its gradient 2.6
and 1.5.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence

from gnomon.backends.iree.legalize.array_kernels.code import Kernel
from gnomon.backends.iree.legalize.array_kernels.executable import dispatch, write_kernel
from gnomon.backends.iree.legalize.array_kernels.layout import View
from gnomon.backends.iree.legalize.array_kernels.row_access import Rows, is_view
from gnomon.backends.iree.legalize.array_kernels.row_code import RowCode, Split
from gnomon.backends.iree.legalize.array_kernels.row_groups import (
    Block,
    Candidates,
    is_ordered,
    reads,
    rows_of,
)
from gnomon.backends.iree.legalize.array_kernels.row_numbers import in_memory
from gnomon.backends.iree.legalize.array_kernels.row_passes import Group, Pass, plan
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.legalize.loop_kernels.loop_kernel import BINDINGS, as_stored, as_unstored
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import ELEMENTWISE, UnsupportedError
from gnomon.backends.iree.targets import Target
from gnomon.dialects.mlir import ir, other_dialects

__all__ = ["FEWEST_ELEMENTS", "LEGALIZATIONS", "SHORTEST_ROW", "write_row_kernels"]

logger = logging.getLogger(__name__)

_REDUCE, _CONSTANT = "stablehlo.reduce", "stablehlo.constant"
_BITCAST = "flow.tensor.bitcast"
_PREFIX = "gnomon_rows_"

SHORTEST_ROW = 32
"""The fewest elements of a row.

Microseconds of processor time of a sum of each row with IREE's kernels and with these, of 2^17 f32
on two cores: 30 and 32 with 8 elements in a row, 25 and 33 with 16, 22 and 20 with 32, 22 and 19
with 64. A layer normalization gains at each length: 232 and 146 with 16, 220 and 90 with 64.
"""

FEWEST_ELEMENTS = 1 << 13
"""The fewest elements of all rows.

Microseconds of processor time of a layer normalization: 7.8 and 9.1 of 2^10 elements, 23 and 16 of
2^13, of which a sum of each row takes 7.7 and 7.3.
"""

# IREE adds a longer row in too few lanes to keep its digits: in four with SSE and NEON,
# where the error of 8000 terms is 270 roundings, and in eight with AVX2. These kernels keep several
# vectors of partial sums.
_LONG_ROW = 1024
# The fewest rows, if there are more than `_ONE_THREAD` elements. One thread takes a row, so with
# fewer rows threads would wait for the others.
_FEWEST_ROWS = 16
_ONE_THREAD = 1 << 16
# About how many instructions on numbers a workgroup executes: some 10 us, of which claiming the
# workgroup takes less than one.
_WORK = 1 << 18
# The most ops of a kernel in all its passes, as in `long_fusions`, and the most ops around a
# reduction that are searched.
_MOST_OPS = 192
_MOST_CANDIDATES = 2000

_BRANCHES = frozenset({"scf.if", "stablehlo.case"})
_REGIONS = frozenset({"func.func", "scf.for", "scf.while", "stablehlo.while"}) | _BRANCHES


def write_row_kernels(module: ir.Module, target: Target) -> bool:
    """Replace the functions of rows of a module by kernels, in place."""
    del target
    numbers = itertools.count()
    changed = False
    with other_dialects(module.context):
        functions = [op.operation for op in module.body.operations]
        for function in functions:
            if function.name == "func.func":
                for block in list(_blocks(function)):
                    changed |= _write_in(block, module.body, numbers)
    return changed


def _blocks(op: ir.Operation) -> Iterator[ir.Block]:
    """The blocks of the regions of control flow, the inner ones first."""
    if op.name not in _REGIONS:
        return
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _blocks(inner.operation)
            yield block


def _write_in(block: ir.Block, module: ir.Block, numbers: itertools.count[int]) -> bool:
    """Replace the functions of rows of a block."""
    changed = False
    tried: set[ir.Operation] = set()
    while (found := _next_candidates(block, tried)) is not None:
        written = _write_groups(found, module, numbers)
        tried.update(op for op in found.block.ops if op.name == _REDUCE and _is_in(op, found))
        if written:
            changed = True
            _erase_unused(found, tried)
    return changed


def _is_in(op: ir.Operation, found: Candidates) -> bool:
    """Whether a reduction is one of some candidates."""
    return found.block.positions[op.results[0]] in found.chosen


def _next_candidates(block: ir.Block, tried: set[ir.Operation]) -> Candidates | None:
    """The ops around the first reduction of rows that has not been tried."""
    for i, op in enumerate(op.operation for op in block.operations):
        if op.name != _REDUCE or op in tried:
            continue
        rows = rows_of(op)
        if rows is not None and _pays(rows):
            return Candidates(Block(block), rows, i, _MOST_CANDIDATES)
    return None


def _pays(rows: Rows) -> bool:
    """Whether a kernel of such rows is faster than separate kernels, or more accurate."""
    if rows.length < max(SHORTEST_ROW, 2) or rows.size < max(FEWEST_ELEMENTS, 1):
        return rows.length > _LONG_ROW
    return rows.size <= _ONE_THREAD or rows.count >= _FEWEST_ROWS


def _write_groups(found: Candidates, module: ir.Block, numbers: itertools.count[int]) -> bool:
    """Write the groups of some candidates, the last ones first, which need less of the others."""
    written = False
    for positions in reversed(found.groups()):
        if len(positions) > _MOST_OPS:
            logger.debug("%d ops: no kernel, for they are too many", len(positions))
            continue
        group = Group(found, positions)
        name = f"{_PREFIX}{next(numbers)}"
        try:
            _write(group, name, module)
        except UnsupportedError as error:
            logger.debug("%s: no kernel, for %s", _described(group), error)
            continue
        logger.debug("%s: a kernel", _described(group))
        found.done.update(positions)
        found.needed.update(group.inputs)
        written = True
    return written


def _described(group: Group) -> str:
    """A description of a group for the log."""
    rows, first = group.rows, group.members[0]
    return (
        f"{len(group.members)} ops on {rows.count} rows of {rows.length} elements "
        f"at {str(first.location)[:80]}"
    )


def _write(group: Group, name: str, module: ir.Block) -> None:
    """Replace a group by a dispatch of a kernel.

    Raises:
      UnsupportedError: the group is too large, or has an op on a dtype that has no code.
    """
    if len(group.inputs) + len(group.outputs) > BINDINGS:
        raise UnsupportedError("too many arrays")
    if not group.outputs:
        raise UnsupportedError("nothing reads its results")
    if len(group.outputs) > 1 and group.block.block.owner.name in _BRANCHES:
        # IREE 3.13 loses one of several results of a kernel in a branch.
        raise UnsupportedError("several results in a branch")
    passes = plan(group)
    if sum(len(step.ops) + len(step.numbers) for step in passes) > _MOST_OPS:
        raise UnsupportedError("too many ops")
    split = _split(group, passes)
    inputs = [in_memory(v.type) for v in group.inputs]
    types = [_output(group, v, split) for v in group.outputs]
    outputs = [in_memory(t) for t in types]

    def write(kernel: Kernel, targets: Sequence[View]) -> None:
        RowCode(
            kernel, group, passes, split, dict(zip(group.outputs, targets, strict=True))
        ).write()

    last = group.members[-1]
    with last.location:
        scratch = write_kernel(
            name, group.inputs, inputs, outputs, write, {}, module, split.workgroups
        )
        moved = _ops_to_move(group)
        with ir.InsertionPoint.after(last):
            end = ir.Operation.create(
                "arith.constant",
                results=[ir.IndexType.get()],
                attributes={"value": ir.IntegerAttr.get(ir.IndexType.get(), 0)},
            )
        anchor = end
        for op in moved:
            op.move_after(anchor)
            anchor = op
        operands = [_stored(v, t, end) for v, t in zip(group.inputs, inputs, strict=True)]
        with ir.InsertionPoint(end):
            stored = dispatch(name, operands, outputs, scratch)
        for old, new, memory, type_ in zip(group.outputs, stored, outputs, types, strict=False):
            value = as_unstored(new, memory, end)
            if memory != type_:
                value = _bitcast(value, type_, end)
            if type_ != old.type:
                value = _total(old, value, end)
            old.replace_all_uses_with(value)
        end.erase()


def _split(group: Group, passes: Sequence[Pass]) -> Split:
    """How the rows are divided among workgroups."""
    count, length = group.rows.count, group.rows.length
    work = length * sum(step.work for step in passes)
    rows = min(count, max(1, round(_WORK / work)))
    block = group.block_rows
    if not block:
        return Split(-(-count // rows), rows, 0)
    if block < count:
        rows = block * max(1, round(rows / block))
        return Split(-(-count // rows), rows, block)
    # Each workgroup adds up its own rows, and another kernel the sums.
    return Split(-(-count // rows), rows, rows)


def _output(group: Group, value: ir.Value, split: Split) -> ir.RankedTensorType:
    """The type of an output of the kernel: one more dimension for sums that are left to add up."""
    type_ = value.type
    if (
        value.owner.name == _REDUCE
        and group.block_rows == group.rows.count
        and rows_of(value.owner.operation) != group.rows
        and split.workgroups > 1
    ):
        return ir.RankedTensorType.get([split.workgroups, *type_.shape], type_.element_type)
    return type_


def _total(old: ir.Value, parts: ir.Value, before: ir.Operation) -> ir.Value:
    """The sum of the workgroups' sums."""
    reduction = old.owner.operation
    clone = reduction.clone(ip=ir.InsertionPoint(before))
    clone.operands[0] = parts
    clone.attributes["dimensions"] = ir.DenseI64ArrayAttr.get([0])
    return clone.results[0]


def _stored(value: ir.Value, memory: ir.RankedTensorType, before: ir.Operation) -> ir.Value:
    """A value as the kernel reads it."""
    if memory != value.type:
        return _bitcast(value, memory, before)
    return as_stored(value, before)


def _bitcast(value: ir.Value, type_: ir.RankedTensorType, before: ir.Operation) -> ir.Value:
    """A view of an array with elements of another type; emitted before an op."""
    return ir.Operation.create(
        _BITCAST,
        results=[type_],
        operands=[value],
        attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0])},
        ip=ir.InsertionPoint(before),
    ).results[0]


def _ops_to_move(group: Group) -> list[ir.Operation]:
    """The ops between the members of a group that need its results, in order."""
    first, last = group.members[0], group.members[-1]
    members = {op.results[0] for op in group.members}
    tainted = set(members)
    found: list[ir.Operation] = []
    is_between = has_effects = False
    for op in (op.operation for op in group.block.block.operations):
        is_between |= op == first
        if not is_between:
            continue
        if op == last:
            break
        if len(op.results) and op.results[0] in members:
            continue
        ordered = is_ordered(op)
        if not tainted.isdisjoint(reads(op)) or (ordered and has_effects):
            found.append(op)
            tainted.update(op.results)
            has_effects |= ordered
    return found


def _erase_unused(found: Candidates, tried: set[ir.Operation]) -> None:
    """Erase the members of written groups, and the ops that only they read."""
    for i in range(len(found.block.ops) - 1, -1, -1):
        op = found.block.ops[i]
        is_pure = (
            is_view(op)
            or op.name in ELEMENTWISE
            or op.name in (_REDUCE, "stablehlo.iota", _CONSTANT)
        )
        if is_pure and not any(next(iter(r.uses), None) for r in op.results):
            tried.discard(op)
            op.erase()


LEGALIZATIONS = (
    Legalization(
        name="row-kernels",
        stage=Stage.COMPILER_OPS,
        kind=Kind.SLOW,
        doc="write functions of the rows of an array, such as a softmax, as one kernel each",
        upstream="IREE 3.13 takes 1.05 ms for a layer normalization of f32[2048,512] instead of "
        "0.22, and 6.4 ms for its gradients instead of 0.85",
        reproducer="the gradient of a layer normalization takes two kernels",
        targets=Targets.where(host_memory=True),
        run=write_row_kernels,
        needs=frozenset({_REDUCE}),
    ),
)
