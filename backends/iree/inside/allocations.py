"""Allocation of memory at the time of a call, instead of in the order of a queue.

In the order of a queue, IREE 3.13 allocates memory from slabs of 64 MiB. It never frees a slab, and
looks for room only in the last one and four others, so a process that frees more than that and
allocates again grows without bound. At the time of a call, IREE uses `malloc`.

Loops on the host keep their queued allocations. The host runs through all iterations of a loop
before the first has been computed, unless it waits for a condition, so that at the time of the call
it would allocate the memory of all of them at once.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["allocate_at_the_call"]

_HOST_CODE = ("util.func", "util.initializer")


def allocate_at_the_call(ir: CompilerIR, module: int) -> None:
    """Make the functions of a program allocate memory when they are called, except in loops.

    Args:
      ir: access to the program, which is changed in place.
      module: the program after its memory was planned.
    """
    for block in ir.blocks(module):
        for function in ir.operations(block):
            if ir.name(function) in _HOST_CODE:
                for op in _queued(ir, function):
                    _allocate_now(ir, op)


def _queued(ir: CompilerIR, op: int) -> list[int]:
    """The queued allocations of an operation and of its branches, without those in loops."""
    blocks = list(ir.blocks(op))
    repeated = _in_loops(ir, blocks)
    found = []
    for block in blocks:
        if block not in repeated:
            for inner in ir.operations(block):
                name = ir.name(inner)
                if name == "stream.resource.alloca":
                    found.append(inner)
                elif name == "scf.if":
                    found += _queued(ir, inner)
    return found


def _in_loops(ir: CompilerIR, blocks: Sequence[int]) -> set[int]:
    """The blocks that may run more than once.

    A cycle that contains a block returns to or past it, in the order of the list, by a branch from
    it or from a later one. So the blocks between the ends of such branches are all that repeat.
    """
    if len(blocks) < 2:
        return set()
    place = {block: index for index, block in enumerate(blocks)}
    repeated: set[int] = set()
    for index, block in enumerate(blocks):
        for successor in ir.successors(block):
            repeated.update(blocks[place[successor] : index + 1])
    return repeated


def _allocate_now(ir: CompilerIR, queued: int) -> None:
    """Replace a queued allocation by an immediate one."""

    def create(name: str, like: int, operands: Sequence[int], **attributes: int) -> int:
        op = ir.create(name, [like], operands, attributes, location_of=queued)
        ir.insert_before(queued, op)
        return ir.results(op)[0]

    size, *wait_for = ir.operands(queued)
    memory, ready = ir.results(queued)
    affinity = ir.attribute(queued, "affinity")
    new = create(
        "stream.resource.alloc", memory, [size], **({"affinity": affinity} if affinity else {})
    )
    if not wait_for:
        wait_for = [create("stream.timepoint.immediate", ready, [])]
    # Users of the memory now wait for the timepoints for which the queue would have waited.
    ir.replace(memory, new)
    ir.replace(ready, wait_for[0])
    ir.erase(queued)
