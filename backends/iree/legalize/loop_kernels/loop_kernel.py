"""Small loops as one kernel each.

IREE runs a loop on the host, with one or several kernels for each iteration. A kernel takes about a
microsecond to launch, and computing on a few numbers takes almost nothing. So a loop becomes a
single kernel, a ``flow.dispatch.region`` of scalar code, if each of its values has few elements; it
may also read and update arrays at computed indices (the stacked inputs and results of a scan). A
thousand steps of a scalar recurrence took 1050 us, and take 11 as a kernel.

In the kernel, a small array is a NumPy array of SSA values. NumPy itself moves elements (reshape,
transpose, slice, concatenate, ...), without emitting any op; contractions and reductions are
unrolled. A budget of scalar ops limits which loops become kernels.

Arrays in memory must be updated in place. The compiler does that if an array is not read after its
update, which is checked here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from gnomon.backends.iree.legalize.loop_kernels.code import Kernel
from gnomon.backends.iree.legalize.loop_kernels.moves import RULES
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    UnsupportedError,
    index,
    kind_of,
    number,
)
from gnomon.backends.iree.legalize.loop_kernels.values import is_literal, size_of, storage
from gnomon.dialects.mlir import ir

__all__ = ["BINDINGS", "as_stored", "as_unstored", "distinct", "free_values", "loop_kernel"]

# The most buffers of a kernel. IREE allows 32, but the compiler may need some of these itself.
BINDINGS = 28


def loop_kernel(
    loop: ir.Operation, block: ir.Block, outside: Callable[[ir.Value], ir.Value]
) -> list[ir.Value | None] | None:
    """Emit a ``stablehlo.while`` as one kernel, or return None if it is too large or unsupported.

    Args:
      loop: the loop.
      block: the block at whose end the kernel is emitted.
      outside: maps a tensor from outside of the loop to its new value; may emit ops.

    Returns:
      The results; None for those that are unused or have no elements.
    """
    try:
        captured = {v: as_stored(outside(v), block) for v in free_values(loop)}
        large = {op.results[0]: _clone(op, block) for op in _large_constants(loop)}
    except UnsupportedError:
        return None
    used = [next(iter(r.uses), None) is not None and size_of(r.type) > 0 for r in loop.results]
    if len(captured) + len(large) + sum(used) > BINDINGS:
        return None
    for keeps_arrays in (True, False):
        try:
            return _region(loop, block, captured | large, used, keeps_arrays)
        except UnsupportedError:
            continue
    return None


def _region(
    loop: ir.Operation,
    block: ir.Block,
    captured: dict[ir.Value, ir.Value],
    used: Sequence[bool],
    keeps_arrays: bool,
) -> list[ir.Value | None]:
    types = distinct([r.type if use else None for r, use in zip(loop.results, used, strict=True)])
    region = ir.Operation.create(
        "flow.dispatch.region",
        results=[t for t in types if t is not None],
        attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])},
        regions=2,
        ip=ir.InsertionPoint(block),
    )
    body, count = (r.blocks.append() for r in region.regions)
    try:
        with ir.InsertionPoint(body), loop.location:
            kernel = Kernel(captured, number(index(), 0), keeps_arrays, RULES)
            values = zip(kernel.loop(loop, types), types, strict=True)
            out = [kernel.as_tensor(v, type_) for v, type_ in values if type_ is not None]
            ir.Operation.create("flow.return", operands=out)
        with ir.InsertionPoint(count), loop.location:
            one = number(index(), 1)
            ir.Operation.create("flow.return", operands=[one, one, one])
    except UnsupportedError:
        region.erase()
        raise
    results = iter(region.results)
    values_after: list[ir.Value | None] = []
    for old, use in zip(loop.results, used, strict=True):
        values_after.append(as_unstored(next(results), old.type, block) if use else None)
    return values_after


# -------------------------------------------------------------------------------- tensors outside


def distinct(types: Sequence[ir.RankedTensorType | None]) -> list[ir.RankedTensorType | None]:
    """Storage types of results, made different from each other by dimensions of size 1.

    If two results of a region turn out to be the same value, IREE merges them, and then confuses
    the results that follow them.
    """
    seen: set[ir.Type] = set()
    stored_types: list[ir.RankedTensorType | None] = []
    for type_ in types:
        if type_ is None:
            stored_types.append(None)
            continue
        stored = storage(type_)
        shape, element = list(stored.shape), stored.element_type
        units = ((before, n - before) for n in itertools.count() for before in range(n + 1))
        while stored in seen:
            before, after = next(units)
            wide = [*[1] * before, *shape, *[1] * after]
            stored = ir.RankedTensorType.get(wide, element)
        seen.add(stored)
        stored_types.append(stored)
    return stored_types


def _cast(
    value: ir.Value, type_: ir.Type, of_bools: bool, block: ir.Block | ir.Operation
) -> ir.Value:
    if value.type == type_:
        return value
    name = "stablehlo.convert" if of_bools else "stablehlo.bitcast_convert"
    return ir.Operation.create(
        name, results=[type_], operands=[value], ip=ir.InsertionPoint(block)
    ).results[0]


def as_stored(value: ir.Value, block: ir.Block | ir.Operation) -> ir.Value:
    """A tensor as a kernel takes it; emits at the end of a block, or before an op."""
    of_bools = kind_of(value.type.element_type) == "b"
    stored = _cast(value, storage(value.type), of_bools, block)
    is_argument = isinstance(stored.owner, ir.Block)
    if not stored.type.rank or is_argument or stored.owner.name != "stablehlo.convert":
        return stored
    # IREE repeats widening conversions, of the whole array, in the kernel that reads it.
    return ir.Operation.create(
        "stablehlo.optimization_barrier",
        results=[stored.type],
        operands=[stored],
        ip=ir.InsertionPoint(block),
    ).results[0]


def as_unstored(
    value: ir.Value, type_: ir.RankedTensorType, block: ir.Block | ir.Operation
) -> ir.Value:
    """The inverse of `as_stored`, for a tensor of type ``type_``; emits at the same places."""
    stored = storage(type_)
    if value.type != stored:
        value = ir.Operation.create(
            "stablehlo.reshape", results=[stored], operands=[value], ip=ir.InsertionPoint(block)
        ).results[0]
    return _cast(value, type_, kind_of(type_.element_type) == "b", block)


def free_values(
    op: ir.Operation, is_inside: Callable[[ir.Value], bool] = is_literal
) -> list[ir.Value]:
    """The tensors from outside that an op uses, except literals that the kernel contains."""
    free: dict[ir.Value, None] = {}
    inside: set[ir.Value] = set()

    def visit(inner: ir.Operation) -> ir.WalkResult:
        for value in inner.operands:
            if value not in inside and not is_inside(value):
                free[value] = None
        inside.update(inner.results)
        for region in inner.regions:
            for block in region.blocks:
                inside.update(block.arguments)
        return ir.WalkResult.ADVANCE

    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return list(free)


def _large_constants(loop: ir.Operation) -> list[ir.Operation]:
    constants: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "stablehlo.constant" and not is_literal(op.results[0]):
            constants.append(op)
        return ir.WalkResult.ADVANCE

    loop.walk(visit)
    return constants


def _clone(op: ir.Operation, block: ir.Block) -> ir.Value:
    return as_stored(op.clone(ip=ir.InsertionPoint(block)).results[0], block)
