"""Updated arrays that are spread out: interior padding of the result of an update.

IREE 3.13 makes the update in the padded array itself, at the place that it would have without the
padding between the elements. After a barrier the updated array is one of its own.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.after_lowering.strided_views import operations
from gnomon.backends.iree.legalize.aliases import PADDED_IN_PLACE, UPDATES, name_of
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import stablehlo
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["LEGALIZATIONS", "store_spread_updates"]


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
        run=store_spread_updates,
    ),
)
