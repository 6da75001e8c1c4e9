"""Products with bools that are converted to floats: the conversion becomes a select of 1 or 0.

IREE rewrites ``x * convert(mask)`` as a select of ``x`` or 0, which differs from the product:
infinity or nan times 0 is nan. It recognizes the mask by the conversion, so a select hides it.
"""

from __future__ import annotations

import numpy as np

from gnomon.backends.iree.legalize.after_lowering.strided_views import operations_named
from gnomon.backends.iree.legalize.aliases import REARRANGES, name_of
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import stablehlo, stablehlo_full
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_inexact, type_of

__all__ = ["LEGALIZATIONS", "choose_factors"]


_CONVERT = frozenset({"stablehlo.convert"})


def choose_factors(module: ir.Module, target: Target) -> bool:
    """Write conversions of bools to factors as selects, in a StableHLO module, in place."""
    changed = False
    for function in module.body.operations:
        for op in operations_named(_CONVERT, function.operation):
            if _is_of_mask(op) and _is_factor(op.results[0]):
                type_ = type_of(op.results[0])
                with ir.InsertionPoint(op), op.location:
                    one, zero = stablehlo_full(type_, 1), stablehlo_full(type_, 0)
                    (chosen,) = stablehlo("select", [op.operands[0], one, zero], [type_])
                op.results[0].replace_all_uses_with(chosen)
                op.erase()
                changed = True
    return changed


def _is_of_mask(op: ir.Operation) -> bool:
    return type_of(op.operands[0]).dtype == np.bool_ and is_inexact(type_of(op.results[0]).dtype)


def _is_factor(value: ir.Value) -> bool:
    """Whether a value is multiplied, perhaps after its elements were rearranged."""
    for use in value.uses:
        user = name_of(use.owner)
        if user == "multiply":
            return True
        if user in REARRANGES and _is_factor(use.owner.results[0]):
            return True
    return False


LEGALIZATIONS = (
    Legalization(
        name="masks",
        stage=Stage.LOWERED,
        kind=Kind.MISCOMPILED,
        doc="write the conversion of a bool to a factor as a select of 1 or 0",
        upstream="IREE 3.13 rewrites a product with a converted bool as a select of the other "
        "factor or 0, which makes infinity times 0 be 0",
        issue="https://github.com/iree-org/iree/pull/8396",
        texts=("products_with_masks",),
        reproducer="`x * mask` is 0 instead of nan where x is infinite and the mask is False",
        run=choose_factors,
        needs=_CONVERT,
    ),
)
