"""Loops over small arrays as one kernel each.

IREE runs a loop on the host, with several kernels for each iteration. Launching a kernel takes a
microsecond, and in that time a core computes ten thousand numbers. So if everything that a loop
touches fits into the caches next to a core, and its kernels would be short, the whole loop is
written as the code of one kernel, in MLIR's dialects `scf`, `vector` and `memref`. The compiler
turns that into the instructions of the target, as it does with the code of its own kernels.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence

from gnomon.backends.iree.legalize.array_kernels.code import Kernel, Rule, is_splat
from gnomon.backends.iree.legalize.array_kernels.contractions import dot_general
from gnomon.backends.iree.legalize.array_kernels.control import case, loop
from gnomon.backends.iree.legalize.array_kernels.executable import dispatch, write_kernel
from gnomon.backends.iree.legalize.array_kernels.layout import View
from gnomon.backends.iree.legalize.array_kernels.moves import MOVES
from gnomon.backends.iree.legalize.array_kernels.reductions import reduce
from gnomon.backends.iree.legalize.array_kernels.selections import sort
from gnomon.backends.iree.legalize.array_kernels.updates import scatter
from gnomon.backends.iree.legalize.loop_kernels.loop_kernel import (
    BINDINGS,
    as_stored,
    as_unstored,
    free_values,
)
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import UnsupportedError
from gnomon.backends.iree.legalize.loop_kernels.values import size_of
from gnomon.backends.iree.options import available_cores
from gnomon.dialects.mlir import ir

__all__ = ["PREFIX", "array_kernel", "largest_value"]

logger = logging.getLogger(__name__)

PREFIX = "gnomon_loop_"
"""The prefix of the names of these kernels' executables."""

# The most instructions by which a nest of loops in a kernel may on average take longer than a
# separate kernel with several threads: about 4 us, less than a launch on the thread pool costs.
_LONGEST = 12000
# The cost of an access to an array in a separate kernel, in instructions, besides the access: with
# 1024 x 1024 elements, steps of elementwise ops and of stencils take between 2.1 and 5 times as
# much time of all cores in separate kernels as in one.
_ACCESS = 4
# The most instructions that a nest may take on average, however few separate kernels take. With
# more, the arrays have several megabytes, and leave the caches.
_LARGEST = 1 << 19

# The elements of a row of whole vectors of the narrowest numbers.
_LONG_ROW = 64

# Ops whose results are not counted as computed: they are passed on or updated in place.
_NOT_COMPUTED = frozenset(
    f"stablehlo.{name}"
    for name in ("while", "case", "constant", "dynamic_update_slice", "optimization_barrier")
)

_RULES: Mapping[str, Rule] = {
    **MOVES,
    "stablehlo.reduce": reduce,
    "stablehlo.dot_general": dot_general,
    "stablehlo.sort": sort,
    "stablehlo.scatter": scatter,
    "stablehlo.while": loop,
    "stablehlo.case": case,
}


def array_kernel(
    op: ir.Operation,
    block: ir.Block,
    outside: Callable[[ir.Value], ir.Value],
    module: ir.Block,
    numbers: itertools.count[int],
) -> list[ir.Value | None] | None:
    """Emit a ``stablehlo.while`` as one kernel; return None if it is too large or unsupported.

    Args:
      op: the loop.
      block: the block at whose end the kernel is called.
      outside: maps a tensor from outside of the loop to its new value; may emit ops.
      module: the block of the module, for the kernel.
      numbers: numbers the kernels of a program.

    Returns:
      The results; None for those that are unused or have no elements.
    """
    used = [next(iter(r.uses), None) is not None and size_of(r.type) > 0 for r in op.results]
    constants = _constants(op)
    captured, repeated = _captured(op)
    try:
        if len(captured) + len(constants) + sum(used) + 1 > BINDINGS:
            raise UnsupportedError("too many arrays")
        inputs = [v.type for v in (*captured, *(c.results[0] for c in constants))]
        outputs = [r.type for r, use in zip(op.results, used, strict=True) if use]
        if any(size_of(t) == 0 for t in inputs):
            raise UnsupportedError("an array without elements")
        name = f"{PREFIX}{next(numbers)}"
        with op.location:
            arrays = [*captured, *(c.results[0] for c in constants)]

            def write(kernel: Kernel, targets: Sequence[View]) -> None:
                _write_loop(kernel, op, repeated, used, targets)

            scratch = write_kernel(name, arrays, inputs, outputs, write, _RULES, module)
    except UnsupportedError as error:
        logger.debug("%s: no kernel of vector code, for %s", _where(op), error)
        return None
    logger.debug("%s: a kernel of vector code", _where(op))
    operands = [as_stored(outside(v), block) for v in captured]
    operands += [
        as_stored(c.clone(ip=ir.InsertionPoint(block)).results[0], block) for c in constants
    ]
    with ir.InsertionPoint(block), op.location:
        stored = iter(dispatch(name, operands, outputs, scratch))
    results: list[ir.Value | None] = []
    for old, use in zip(op.results, used, strict=True):
        results.append(as_unstored(next(stored), old.type, block) if use else None)
    return results


def largest_value(op: ir.Operation) -> int:
    """The size of the largest value that a loop computes, apart from its carries."""
    largest = 0

    def visit(inner: ir.Operation) -> ir.WalkResult:
        nonlocal largest
        if inner.name not in _NOT_COMPUTED:
            for result in inner.results:
                largest = max(largest, size_of(result.type))
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return largest


def _where(op: ir.Operation) -> str:
    return f"a loop at {str(op.location)[:80]}"


def _is_op(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block)


def _captured(op: ir.Operation) -> tuple[list[ir.Value], list[ir.Operation]]:
    """The arrays from outside that a loop reads, and the broadcasts of them that the kernel makes.

    The kernel broadcasts them itself, since loops would read a broadcast array from memory. Arrays
    with short rows are an exception: from memory, one vector reads several rows.
    """
    captured: dict[ir.Value, None] = {}
    repeated: list[ir.Operation] = []
    for value in free_values(op, _is_literal):
        if _is_op(value) and value.owner.name == "stablehlo.broadcast_in_dim":
            broadcast = value.owner.operation
            (source,) = broadcast.operands
            if size_of(source.type) == 1 or value.type.shape[-1] >= _LONG_ROW:
                repeated.append(broadcast)
                value = source
        if not _is_literal(value):
            captured[value] = None
    return list(captured), repeated


def _is_literal(value: ir.Value) -> bool:
    return _is_op(value) and is_splat(value.owner)


def _constants(op: ir.Operation) -> list[ir.Operation]:
    """The literals in a loop whose elements differ."""
    constants: list[ir.Operation] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        if inner.name == "stablehlo.constant" and not is_splat(inner):
            constants.append(inner)
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return constants


def _write_loop(
    kernel: Kernel,
    op: ir.Operation,
    repeated: Sequence[ir.Operation],
    used: Sequence[bool],
    targets: Sequence[View],
) -> None:
    """Write the code of a loop.

    Raises:
      UnsupportedError: it is unsupported, or too long for one thread.
    """
    for broadcast in repeated:
        kernel.operation(broadcast)
    given = iter(targets)
    places = [next(given) if use else None for use in used]
    kernel.current = op.block
    results = loop(kernel, op, places)
    for layout, place in zip(results, places, strict=True):
        if place is not None and layout != place:
            kernel.copy(layout, place)
    lost, loops = _lost(kernel, available_cores()), max(kernel.loops, 1.0)
    if lost > _LONGEST * loops:
        raise UnsupportedError(
            f"with one thread, {kernel.loops:.0f} nests of loops take {lost:.0f} instructions more "
            "than separate kernels"
        )
    if kernel.work > _LARGEST * loops:
        raise UnsupportedError(
            f"{kernel.loops:.0f} nests of loops take {kernel.work:.0f} instructions"
        )


def _lost(kernel: Kernel, cores: int) -> float:
    """The instructions that a kernel takes more than the threads of separate kernels."""
    separate = kernel.work - kernel.shared + _ACCESS * kernel.accesses
    return kernel.work - separate / cores
