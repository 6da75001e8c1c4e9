"""Waits for the device, before the host reads what a loop carries.

IREE 3.13 gives each array that a loop carries a *timepoint*, the event that the kernels which write
the array are done, and kernels in the loop wait for it. If the host reads the carry itself, to pass
it to Python, it does not wait. So Python may see the array before it is written. If nothing else in
the loop needs the timepoint, IREE even drops the kernels that write the initial value: Python then
sees uninitialized memory.

This pass puts a barrier where such an array enters the loop, and where an iteration passes it to
the next. The host waits at a barrier, so the array is complete in the loop. Arrays from Python and
arguments of the program are complete already, but views of them may be copied: an array of another
shape is a copy if the program returns the argument too. The pass runs after kernels are formed and
updates have their own buffers, and before the kernels are scheduled.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["wait_for_carries"]

_FOR, _WHILE = "scf.for", "scf.while"
_BARRIER = "util.optimization_barrier"
_HOST_READS = ("hal.tensor.export", _BARRIER)
# An array from Python, or an argument of the program.
_COMPLETE = ("hal.tensor.import", _BARRIER)
_VIEWS = ("flow.tensor.reshape", "flow.tensor.bitcast")


def wait_for_carries(ir: CompilerIR, module: int) -> int:
    """Insert barriers before the host reads carries of loops; the module is changed.

    Args:
      ir: access to the program.
      module: the program after its kernels were formed.

    Returns:
      The number of barriers.
    """
    pending = [
        root
        for block in ir.blocks(module)
        for function in ir.operations(block)
        if ir.name(function) == "util.func"
        for op in ir.nested(function)
        if ir.name(op) in _HOST_READS
        for value in ir.operands(op)
        if _is_carried(ir, root := _viewed(ir, value))
    ]
    seen: set[int] = set()
    count = 0
    while pending:
        carry = pending.pop()
        if carry in seen:
            continue
        seen.add(carry)
        for op, index in _entries(ir, carry):
            entering = ir.operands(op)[index]
            if _is_carried(ir, root := _viewed(ir, entering)):
                pending.append(root)
            if entering != root or not _is_complete(ir, root):
                _wait(ir, op, index)
                count += 1
    return count


def _is_complete(ir: CompilerIR, value: int) -> bool:
    """Whether a value is from Python, an argument of the program, or complete as a carry."""
    if _is_carried(ir, value):
        return True
    definition = ir.definition(value)
    return bool(definition) and ir.name(definition) in _COMPLETE


def _viewed(ir: CompilerIR, value: int) -> int:
    """The value in whose buffer a value is."""
    while (op := ir.definition(value)) and ir.name(op) in _VIEWS:
        value = ir.operands(op)[0]
    return value


def _is_carried(ir: CompilerIR, value: int) -> bool:
    """Whether a value is an argument of a block of a loop."""
    return not ir.definition(value) and ir.name(ir.parent(ir.block_of_value(value))) in (
        _FOR,
        _WHILE,
    )


def _entries(ir: CompilerIR, carry: int) -> list[tuple[int, int]]:
    """The operations, with the index of the operand, that pass a value to a carry of a loop."""
    block, number = ir.block_of_value(carry), ir.number(carry)
    loop = ir.parent(block)
    blocks = list(ir.blocks(loop))
    if ir.name(loop) == _FOR:
        # The operands of the loop are three bounds and the carries; the arguments of its block are
        # a counter and the carries.
        return [(loop, number + 2), (ir.terminator(block), number - 1)]
    before, after = blocks
    if block == before:
        return [(loop, number), (ir.terminator(after), number)]
    # The first operand is the condition.
    return [(ir.terminator(before), number + 1)]


def _wait(ir: CompilerIR, op: int, index: int) -> None:
    value = ir.operands(op)[index]
    barrier = ir.create(_BARRIER, [value], [value], {}, location_of=op)
    ir.insert_before(op, barrier)
    ir.set_operand(op, index, ir.results(barrier)[0])
