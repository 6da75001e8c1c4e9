"""Values that IREE 3.13 computes in the kernels that read them, wrongly on devices.

If a kernel computes a value and reads it along different dimensions, for example to compare all
pairs of a row, it keeps the value in a buffer that all its threads write at the same time: a race,
seen on Vulkan. To save memory, IREE also repeats widening computations (an i8 converted to an i32,
and ops fused with that) wherever the value is read: for CUDA, it rejects a scatter of such updates.

A kernel is also wrong if it reduces and then reads the result along dimensions that were reduced.
On Vulkan, ``x / x.sum(0)`` of f32[300,300] has infinities, and ``x + x.sum(1)`` of f32[32,32] does
not compile. Kernels that reduce the last dimensions and read the result along the first ones, as
softmax does, are correct. Products of matrices are stored too, except for ROCm, where IREE crashes
on some stored ones, in the scores of attention.

On CPUs, a kernel that reduces and broadcasts the result to rows of a larger array is divided among
threads by the columns of the array: each thread reads and writes a few elements of every row, and
the threads write the same cache lines. k-means with 4096 points and 16 centres took twice as long.

A barrier stores a value in memory.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from gnomon.backends.iree.legalize.aliases import MOVES_DIMENSIONS, REARRANGES, name_of
from gnomon.backends.iree.legalize.fusion.wide_fusions import is_fused
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.targets import Target
from gnomon.dialects.barrier import optimization_barrier
from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.contract import Instance, all_operations, instance_of
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, form_of
from gnomon.dialects.types import BOOL, type_of

__all__ = ["LEGALIZATIONS", "is_widened", "store_values_read_across"]


def is_widened(value: ir.Value) -> bool:
    """Whether a value may be computed, within one kernel, from a narrower dtype."""
    width, seen, waiting = _bits(value), {value}, [value]
    while waiting:
        value = waiting.pop()
        is_computed = not isinstance(value.owner, ir.Block) and is_fused(value.owner.name)
        # A bool that is computed takes no memory.
        if _bits(value) < width and not (type_of(value).dtype == BOOL and is_computed):
            return True
        if is_computed:
            found = [x for x in operands_of(value.owner.operation) if x not in seen]
            waiting += found
            seen.update(found)
    return False


def _bits(value: ir.Value) -> int:
    """The width of an element in the compiler's computations, in which a bool is one bit."""
    dtype = type_of(value).dtype
    return 1 if dtype == BOOL else 8 * dtype.itemsize


def store_values_read_across(program: Program, target: Target) -> None:
    """Put barriers after computed values that are read along different dimensions, in place."""
    for function in program.functions:
        body = program.body(symbol_name(function))
        _store(body)
        _store_reductions(body, products=target.platform != "rocm")


def store_reductions_read_by_more(program: Program, target: Target) -> None:
    """Put barriers after reductions that are broadcast to more elements than they read."""
    for function in program.functions:
        for op in list(all_operations(program.body(symbol_name(function)))):
            if form_of(op.name) is Form.REDUCTION:
                read = max(type_of(x).size for x in operands_of(op))
                for value in results_of(op):
                    if _repeated_size(value) > read:
                        _put_barrier(value)


def _repeated_size(value: ir.Value) -> int:
    """The largest size to which a value is broadcast before its own dimensions, by fused ops."""
    largest, seen, waiting = 0, {value}, [value]
    while waiting and len(seen) <= _SEARCHED:
        for use in waiting.pop().uses:
            name = name_of(use.owner)
            if not is_fused(use.owner.name) or form_of(use.owner.name) is Form.REDUCTION:
                continue
            if name == "broadcast_in_dim" and not _is_trailing(instance_of(use.owner.operation)):
                largest = max(largest, type_of(use.owner.operation.results[0]).size)
            found = [x for x in results_of(use.owner.operation) if x not in seen]
            waiting += found
            seen.update(found)
    return largest


def _store(body: Body) -> None:
    computed = [
        op for op in all_operations(body) if is_fused(op.name) and name_of(op) not in REARRANGES
    ]
    for op in computed:
        for value in results_of(op):
            uses, moved = _reads(value)
            if uses > 1 and moved:
                _put_barrier(value)


def _put_barrier(value: ir.Value) -> None:
    op = value.owner.operation
    with ir.InsertionPoint.after(op), op.location:
        (stored,) = optimization_barrier.build([value], {})
    value.replace_all_uses_except(stored, stored.owner.operation)


class _Spread(enum.IntEnum):
    """How the kernels that read a value broadcast it."""

    NOT = 0
    TRAILING = 1  # along new dimensions after its own
    OTHERWISE = 2


_NOT = _Spread.NOT
# The most values that are followed from a reduction.
_SEARCHED = 64


def _store_reductions(body: Body, products: bool) -> None:
    """Put barriers after reductions, and products, unless they are broadcast as in a softmax."""
    spreads: dict[ir.Value, _Spread] = {}
    reductions = []
    for op in reversed(list(all_operations(body))):
        name = name_of(op)
        if not is_fused(op.name) and name != "dot_general":
            continue
        for value in results_of(op):
            spreads[value] = max((_spread_by(u.owner, spreads) for u in value.uses), default=_NOT)
        if form_of(op.name) is Form.REDUCTION or (products and name == "dot_general"):
            reductions.append(op)
    for op in reductions:
        allowed = _Spread.TRAILING if _reduces_last_dimensions(op) else _NOT
        for value in results_of(op):
            if spreads[value] > allowed:
                _put_barrier(value)


def _reduces_last_dimensions(op: ir.Operation) -> bool:
    if form_of(op.name) is not Form.REDUCTION:
        return False
    inst = instance_of(op)
    axes = inst.params["axes"] if "axes" in inst.params else (inst.params["axis"],)
    rank = inst.operand_types[0].rank
    return sorted(axes) == list(range(rank - len(axes), rank))


def _spread_by(user: ir.Operation | ir.OpView, spreads: Mapping[ir.Value, _Spread]) -> _Spread:
    """How an op, or the ops that are fused with it, broadcast its operand."""
    name = name_of(user)
    if not is_fused(user.name) or form_of(user.name) is Form.REDUCTION:
        return _NOT
    inst = instance_of(user.operation)
    later = max(spreads[value] for value in results_of(user.operation))
    if name not in REARRANGES:
        return later
    operand, result = inst.operand_types[0].shape, inst.type.shape
    rank = len(operand)
    if name == "reshape":
        keeps = result[:rank] == operand
        return later if keeps else _Spread.OTHERWISE if later else _NOT
    if name == "transpose":
        return _Spread.OTHERWISE
    return max(later, _Spread.TRAILING) if _is_trailing(inst) else _Spread.OTHERWISE


def _is_trailing(broadcast: Instance) -> bool:
    """Whether an array is broadcast along new dimensions after its own."""
    operand, result = broadcast.operand_types[0].shape, broadcast.type.shape
    rank = len(operand)
    if broadcast.params["dims"] != tuple(range(rank)):
        return False
    kept = [a == b for a, b in zip(operand, result, strict=False)]
    first = kept.index(False) if False in kept else rank
    return all(size == 1 for size in operand[first:])


def _reads(value: ir.Value) -> tuple[int, bool]:
    """The number of reads of a value and its views, and whether one moves its dimensions."""
    count, moved = 0, False
    for use in value.uses:
        name = name_of(use.owner)
        if name in REARRANGES:
            more, also = _reads(use.owner.results[0])
            count, moved = count + more, moved or also or name in MOVES_DIMENSIONS
        else:
            count += 1
    return count, moved


LEGALIZATIONS = (
    Legalization(
        name="values-read-across",
        stage=Stage.FUSE,
        kind=Kind.MISCOMPILED,
        doc="store computed values that are read along different dimensions, and reductions that "
        "are broadcast along other dimensions than the last ones",
        upstream="IREE 3.13 keeps such a value in a buffer that the threads of a device write at "
        "the same time, or rejects the program",
        texts=("kernels_of_reductions_on_vulkan",),
        reproducer="`x / x.sum(0)` of f32[300,300] on `vulkan:portable` is infinite",
        targets=Targets.where(memory="device"),
        run=store_values_read_across,
    ),
    Legalization(
        name="reductions-read-by-more",
        stage=Stage.FUSE,
        kind=Kind.SLOW,
        doc="store reductions that are broadcast to rows of a larger array",
        upstream="IREE 3.13 computes the array in the reduction's kernel, a few columns at a time",
        reproducer="`x + (c * c).sum(1)` of f32[65536,16] takes over 1.5 times the processor time",
        targets=Targets.where(memory="host"),
        run=store_reductions_read_by_more,
    ),
)
