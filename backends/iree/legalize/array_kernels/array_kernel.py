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
from gnomon.backends.iree.legalize.array_kernels.emitter import stored_type
from gnomon.backends.iree.legalize.array_kernels.layout import Buffer, View, dense
from gnomon.backends.iree.legalize.array_kernels.moves import MOVES
from gnomon.backends.iree.legalize.array_kernels.reductions import reduce
from gnomon.backends.iree.legalize.loop_kernels.loop_kernel import (
    BINDINGS,
    as_stored,
    as_unstored,
    distinct,
    free_values,
)
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import UnsupportedError, index, number
from gnomon.backends.iree.legalize.loop_kernels.values import size_of
from gnomon.backends.iree.options import available_cores
from gnomon.dialects.mlir import ir

__all__ = ["PREFIX", "array_kernel", "largest_value"]

logger = logging.getLogger(__name__)

PREFIX = "gnomon_loop_"
"""The prefix of the names of these kernels' executables."""

# The most instructions by which a nest of loops in a kernel may on average take longer than a
# separate kernel with several threads: about 4 us, less than a launch costs.
_LONGEST = 12000
# What an access to an array costs in a separate kernel, in instructions, beside the instruction:
# with 1024 x 1024 elements, steps of elementwise ops and of stencils take between 2.1 and 5 times
# as much time of all cores in separate kernels as in one.
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
            scratch = _executable(
                op,
                [*captured, *(c.results[0] for c in constants)],
                repeated,
                used,
                inputs,
                outputs,
                name,
                module,
            )
    except UnsupportedError as error:
        logger.debug("%s: no kernel of vector code, for %s", _where(op), error)
        return None
    logger.debug("%s: a kernel of vector code", _where(op))
    operands = [as_stored(outside(v), block) for v in captured]
    operands += [
        as_stored(c.clone(ip=ir.InsertionPoint(block)).results[0], block) for c in constants
    ]
    with ir.InsertionPoint(block), op.location:
        arrays = iter(_dispatch(name, operands, [*outputs], scratch))
    results: list[ir.Value | None] = []
    for old, use in zip(op.results, used, strict=True):
        results.append(as_unstored(next(arrays), old.type, block) if use else None)
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

    Loops read an array that repeats a few numbers from memory, unless the kernel itself repeats
    them. Short rows are an exception: an array has longer vectors, which span several rows.
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


def _executable(
    op: ir.Operation,
    captured: Sequence[ir.Value],
    repeated: Sequence[ir.Operation],
    used: Sequence[bool],
    inputs: Sequence[ir.RankedTensorType],
    outputs: Sequence[ir.RankedTensorType],
    name: str,
    module: ir.Block,
) -> int:
    """Write the kernel, and return the number of bytes that it needs besides its results."""
    binding = ir.Type.parse("!stream.binding")
    string = ir.StringAttr.get
    executable = ir.Operation.create(
        "stream.executable",
        attributes={"sym_name": string(name), "sym_visibility": string("private")},
        regions=1,
        ip=ir.InsertionPoint.at_block_begin(module),
    )
    try:
        body = executable.regions[0].blocks.append()
        with ir.InsertionPoint(body):
            _export(name)
            inner = ir.Operation.create("builtin.module", regions=1)
            ir.Operation.create("stream.executable.end")
        with ir.InsertionPoint(inner.regions[0].blocks.append()):
            count = len(inputs) + len(outputs) + 1
            type_ = ir.FunctionType.get([binding] * count, [])
            function = ir.Operation.create(
                "func.func",
                attributes={"sym_name": string(name), "function_type": ir.TypeAttr.get(type_)},
                regions=1,
            )
        entry = function.regions[0].blocks.append(*[binding] * count)
        with ir.InsertionPoint(entry):
            scratch = _code(op, captured, repeated, used, inputs, outputs, list(entry.arguments))
        if not scratch:
            entry.erase_argument(count - 1)
            type_ = ir.FunctionType.get([binding] * (count - 1), [])
            function.attributes["function_type"] = ir.TypeAttr.get(type_)
        return scratch
    except UnsupportedError:
        executable.erase()
        raise


def _export(name: str) -> None:
    string = ir.StringAttr.get
    export = ir.Operation.create(
        "stream.executable.export",
        attributes={
            "function_ref": ir.FlatSymbolRefAttr.get(name),
            "sym_name": string(name),
            "sym_visibility": string("public"),
        },
        regions=1,
    )
    with ir.InsertionPoint(export.regions[0].blocks.append()):
        one = number(index(), 1)
        ir.Operation.create("stream.return", operands=[one, one, one])


def _code(
    op: ir.Operation,
    captured: Sequence[ir.Value],
    repeated: Sequence[ir.Operation],
    used: Sequence[bool],
    inputs: Sequence[ir.RankedTensorType],
    outputs: Sequence[ir.RankedTensorType],
    bindings: list[ir.Value],
) -> int:
    zero = number(index(), 0)
    *arrays, last = bindings
    memories = [
        _subspan(b, zero, [], ir.MemRefType.get([size_of(t)], stored_type(t.element_type)))
        for b, t in zip(arrays, (*inputs, *outputs), strict=True)
    ]
    dynamic = ir.ShapedType.get_dynamic_size()
    i8 = ir.IntegerType.get_signless(8)
    bytes_ = number(index(), 1)
    scratch = _subspan(last, zero, [bytes_], ir.MemRefType.get([dynamic], i8))
    start = number(index(), 0).owner.operation
    before_loops = number(index(), 0).owner.operation
    kernel = Kernel(start, before_loops, scratch, _RULES)
    targets = iter(
        View(Buffer(m, t.element_type, 0), tuple(t.shape), dense(t.shape), t.element_type)
        for m, t in zip(memories[len(inputs) :], outputs, strict=True)
    )
    for old, memory, type_ in zip(captured, memories, inputs, strict=False):
        view = View(
            Buffer(memory, type_.element_type),
            tuple(type_.shape),
            dense(type_.shape),
            type_.element_type,
        )
        kernel.set(old, view)
    for broadcast in repeated:
        kernel.operation(broadcast)
    places = [next(targets) if use else None for use in used]
    kernel.current = op.block
    results = loop(kernel, op, places)
    for layout, place in zip(results, places, strict=True):
        if place is not None and layout != place:
            kernel.copy(layout, place)
    ir.Operation.create("func.return")
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
    if kernel.scratch_bytes:
        value = ir.IntegerAttr.get(index(), kernel.scratch_bytes)
        bytes_.owner.operation.attributes["value"] = value
    else:
        scratch.owner.operation.erase()
    return kernel.scratch_bytes


def _lost(kernel: Kernel, cores: int) -> float:
    """The instructions that a kernel takes more than the threads of separate kernels."""
    separate = kernel.work - kernel.shared + _ACCESS * kernel.accesses
    return kernel.work - separate / cores


def _subspan(
    binding: ir.Value, zero: ir.Value, sizes: Sequence[ir.Value], type_: ir.Type
) -> ir.Value:
    return ir.Operation.create(
        "stream.binding.subspan", results=[type_], operands=[binding, zero, *sizes]
    ).results[0]


def _dispatch(
    name: str,
    operands: Sequence[ir.Value],
    outputs: Sequence[ir.RankedTensorType],
    scratch: int,
) -> list[ir.Value]:
    i8 = ir.IntegerType.get_signless(8)
    results = [t for t in distinct(outputs) if t is not None]
    if scratch:
        results.append(ir.RankedTensorType.get([scratch], i8))
    entry = ir.SymbolRefAttr.get([name, name])
    tied = [ir.IntegerAttr.get(index(), -1)] * len(results)
    return list(
        ir.Operation.create(
            "flow.dispatch",
            results=results,
            operands=list(operands),
            attributes={
                "entry_points": ir.ArrayAttr.get([entry]),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, len(operands), 0, 0]),
                "tied_operands": ir.ArrayAttr.get(tied),
            },
        ).results
    )
