"""A check that nothing reads memory before it is written.

IREE once dropped the kernels that write the initial value of a loop, see `host_reads`: the program
compiled, and read uninitialized memory. This check follows each allocation through the blocks of a
function. It takes an allocation for written as a whole once a part of it is written.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["UnwrittenMemoryError", "check"]

_FUNCTIONS = ("util.func", "util.initializer")
_ALLOCATIONS = ("stream.resource.alloc", "stream.resource.alloca")
_VIEWS = ("stream.timepoint.await", "stream.resource.subview", "util.optimization_barrier")
_EXECUTE, _DISPATCH = "stream.cmd.execute", "stream.cmd.dispatch"
# Operations that write, with the index of the memory among their operands: those of a function,
# and those of an execution.
_WRITES_AT_ONCE = {"stream.resource.store": 0, "stream.file.read": 2}
_WRITES = {"stream.cmd.fill": 0, "stream.cmd.copy": 3}
# They need the memory, but not what is in it.
_READS_NOTHING = frozenset(
    {
        *_VIEWS,
        "cf.br",
        "cf.cond_br",
        "cf.switch",
        "stream.resource.dealloca",
        "stream.resource.size",
    }
)
_FIRST_ARRAY_OF_DISPATCH = 2
_MAY_WRITE = 2


class UnwrittenMemoryError(ValueError):
    """Raised if a program would read memory that nothing has written."""


def check(ir: CompilerIR, module: int) -> None:
    """Check the functions of a program.

    Args:
      ir: access to the program.
      module: the program after its memory was planned.

    Raises:
      UnwrittenMemoryError: a function would read memory before it is written.
    """
    for block in ir.blocks(module):
        for function in ir.operations(block):
            if ir.name(function) in _FUNCTIONS:
                _check_function(ir, function)


def _check_function(ir: CompilerIR, function: int) -> None:
    # Memory that may not be written yet, where each block begins.
    unwritten: dict[int, set[int]] = {block: set() for block in ir.blocks(function)}
    pending = list(unwritten)
    while pending:
        block = pending.pop()
        after = _after_block(ir, block, set(unwritten[block]))
        last = ir.terminator(block)
        for target, passed in _passed(ir, last):
            arriving = after | {
                argument
                for argument, value in zip(ir.arguments(target), passed, strict=True)
                if _root(ir, value) in after
            }
            if not arriving <= unwritten[target]:
                unwritten[target] |= arriving
                pending.append(target)


def _after_block(ir: CompilerIR, block: int, unwritten: set[int]) -> set[int]:
    """The memory that may be unwritten at the end of a block."""
    for op in ir.operations(block):
        name = ir.name(op)
        if name in _ALLOCATIONS:
            if not _is_empty(ir, op):
                unwritten.add(ir.results(op)[0])
        elif name in _WRITES_AT_ONCE:
            unwritten.discard(_root(ir, ir.operands(op)[_WRITES_AT_ONCE[name]]))
        elif name not in _READS_NOTHING and unwritten:
            roots = [_root(ir, value) for value in ir.operands(op)]
            if name == _EXECUTE:
                (body,) = ir.blocks(op)
                writes = set(_written(ir, op))
                unwritten -= {
                    root
                    for root, argument in zip(roots, ir.arguments(body), strict=False)
                    if argument in writes
                }
            if read := unwritten.intersection(roots):
                raise UnwrittenMemoryError(
                    f"{name} would read {ir.type_text(read.pop())} before it is written; please "
                    "report the program"
                )
    return unwritten


def _written(ir: CompilerIR, execution: int) -> Iterator[int]:
    """The memory that the operations of an execution write, as arguments of its block."""
    for op in ir.nested(execution):
        name = ir.name(op)
        if name == _DISPATCH:
            first = sum(ir.segment_size(op, group) for group in range(_FIRST_ARRAY_OF_DISPATCH))
            for i, access in enumerate(ir.int_array(op, "resource_accesses")):
                if access & _MAY_WRITE:
                    yield ir.operands(op)[first + i]
        elif name in _WRITES:
            yield ir.operands(op)[_WRITES[name]]
        elif name not in ("stream.cmd.flush", "stream.cmd.concurrent", "stream.cmd.serial"):
            yield from ir.operands(op)


def _passed(ir: CompilerIR, branch: int) -> list[tuple[int, list[int]]]:
    """The blocks that may follow a branch, each with what it passes to it."""
    targets, operands = ir.successors(ir.block_of(branch)), ir.operands(branch)
    counts = [len(ir.arguments(target)) for target in targets]
    passed = []
    end = len(operands)
    for target, count in zip(reversed(targets), reversed(counts), strict=True):
        passed.append((target, operands[end - count : end]))
        end -= count
    return passed


def _root(ir: CompilerIR, value: int) -> int:
    """The value that a value is a view of."""
    while (op := ir.definition(value)) and ir.name(op) in _VIEWS:
        value = ir.operands(op)[ir.number(value)]
    return value


def _is_empty(ir: CompilerIR, allocation: int) -> bool:
    size = ir.definition(ir.operands(allocation)[0])
    return bool(size) and ir.name(size) == "arith.constant" and ir.integer(size, "value") == 0
