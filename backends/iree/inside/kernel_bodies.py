"""The bodies of written kernels are set aside while the compiler forms and plans the program.

Several hundred passes come before the code generation of kernels, and each visits the bodies of the
kernels that a program brings along. None of them can gain anything there: these bodies are vector
code already. Without them, these passes take 0.31 s instead of 0.44 for the training step of a GPT,
which has 30 such kernels.

In the place of a body stays a barrier, whose operands are the values through which the body is
connected to its kernel: the views of the kernel's bindings, and its numbers. Passes may compute
these values differently, since they fuse bindings and pack numbers. When the body is put back, it
gets the barrier's operands.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["Bodies"]

_EXECUTABLE, _FUNCTION, _RETURN = "stream.executable", "func.func", "func.return"
_VIEW, _BINDING = "stream.binding.subspan", "!stream.binding"
_BARRIER, _NUMBER = "util.optimization_barrier", "gnomon.body"
# There is little to visit in a smaller body, such as a call of the BLAS.
_FEWEST_OPS = 24


class Bodies:
    """The bodies that were taken from the kernels of a program.

    Args:
      ir: access to the program.
      module: the program, whose kernels lose their bodies.
    """

    def __init__(self, ir: CompilerIR, module: int) -> None:
        self._ir = ir
        # The kernels that had a body, with it, in a module of their own.
        self._kernels: list[int] = []
        self._holder = ir.parse("module {}")
        functions = list(_functions(ir, module))
        # The executables of the program that have lost a body.
        self._names = {name for name, function in functions if self._set_aside(function)}

    @property
    def count(self) -> int:
        """How many kernels lost their bodies."""
        return len(self._kernels)

    def put_back(self, module: int) -> None:
        """Put the bodies back into the kernels that are left, which may have been copied since.

        Raises:
          ValueError: a kernel has lost its barrier.
        """
        ir = self._ir
        for name, function in _functions(ir, module):
            barriers = [
                op
                for op in ir.operations(_block(ir, function))
                if ir.name(op) == _BARRIER and ir.attribute(op, _NUMBER)
            ]
            if name in self._names and not barriers:
                raise ValueError(f"the compiler has dropped the body of the kernel {name}")
            for op in barriers:
                self._replace(op, self._kernels[ir.integer(op, _NUMBER)])

    def close(self) -> None:
        """Free the memory."""
        self._ir.destroy_module(self._holder)

    def _set_aside(self, function: int) -> bool:
        """Take the body of a kernel, unless that does not pay or is not possible."""
        ir = self._ir
        interface = _interface(ir, function)
        ops = itertools.islice(ir.nested(function), _FEWEST_OPS)
        if not interface or len(list(ops)) < _FEWEST_OPS:
            return False
        kernel = ir.clone(function)
        ir.append(ir.body(self._holder), kernel)
        number = ir.parse_attribute(f"{self.count} : index")
        self._kernels.append(kernel)
        barrier = ir.create(_BARRIER, interface, interface, {_NUMBER: number}, location_of=function)
        block = _block(ir, function)
        ir.insert_before(ir.terminator(block), barrier)
        kept = _ancestors(ir, barrier)
        for op in reversed(list(ir.operations(block))):
            if op not in kept and ir.name(op) != _RETURN:
                ir.erase(op)
        return True

    def _replace(self, barrier: int, kernel: int) -> None:
        """Put a copy of a kernel's body in the place of a barrier."""
        ir = self._ir
        copy = ir.clone(kernel)
        ir.append(ir.body(self._holder), copy)
        for old, new in zip(_interface(ir, copy), ir.operands(barrier), strict=True):
            ir.replace(old, new)
        for op in ir.operations(_block(ir, copy)):
            if ir.name(op) not in (_VIEW, _RETURN):
                ir.remove(op)
                ir.insert_before(barrier, op)
        ir.erase(copy)
        ir.erase(barrier)


def _functions(ir: CompilerIR, module: int) -> Iterator[tuple[str, int]]:
    """The functions of a program's kernels that have bodies of one block, and their executables."""
    for block in ir.blocks(module):
        for executable in ir.operations(block):
            if ir.name(executable) == _EXECUTABLE:
                for code in _inside(ir, executable, "builtin.module"):
                    for function in _inside(ir, code, _FUNCTION):
                        if len(list(ir.blocks(function))) == 1:
                            yield ir.symbol(executable), function


def _inside(ir: CompilerIR, op: int, name: str) -> Iterator[int]:
    """The operations with a name directly inside of another one."""
    members = (member for block in ir.blocks(op) for member in ir.operations(block))
    return (member for member in members if ir.name(member) == name)


def _block(ir: CompilerIR, function: int) -> int:
    return next(ir.blocks(function))


def _interface(ir: CompilerIR, function: int) -> list[int]:
    """The values that connect a body to its kernel; none if it cannot be set aside."""
    block = _block(ir, function)
    values = [v for op in ir.operations(block) if ir.name(op) == _VIEW for v in ir.results(op)]
    for argument in ir.arguments(block):
        if ir.type_text(argument) != _BINDING:
            values.append(argument)
        elif any(
            ir.name(user) != _VIEW or ir.block_of(user) != block for user, _ in ir.uses(argument)
        ):
            return []
    return values


def _ancestors(ir: CompilerIR, op: int) -> set[int]:
    """An operation, and those that compute its operands."""
    found, left = set(), [op]
    while left:
        op = left.pop()
        if op and op not in found:
            found.add(op)
            left += map(ir.definition, ir.operands(op))
    return found
