"""The one list of legalizations, in the order in which they run."""

from __future__ import annotations

from typing import Final

from gnomon.backends.iree.legalize import (
    barriers,
    branches,
    closed_expressions,
    complex_functions,
    constant_reductions,
    contractions,
    control_flow,
    conversions,
    convolution,
    cumulative,
    fourier,
    host_ops,
    integrals,
    long_fusions,
    loops,
    narrow_arithmetic,
    pads,
    powers,
    refusals,
    scatter,
    selects,
    small_arguments,
    sorting,
    special_functions,
    spread_updates,
    stored_values,
    strided_views,
    sums,
    unsigned_factors,
    wide_fusions,
    windows,
)
from gnomon.backends.iree.legalize.legalization import Legalization, checked

__all__ = ["LEGALIZATIONS"]

LEGALIZATIONS: Final[tuple[Legalization, ...]] = checked(
    (
        # Rules, on the gnomon dialect. Within a stage they need no order: no two rewrite one op.
        *contractions.LEGALIZATIONS,
        *host_ops.LEGALIZATIONS,
        *fourier.LEGALIZATIONS,
        *integrals.LEGALIZATIONS,
        *sorting.LEGALIZATIONS,
        *complex_functions.LEGALIZATIONS,
        *cumulative.LEGALIZATIONS,
        *windows.LEGALIZATIONS,
        *pads.LEGALIZATIONS,
        *powers.LEGALIZATIONS,
        *loops.LEGALIZATIONS,
        *branches.LEGALIZATIONS,
        *conversions.LEGALIZATIONS,
        *scatter.LEGALIZATIONS,
        *special_functions.LEGALIZATIONS,
        *convolution.LEGALIZATIONS,
        *sums.LEGALIZATIONS,
        # Narrow dtypes are gone before it is asked which dtypes there are.
        *narrow_arithmetic.LEGALIZATIONS,
        *refusals.LEGALIZATIONS,
        *barriers.LEGALIZATIONS,
        *closed_expressions.LEGALIZATIONS,
        # Barriers that split long expressions split wide ones too.
        *stored_values.LEGALIZATIONS,
        *long_fusions.LEGALIZATIONS,
        *wide_fusions.LEGALIZATIONS,
        *refusals.LEGALIZATIONS_OF_WRITTEN,
        # On StableHLO.
        *small_arguments.LEGALIZATIONS,
        *closed_expressions.LEGALIZATIONS_OF_LOWERED,
        *strided_views.LEGALIZATIONS,
        *unsigned_factors.LEGALIZATIONS,
        *spread_updates.LEGALIZATIONS,
        *control_flow.LEGALIZATIONS,
        *constant_reductions.LEGALIZATIONS,
        # Of all that chooses: guards of loops do, too.
        *selects.LEGALIZATIONS,
    )
)
