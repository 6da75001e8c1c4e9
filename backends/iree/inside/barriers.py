"""Barriers of our passes, which are removed once kernels are formed.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["drop"]

_LITERALS = ("arith.constant", "flow.tensor.constant", "flow.tensor.splat")


def drop(ir: CompilerIR, op: int) -> None:
    """Remove the barriers of computed values, and those of literals that kernels read.

    Their purpose, keeping values out of other kernels, is fulfilled when kernels are formed: from
    then on, kernels read literals that are arrays from memory. If they stayed, they would split the
    program, since the host waits at each, in loops in each iteration. IREE 3.13's Vulkan driver
    also frees an allocation too early if its parts are used through barriers, and other values
    overwrite it. On the thread pool, kernels that read what a loop carries through a barrier would
    not wait for the iteration before.

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
    """Whether a value, or that of which it is a view, is of a kernel, or of a loop or branch."""
    while op := ir.definition(value):
        name = ir.name(op)
        if name != "flow.tensor.reshape":
            return name == "flow.dispatch" or name.startswith("scf.")
        value = ir.operands(op)[0]
    # An argument of a block: what a loop carries, or an argument of the program.
    return ir.name(ir.parent(ir.block_of_value(value))).startswith("scf.")


def _gives_kernels_literals(ir: CompilerIR, barrier: int) -> bool:
    """Whether the operands of a barrier are literals, read by kernels of the same block alone."""
    return all(
        (op := ir.definition(value)) and ir.name(op) in _LITERALS for value in ir.operands(barrier)
    ) and all(
        ir.name(user) == "flow.dispatch" and ir.block_of(user) == ir.block_of(barrier)
        for result in ir.results(barrier)
        for user, _ in ir.uses(result)
    )
