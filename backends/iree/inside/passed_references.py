"""Copies of references, so that no branch of a program passes one that is needed elsewhere.

At a branch, IREE 3.13's virtual machine copies references into the registers of the arguments of
the next block, and moves each one out of its register at its last use. It lets an argument have the
register of the reference that one of the branches passes, which saves a copy. This loses references
in two cases. Then an argument is null, and a call fails with ``ref is null`` or a kernel gets no
buffer; or an argument is another buffer.

- The branch passes the same reference to another argument too. This other use is the last one, and
  moves the reference out of the shared register.
- The reference is used after the branch. Other branches overwrite the shared register, and of both
  values that are in it, the first one to be used for the last time takes the reference away.

A branch of a program passes the same buffer twice if several results of a conditional or of a loop
are in one buffer, where the compiler puts them if it can. A part of that buffer that does not
depend on the conditional is used after it.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["copy_passed"]

# A copy: which of the two is selected makes no difference. Both are used later, by the branch, so
# the selection moves neither.
_SELECT = "vm.select.ref"
_ZERO = "vm.module @m { vm.func private @f() { %zero = vm.const.i32.zero vm.return } }"
_REFERENCES = ("!vm.ref<", "!vm.buffer", "!vm.list")


def copy_passed(ir: CompilerIR, module: int) -> None:
    """Make each branch of a program pass references that nothing else needs, in place.

    Args:
      ir: access to the program.
      module: the program after the phase ``vm``.
    """
    for host_code in _members(ir, ir.operation_of(module), "vm.module"):
        for function in _members(ir, host_code, "vm.func"):
            _copy_in_function(ir, function)


def _members(ir: CompilerIR, op: int, name: str) -> list[int]:
    members = (member for block in ir.blocks(op) for member in ir.operations(block))
    return [member for member in members if ir.name(member) == name]


def _copy_in_function(ir: CompilerIR, function: int) -> None:
    blocks = list(ir.blocks(function))
    if len(blocks) < 2:
        return
    zero = 0
    for block in blocks:
        branch = ir.terminator(block)
        for index in _needed(ir, branch):
            zero = zero or _zero(ir, blocks[0])
            value = ir.operands(branch)[index]
            copy = ir.create(_SELECT, [value], [zero, value, value], {}, location_of=branch)
            ir.insert_before(branch, copy)
            ir.set_operand(branch, index, ir.results(copy)[0])


def _needed(ir: CompilerIR, branch: int) -> list[int]:
    """The indices of operands of a branch that are references which something else needs."""
    operands = ir.operands(branch)
    needed = []
    for group, targets in _groups(ir, branch, len(operands)):
        seen: set[int] = set()
        for index in group:
            value = operands[index]
            if ir.type_text(value).startswith(_REFERENCES) and (
                value in seen or _is_used_from(ir, value, targets)
            ):
                needed.append(index)
            seen.add(value)
    return needed


def _is_used_from(ir: CompilerIR, value: int, blocks: Sequence[int]) -> bool:
    """Whether a value is used on a path that begins with a block, before it is defined again."""
    defining = ir.block_of_value(value)
    using = {ir.block_of(user) for user, _ in ir.uses(value)}
    pending = list(blocks)
    seen = {defining}
    while pending:
        block = pending.pop()
        if block not in seen:
            if block in using:
                return True
            seen.add(block)
            pending += ir.successors(block)
    return False


def _groups(ir: CompilerIR, branch: int, count: int) -> list[tuple[range, list[int]]]:
    """The indices of the operands that a branch passes to one block, with that block."""
    name, targets = ir.name(branch), ir.successors(ir.block_of(branch))
    if name == "vm.br":
        return [(range(count), targets)]
    if name == "vm.cond_br":
        taken = 1 + ir.segment_size(branch, 1)
        return [(range(1, taken), targets[:1]), (range(taken, count), targets[1:])]
    # The operands for each case of a table are not told apart, which costs a copy at most.
    return [(range(count), targets)] if name == "vm.br_table" else []


def _zero(ir: CompilerIR, entry: int) -> int:
    """A number that every block can use."""
    holder = ir.parse(_ZERO)
    constant = next(
        op for op in ir.nested(ir.operation_of(holder)) if ir.name(op) == "vm.const.i32.zero"
    )
    new = ir.clone(constant)
    first = next(ir.operations(entry))
    ir.insert_before(first, new)
    ir.destroy_module(holder)
    return ir.results(new)[0]
