"""Interior padding combined with other ops that write parts of arrays: updates and edge padding.

If an updated array gets interior padding, IREE 3.13 runs the update in the padded array, but at the
position that it had without padding. If an array with interior padding is also padded at its edges,
for example by a convolution, IREE puts the elements side by side in the larger array. A barrier
between the two ops gives the array a buffer of its own.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.after_lowering.strided_views import operations
from gnomon.backends.iree.legalize.aliases import PADDED_IN_PLACE, is_update, name_of
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import stablehlo
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["LEGALIZATIONS", "store_padded_spreads", "store_spread_updates"]

_PAD = "stablehlo.pad"
# Ops that the compiler moves past others.
_MOVES = frozenset({"stablehlo.reshape", "stablehlo.transpose", "stablehlo.slice"})


def store_spread_updates(module: ir.Module, target: Target) -> bool:
    """Put barriers between updates and their interior padding, in a StableHLO module, in place."""
    changed = False
    for function in module.body.operations:
        for op in list(operations(function.operation)):
            if op.name != _PAD or not _is_update(op.operands[0]):
                continue
            if any(ir.DenseI64ArrayAttr(op.attributes["interior_padding"])):
                with ir.InsertionPoint(op), op.location:
                    value = op.operands[0]
                    (stored,) = stablehlo("optimization_barrier", [value], [type_of(value)])
                op.operands[0] = stored
                changed = True
    return changed


def store_padded_spreads(module: ir.Module, target: Target) -> bool:
    """Put barriers between interior padding and ops that pad its edges, in place."""
    changed = False
    for function in module.body.operations:
        for op in list(operations(function.operation)):
            if not _pads_edges(op):
                continue
            for i, value in enumerate(op.operands):
                if _is_spread(value):
                    with ir.InsertionPoint(op), op.location:
                        (stored,) = stablehlo("optimization_barrier", [value], [type_of(value)])
                    op.operands[i] = stored
                    changed = True
    return changed


def _pads_edges(op: ir.Operation) -> bool:
    if op.name == _PAD:
        return True
    if op.name not in ("stablehlo.convolution", "stablehlo.reduce_window"):
        return False
    return "padding" in op.attributes and any(ir.DenseIntElementsAttr(op.attributes["padding"]))


def _is_spread(value: ir.Value) -> bool:
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == _PAD and any(ir.DenseI64ArrayAttr(op.attributes["interior_padding"])):
            return True
        if op.name not in _MOVES:
            return False
        value = op.operands[0]
    return False


def _is_update(value: ir.Value) -> bool:
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if is_update(op):
            return True
        if name_of(op) not in PADDED_IN_PLACE:
            return False
        value = op.operands[0]
    return False


LEGALIZATIONS = (
    Legalization(
        name="spread-updates",
        stage=Stage.LOWERED,
        kind=Kind.MISCOMPILED,
        doc="store an updated array before it gets interior padding",
        upstream="IREE 3.13 runs the update in the padded array, at the position that it has in "
        "the array without padding",
        texts=("interior_padding_of_updates",),
        reproducer="a pad with gaps of an updated array has the update in another place",
        run=store_spread_updates,
        needs=frozenset({_PAD}),
    ),
    Legalization(
        name="padded-spreads",
        stage=Stage.LOWERED,
        kind=Kind.MISCOMPILED,
        doc="store an array with interior padding before its edges are padded",
        upstream="IREE 3.13 merges the two pads, and drops the stride of the elements",
        texts=("pads_of_pads",),
        reproducer="sums of windows of a padded pad with gaps have the gaps in other places",
        run=store_padded_spreads,
        needs=frozenset({_PAD}),
    ),
)
