"""Barriers of our passes, which are removed once kernels are formed.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.compiler_ir import CompilerIR

__all__ = ["drop"]

_LITERALS = ("arith.constant", "flow.tensor.constant", "flow.tensor.splat")


def drop(ir: CompilerIR, op: int) -> None:
    """Remove the barriers after results of kernels, and those of literals that kernels read.

    Their purpose, keeping values out of other kernels, is fulfilled when kernels are formed: from
    then on, kernels read literals that are arrays from memory. If they stayed, they would split the
    program, since the host waits at each, in loops in each iteration. IREE 3.13's Vulkan driver
    also frees an allocation too early if its parts are used through barriers, and other values
    overwrite it.

    The barrier of a literal stays outside of the loops that read it: without it, IREE would write
    the literal again in each iteration, which takes a launch.
    """
    for block in ir.blocks(op):
        for inner in ir.operations(block):
            drop(ir, inner)
            if ir.name(inner) == "util.optimization_barrier" and (
                all(_is_computed(ir, value) for value in ir.operands(inner))
                or _gives_kernels_literals(ir, inner)
            ):
                for result, value in zip(ir.results(inner), ir.operands(inner), strict=True):
                    ir.replace(result, value)
                ir.erase(inner)


def _is_computed(ir: CompilerIR, value: int) -> bool:
    """Whether a value, or the value of which it is a view, is the result of a kernel."""
    while op := ir.definition(value):
        if ir.name(op) != "flow.tensor.reshape":
            return ir.name(op) == "flow.dispatch"
        value = ir.operands(op)[0]
    return False


def _gives_kernels_literals(ir: CompilerIR, barrier: int) -> bool:
    """Whether the operands of a barrier are literals, read by kernels of the same block alone."""
    return all(
        (op := ir.definition(value)) and ir.name(op) in _LITERALS for value in ir.operands(barrier)
    ) and all(
        ir.name(user) == "flow.dispatch" and ir.block_of(user) == ir.block_of(barrier)
        for result in ir.results(barrier)
        for user, _ in ir.uses(result)
    )
