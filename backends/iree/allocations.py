"""Allocation of memory at the time of a call, instead of in the order of a queue.

In the order of a queue, IREE 3.13 allocates memory from slabs of 64 MiB. It never frees a slab, and
looks for room only in the last one and four others, so a process that frees more than that and
allocates again grows without bound. At the time of a call, IREE uses `malloc`.

Programs with loops or branches on the host keep queued allocations: in some of them IREE's virtual
machine would otherwise lose a buffer, and the call would fail (``ref is null``).

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.compiler_ir import CompilerIR

__all__ = ["allocate_at_the_call", "has_host_control"]


def has_host_control(ir: CompilerIR, module: int) -> bool:
    """Whether a program, after its kernels were formed, has loops or branches on the host."""
    return any(
        ir.name(function) == "util.func" and _has_regions(ir, function)
        for block in ir.blocks(module)
        for function in ir.operations(block)
    )


def _has_regions(ir: CompilerIR, function: int) -> bool:
    blocks = list(ir.blocks(function))
    return len(blocks) > 1 or any(
        any(True for _ in ir.blocks(op)) for block in blocks for op in ir.operations(block)
    )


def allocate_at_the_call(ir: CompilerIR, module: int) -> None:
    """Make the functions of a program allocate memory when they are called, in place.

    Args:
      ir: access to the program.
      module: the program after its memory was planned, without host control.
    """
    for block in ir.blocks(module):
        for function in ir.operations(block):
            for body in ir.blocks(function):
                for op in ir.operations(body):
                    if ir.name(op) == "stream.resource.alloca":
                        _allocate_now(ir, op)


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
