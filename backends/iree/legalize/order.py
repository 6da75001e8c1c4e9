"""The one list of legalizations, in the order in which they run."""

from __future__ import annotations

from typing import Final

from gnomon.backends.iree.legalize import (
    complex_kernels,
    complex_parts,
    host_ops,
    library_products,
    refusals,
    small_matrices,
)
from gnomon.backends.iree.legalize.after_lowering import (
    constant_reductions,
    lifted_elements,
    masks,
    moved_functions,
    negated_parts,
    scalar_kernels,
    short_dimensions,
    small_arguments,
    spread_updates,
    strided_reads,
    strided_views,
    transposed_extrema,
    unsigned_factors,
)
from gnomon.backends.iree.legalize.array_kernels import rows, single_ops
from gnomon.backends.iree.legalize.control import branches, forms, rolled_chains, stored_carries
from gnomon.backends.iree.legalize.data_movement import scatter, sorting
from gnomon.backends.iree.legalize.functions import (
    conversions,
    half_powers,
    integrals,
    narrow_arithmetic,
    special_functions,
)
from gnomon.backends.iree.legalize.fusion import (
    closed_expressions,
    long_fusions,
    spread_values,
    stored_values,
    wide_fusions,
)
from gnomon.backends.iree.legalize.legalization import Legalization, checked
from gnomon.backends.iree.legalize.reductions import (
    contractions,
    convolution,
    cumulative,
    fourier,
    pads,
    positions,
    stepwise,
    sums,
    sums_of_products,
    windows,
)

__all__ = ["LEGALIZATIONS"]

LEGALIZATIONS: Final[tuple[Legalization, ...]] = checked(
    (
        # On the gnomon dialect. The rules of a stage need no order: if two rewrite one op, one of
        # them is a `SpecialCase`, which comes first.
        *small_matrices.LEGALIZATIONS,
        *contractions.LEGALIZATIONS,
        *host_ops.LEGALIZATIONS,
        *fourier.LEGALIZATIONS,
        *integrals.LEGALIZATIONS,
        *sorting.LEGALIZATIONS,
        *complex_parts.LEGALIZATIONS,
        *windows.LEGALIZATIONS,
        *cumulative.LEGALIZATIONS,
        *pads.LEGALIZATIONS,
        *positions.LEGALIZATIONS,
        *half_powers.LEGALIZATIONS,
        *branches.LEGALIZATIONS,
        *conversions.LEGALIZATIONS,
        *scatter.LEGALIZATIONS,
        *special_functions.LEGALIZATIONS,
        *convolution.LEGALIZATIONS,
        *sums.LEGALIZATIONS,
        # Narrow dtypes are replaced before the refusals check the dtypes of the program.
        *narrow_arithmetic.LEGALIZATIONS,
        *refusals.LEGALIZATIONS,
        *spread_values.LEGALIZATIONS,
        *closed_expressions.LEGALIZATIONS,
        # Loops over closed expressions have been folded already.
        *rolled_chains.LEGALIZATIONS,
        *stored_carries.LEGALIZATIONS,
        *stepwise.LEGALIZATIONS,
        *sums_of_products.LEGALIZATIONS,
        # Barriers that split long expressions split wide ones too.
        *stored_values.LEGALIZATIONS,
        *long_fusions.LEGALIZATIONS,
        *wide_fusions.LEGALIZATIONS,
        *refusals.LEGALIZATIONS_OF_REWRITTEN,
        # On StableHLO.
        *small_arguments.LEGALIZATIONS,
        *closed_expressions.LEGALIZATIONS_OF_LOWERED,
        *lifted_elements.LEGALIZATIONS,
        *strided_views.LEGALIZATIONS,
        *strided_reads.LEGALIZATIONS,
        *transposed_extrema.LEGALIZATIONS,
        *unsigned_factors.LEGALIZATIONS,
        *spread_updates.LEGALIZATIONS,
        *moved_functions.LEGALIZATIONS,
        *masks.LEGALIZATIONS,
        # Loops become kernels with the dimensions that their arrays have then.
        *short_dimensions.LEGALIZATIONS,
        *forms.LEGALIZATIONS,
        *constant_reductions.LEGALIZATIONS,
        *negated_parts.LEGALIZATIONS,
        *complex_kernels.LEGALIZATIONS,
        *library_products.LEGALIZATIONS,
        *single_ops.LEGALIZATIONS,
        *rows.LEGALIZATIONS,
        *scalar_kernels.LEGALIZATIONS,
    )
)
