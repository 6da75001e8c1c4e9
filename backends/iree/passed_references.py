"""Copies of references, so that no branch of a program passes one twice.

At a branch, IREE 3.13's virtual machine copies references into the registers of the arguments of
the next block, and moves each one out of its register at its last use. It omits the copy of a
reference that is in the right register already. If the branch passes the same reference to another
argument too, this other use is the last one, and moves the reference out of that register. Then the
argument is null: a call fails with ``ref is null``, or a kernel gets no buffer.

A branch of a program passes the same buffer twice if several results of a conditional or of a loop
are in one buffer, where the compiler puts them if it can.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.compiler_ir import CompilerIR

__all__ = ["copy_repeated"]

# A copy: which of the two is selected makes no difference. Both are used later, by the branch, so
# the selection moves neither.
_SELECT = "vm.select.ref"
_ZERO = "vm.module @m { vm.func private @f() { %zero = vm.const.i32.zero vm.return } }"
_REFERENCES = ("!vm.ref<", "!vm.buffer", "!vm.list")


def copy_repeated(ir: CompilerIR, module: int) -> None:
    """Give each branch of a program a copy of a reference for all but one of its uses, in place.

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
        for index in _repeated(ir, branch):
            zero = zero or _zero(ir, blocks[0])
            value = ir.operands(branch)[index]
            copy = ir.create(_SELECT, [value], [zero, value, value], {}, location_of=branch)
            ir.insert_before(branch, copy)
            ir.set_operand(branch, index, ir.results(copy)[0])


def _repeated(ir: CompilerIR, branch: int) -> list[int]:
    """The indices of operands that are references which the branch passes to a block before."""
    operands = ir.operands(branch)
    repeated = []
    for group in _groups(ir, branch, len(operands)):
        seen: set[int] = set()
        for index in group:
            value = operands[index]
            if value in seen and ir.type_text(value).startswith(_REFERENCES):
                repeated.append(index)
            seen.add(value)
    return repeated


def _groups(ir: CompilerIR, branch: int, count: int) -> list[range]:
    """The indices of the operands that a branch passes to one block, for each of its blocks."""
    name = ir.name(branch)
    if name == "vm.br":
        return [range(count)]
    if name == "vm.cond_br":
        taken = 1 + ir.segment_size(branch, 1)
        return [range(1, taken), range(taken, count)]
    # The operands for each case of a table are not told apart, which costs a copy at most.
    return [range(count)] if name == "vm.br_table" else []


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
