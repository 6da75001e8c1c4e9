"""Interior padding next to other ops that write parts of arrays: updates, and edges around it.

IREE 3.13 makes an update of the padded array in the result of the padding, at the place that it
would have without the padding between the elements. If the result is padded at its edges, by a
convolution for example, it puts the elements side by side in the larger array. After a barrier an
array is one of its own.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.after_lowering.strided_views import operations
from gnomon.backends.iree.legalize.aliases import PADDED_IN_PLACE, UPDATES, name_of
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import stablehlo
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["LEGALIZATIONS", "store_padded_spreads", "store_spread_updates"]

# Ops that the compiler moves past others.
_MOVES = frozenset({"stablehlo.reshape", "stablehlo.transpose", "stablehlo.slice"})


def store_spread_updates(module: ir.Module, target: Target) -> None:
    """Put barriers before the interior padding of updates in a StableHLO module; in place."""
    for function in module.body.operations:
        for op in list(operations(function.operation)):
            if op.name != "stablehlo.pad" or not _is_update(op.operands[0]):
                continue
            if any(ir.DenseI64ArrayAttr(op.attributes["interior_padding"])):
                with ir.InsertionPoint(op), op.location:
                    value = op.operands[0]
                    (stored,) = stablehlo("optimization_barrier", [value], [type_of(value)])
                op.operands[0] = stored


def store_padded_spreads(module: ir.Module, target: Target) -> None:
    """Put barriers before ops that pad the edges of interior padding; in place."""
    for function in module.body.operations:
        for op in list(operations(function.operation)):
            if not _pads_edges(op):
                continue
            for i, value in enumerate(op.operands):
                if _is_spread(value):
                    with ir.InsertionPoint(op), op.location:
                        (stored,) = stablehlo("optimization_barrier", [value], [type_of(value)])
                    op.operands[i] = stored


def _pads_edges(op: ir.Operation) -> bool:
    if op.name == "stablehlo.pad":
        return True
    if op.name not in ("stablehlo.convolution", "stablehlo.reduce_window"):
        return False
    return "padding" in op.attributes and any(ir.DenseIntElementsAttr(op.attributes["padding"]))


def _is_spread(value: ir.Value) -> bool:
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == "stablehlo.pad" and any(
            ir.DenseI64ArrayAttr(op.attributes["interior_padding"])
        ):
            return True
        if op.name not in _MOVES:
            return False
        value = op.operands[0]
    return False


def _is_update(value: ir.Value) -> bool:
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if name_of(op) in UPDATES:
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
        doc="store an updated array before padding is put between its elements",
        upstream="IREE 3.13 makes the update in the padded array, at the place without padding",
        texts=("interior_padding_of_updates",),
        reproducer="a pad with gaps of an updated array has the update in another place",
        run=store_spread_updates,
    ),
    Legalization(
        name="padded-spreads",
        stage=Stage.LOWERED,
        kind=Kind.MISCOMPILED,
        doc="store what is padded between its elements before its edges are padded",
        upstream="IREE 3.13 makes one array of the two, and drops the stride of the elements",
        texts=("pads_of_pads",),
        reproducer="sums of windows of a padded pad with gaps have the gaps in other places",
        run=store_padded_spreads,
    ),
)
