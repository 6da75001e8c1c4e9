"""Kernels without arguments, which the compiler runs again where it should copy their results.

IREE 3.13 treats such a kernel like a splat: instead of copying a result, it runs the kernel once
more and takes the first result of that run, whichever one it should copy. A barrier keeps the
other results from being copied. Only these get one, since a barrier splits the program.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["separate_results"]

_KERNEL, _BARRIER = "flow.dispatch", "util.optimization_barrier"


def separate_results(ir: CompilerIR, module: int) -> None:
    """Put a barrier after each result that the compiler may confuse with another one, in place.

    Args:
      ir: access to the program.
      module: the program after its kernels were formed.
    """
    for op in list(ir.nested(module)):
        if ir.name(op) == _KERNEL and not _takes_arrays(ir, op):
            for result in ir.results(op)[1:]:
                # Kernels read the result in place, so only other users need the barrier.
                if any(ir.name(user) != _KERNEL for user, _ in ir.uses(result)):
                    _put_barrier(ir, op, result)


def _takes_arrays(ir: CompilerIR, kernel: int) -> bool:
    return any(ir.type_text(value).startswith("tensor<") for value in ir.operands(kernel))


def _put_barrier(ir: CompilerIR, kernel: int, result: int) -> None:
    uses = list(ir.uses(result))
    barrier = ir.create(_BARRIER, [result], [result], {}, location_of=kernel)
    following = list(ir.operations(ir.block_of(kernel)))
    ir.insert_before(following[following.index(kernel) + 1], barrier)
    for user, index in uses:
        ir.set_operand(user, index, ir.results(barrier)[0])
