"""Slices with gaps that are read by position: stored before they are read.

IREE reads a slice in place, as a view of the whole. Where a kernel takes elements of it by position
(a gather, a reversal, a reversed scan), IREE 3.13 reads a vector of them at once, and LLVM takes
such a read only where neighbours in the view are neighbours in memory: of ``x[::2]``, or of
``x[:, 0:1]`` with its last dimension dropped, the program is refused (``LLVM Translation failed for
operation: builtin.unrealized_conversion_cast``). A barrier after the slice makes it an array.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gnomon.dialects.combinators import stablehlo
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["store_strided_views"]

# Ops that IREE writes as reads by position. It makes reversed scans of some windows.
_READERS = frozenset(f"stablehlo.{n}" for n in ("gather", "reverse", "reduce_window"))
_SLICES = ("stablehlo.slice", "stablehlo.dynamic_slice")
# Ops that a kernel repeats to spare memory, so that it reads their operand in place. Of the
# conversions, those to wider numbers.
_REPEATED = frozenset(
    f"stablehlo.{n}" for n in ("reshape", "transpose", "broadcast_in_dim", "convert")
)


def store_strided_views(module: ir.Module) -> None:
    """Put barriers after slices with gaps that are read by position; in place."""
    views = {}
    for function in module.body.operations:
        for op in _operations(function.operation):
            if op.name in _READERS and (view := _strided_view(op.operands[0])) is not None:
                views[view] = None
    for view in views:
        with ir.InsertionPoint.after(view.owner), view.owner.location:
            (stored,) = stablehlo("optimization_barrier", [view], [type_of(view)])
        view.replace_all_uses_except(stored, stored.owner.operation)


def _operations(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _operations(inner.operation)


def _strided_view(value: ir.Value) -> ir.Value | None:
    """The slice with gaps that a value is a view of, the last one of several."""
    last = None
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name in _SLICES:
            last = last or value
            if _has_gaps(op):
                return last
        elif op.name not in _REPEATED:
            return None
        value = op.operands[0]
    return None


def _has_gaps(op: ir.Operation) -> bool:
    """Whether neighbours along the innermost dimension of a slice are apart in memory.

    That is the last dimension with more than one element: the ones after it are dropped.
    """
    whole, part = type_of(op.operands[0]).shape, type_of(op.results[0]).shape
    inner = max((d for d, size in enumerate(part) if size > 1), default=None)
    if inner is None:
        return False
    step = 1
    if op.name == "stablehlo.slice":
        step = ir.DenseI64ArrayAttr(op.attributes["strides"])[inner]
    return step * math.prod(whole[inner + 1 :]) > 1
