"""Values that IREE 3.13 computes in the kernels that read them, where that goes wrong on devices.

A kernel that computes a value and reads it along different dimensions, as where all pairs of a row
are compared, keeps it in a buffer that its threads write at the same time: a race, seen on Vulkan.
And what is computed from narrower numbers (an i8 converted to an i32, and what is fused with that)
is computed again wherever it is read, to spare memory: for CUDA a scatter of such updates is
refused. Behind a barrier a value is in memory.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.aliases import MOVES_DIMENSIONS, REARRANGES, name_of
from gnomon.backends.iree.legalize.fusion.wide_fusions import is_fused
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.targets import Target
from gnomon.dialects.barrier import optimization_barrier
from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.contract import all_operations
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import BOOL, type_of

__all__ = ["LEGALIZATIONS", "is_widened", "store_values_read_across"]


def is_widened(value: ir.Value) -> bool:
    """Whether a kernel that computes a value can read narrower numbers."""
    size, seen, waiting = type_of(value).dtype.itemsize, {value}, [value]
    while waiting:
        value = waiting.pop()
        dtype = type_of(value).dtype
        is_computed = not isinstance(value.owner, ir.Block) and is_fused(value.owner.name)
        # What a comparison gives is a number of no memory; a bool that is read is one of a byte.
        if dtype.itemsize < size and not (dtype == BOOL and is_computed):
            return True
        if is_computed:
            found = [x for x in operands_of(value.owner.operation) if x not in seen]
            waiting += found
            seen.update(found)
    return False


def store_values_read_across(program: Program, target: Target) -> None:
    """Put barriers after computed values that are read along different dimensions; in place."""
    for function in program.functions:
        _store(program.body(symbol_name(function)))


def _store(body: Body) -> None:
    computed = [
        op for op in all_operations(body) if is_fused(op.name) and name_of(op) not in REARRANGES
    ]
    for op in computed:
        for value in results_of(op):
            uses, moved = _reads(value)
            if uses > 1 and moved:
                with ir.InsertionPoint.after(op), op.location:
                    (stored,) = optimization_barrier.build([value], {})
                value.replace_all_uses_except(stored, stored.owner.operation)


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
        doc="store computed values that are read along different dimensions",
        upstream="IREE 3.13 keeps such a value in a buffer that the threads of a device write at "
        "the same time",
        targets=Targets.where(memory="device"),
        run=store_values_read_across,
    ),
)
