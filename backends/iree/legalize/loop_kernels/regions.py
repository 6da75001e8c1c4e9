"""Branches and loops in a kernel, as ops of MLIR's dialect ``scf``.

Kernels of scalar code and kernels of vector code (`array_kernels`) keep the values of a program in
different forms. In both, the numbers that leave a region are results of its op, and these are
emitted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from gnomon.backends.iree.legalize.loop_kernels.scalar_code import number, scalar
from gnomon.dialects.mlir import ir

__all__ = ["branch", "repeat"]


class _Kernel(Protocol):
    def inside(self, block: ir.Block) -> AbstractContextManager[None]:
        """Emit into a block of a nested region."""


def branch(
    kernel: _Kernel,
    index: ir.Value,
    blocks: Sequence[ir.Block],
    types: Sequence[ir.Type],
    emit: Callable[[ir.Block], list[ir.Value]],
) -> list[ir.Value]:
    """The numbers that one of several blocks computes, chosen by an index.

    Args:
      kernel: the kernel.
      index: the number of the block; if there is no such block, the last one is chosen.
      blocks: the blocks.
      types: the types of the numbers.
      emit: emits a block and returns its numbers.
    """

    def choose(i: int) -> list[ir.Value]:
        if i + 1 == len(blocks):
            return emit(blocks[i])
        is_chosen = scalar("arith.cmpi", [index, number(index.type, i)], i1, predicate=0)
        conditional = ir.Operation.create("scf.if", results=types, operands=[is_chosen], regions=2)
        then, otherwise = (region.blocks.append() for region in conditional.regions)
        with kernel.inside(then):
            ir.Operation.create("scf.yield", operands=emit(blocks[i]))
        with kernel.inside(otherwise):
            ir.Operation.create("scf.yield", operands=choose(i + 1))
        return list(conditional.results)

    i1 = ir.IntegerType.get_signless(1)
    return choose(0)


def repeat(
    kernel: _Kernel,
    initial: Sequence[ir.Value],
    condition: Callable[[list[ir.Value]], ir.Value],
    iteration: Callable[[list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """The carried numbers of a loop that runs while a condition on them is true.

    Args:
      kernel: the kernel.
      initial: the numbers before the loop.
      condition: emits the condition on the numbers.
      iteration: emits an iteration, and returns the new numbers.
    """
    types = [v.type for v in initial]
    loop = ir.Operation.create("scf.while", results=types, operands=list(initial), regions=2)
    before, after = (region.blocks.append(*types) for region in loop.regions)
    with kernel.inside(before):
        carried = list(before.arguments)
        ir.Operation.create("scf.condition", operands=[condition(carried), *carried])
    with kernel.inside(after):
        ir.Operation.create("scf.yield", operands=iteration(list(after.arguments)))
    return list(loop.results)
