"""Strided slices that are read by computed indices: stored before they are read.

IREE reads a slice in place, as a view of the whole array. A kernel that reads elements at computed
indices (a gather, a reversal, a reversed scan) reads a vector of them at once, which IREE 3.13 can
translate for LLVM only if neighbours in the view are neighbours in memory. With ``x[::2]``, or with
``x[:, 0:1]`` and its last dimension dropped, compilation fails (``LLVM Translation failed for
operation: builtin.unrealized_conversion_cast``). It fails likewise with ``x.T[0:1]``, which IREE
rewrites as a transposed ``x[..., 0:1]``, and with the part of a concatenation or of a padded array
that is ``x[::2]`` again. A barrier after the slice makes it an array of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gnomon.backends.iree.legalize.aliases import READ_IN_PLACE, name_of
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import stablehlo
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, Form, names_of
from gnomon.dialects.types import type_of

__all__ = ["ELEMENTWISE", "LEGALIZATIONS", "operations", "store_strided_views"]

# Ops that become reads at computed indices; some windows become reversed scans.
_READERS = frozenset(f"stablehlo.{n}" for n in ("gather", "reverse", "reduce_window"))
_SLICES = ("stablehlo.slice", "stablehlo.dynamic_slice")
_LITERAL = "stablehlo.constant"
# Cheap ops, which the compiler may repeat in the kernel that reads their results.
_CHEAP = (Cost.NOTHING, Cost.OPERATION, Cost.DIVISION)
ELEMENTWISE = names_of("stablehlo", Form.ELEMENTWISE, costs=_CHEAP)
# If a slice of the result is one of the operands, the compiler reads that operand instead.
_JOINS = names_of("stablehlo", Form.JOIN)


def store_strided_views(module: ir.Module, target: Target) -> bool:
    """Put barriers after strided slices that are read by computed indices, in place."""
    views: dict[ir.Value, None] = {}
    for function in module.body.operations:
        for op in operations(function.operation):
            if op.name in _READERS:
                views.update(dict.fromkeys(_views_read_in_place(op.operands[0])))
    for view in views:
        with ir.InsertionPoint.after(view.owner), view.owner.location:
            (stored,) = stablehlo("optimization_barrier", [view], [type_of(view)])
        view.replace_all_uses_except(stored, stored.owner.operation)
    return bool(views)


def operations(op: ir.Operation) -> Iterator[ir.Operation]:
    """All operations nested in an operation, in program order."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                operation = inner.operation
                yield operation
                if len(operation.regions):
                    yield from operations(operation)


def operations_named(names: frozenset[str], op: ir.Operation) -> list[ir.Operation]:
    """The operations of some names that are nested in an operation, in program order."""
    found: list[ir.Operation] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        if inner.name in names:
            found.append(inner)
        return ir.WalkResult.ADVANCE

    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _views_read_in_place(read: ir.Value) -> Iterator[ir.Value]:
    """The strided slices that a kernel may read in place when it reads elements of a value.

    A computed value is usually stored, so slices before the computation are not read in place.
    There are two exceptions: the compiler may simplify the computation away, if one of two operands
    is a literal, or repeat it in the reading kernel to save memory, if the slice has a narrower
    dtype.
    """
    width = type_of(read).dtype.itemsize
    seen: set[tuple[ir.Value, bool]] = set()
    # A value, the last slice between it and the read, and whether anything is computed in between.
    waiting: list[tuple[ir.Value, ir.Value | None, bool]] = [(read, None, False)]
    while waiting:
        value, last, computed = waiting.pop()
        if (value, computed) in seen or isinstance(value.owner, ir.Block):
            continue
        seen.add((value, computed))
        op = value.owner.operation
        if op.name in _SLICES:
            last = last or value
            if not _has_gaps(op) and not _is_of_transposed(op):
                waiting.append((op.operands[0], last, computed))
            elif not computed or type_of(value).dtype.itemsize < width:
                yield last
        elif name_of(op) in READ_IN_PLACE:
            waiting.append((op.operands[0], last, computed))
        elif op.name in _JOINS and last is not None:
            waiting += [(x, last, computed) for x in op.operands]
        elif op.name in ELEMENTWISE:
            operands = [x for x in op.operands if not _is_literal(x)]
            if len(operands) == len(op.operands) and not _is_reinterpretation(op):
                computed = True
            waiting += [(x, last, computed) for x in operands]


def _is_reinterpretation(op: ir.Operation) -> bool:
    """Whether an op converts between integers, or bools, of the same width."""
    if op.name != "stablehlo.convert":
        return False
    before, after = type_of(op.operands[0]).dtype, type_of(op.results[0]).dtype
    return before.kind in "iub" and after.kind in "iub" and before.itemsize == after.itemsize


def _is_literal(value: ir.Value) -> bool:
    while not isinstance(value.owner, ir.Block) and name_of(value.owner) in READ_IN_PLACE:
        value = value.owner.operation.operands[0]
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == _LITERAL


def _has_gaps(op: ir.Operation) -> bool:
    """Whether neighbours along the innermost dimension of a slice are apart in memory.

    The innermost dimension is the last one with more than one element; IREE drops those after it.
    """
    whole, part = type_of(op.operands[0]).shape, type_of(op.results[0]).shape
    inner = max((d for d, size in enumerate(part) if size > 1), default=None)
    if inner is None:
        return False
    step = 1
    if op.name == "stablehlo.slice":
        step = ir.DenseI64ArrayAttr(op.attributes["strides"])[inner]
    return step * math.prod(whole[inner + 1 :]) > 1


def _is_of_transposed(op: ir.Operation) -> bool:
    """Whether a slice takes a part of a transposed array.

    IREE slices before it transposes, and that slice may be strided.
    """
    if type_of(op.operands[0]).shape == type_of(op.results[0]).shape:
        return False
    value = op.operands[0]
    while not isinstance(value.owner, ir.Block) and name_of(value.owner) in READ_IN_PLACE:
        if name_of(value.owner) == "transpose":
            return True
        value = value.owner.operation.operands[0]
    return False


LEGALIZATIONS = (
    Legalization(
        name="strided-views",
        stage=Stage.LOWERED,
        kind=Kind.REFUSED,
        doc="store strided slices that are read by computed indices",
        upstream="IREE 3.13 gathers a vector from a view, and cannot translate that for LLVM where "
        "neighbours in the view are apart in memory",
        issue="https://github.com/iree-org/iree/issues/15364",
        texts=("gathers_from_strided_slices",),
        reproducer="`x[::2][i]` does not compile",
        run=store_strided_views,
        needs=_READERS,
    ),
)
