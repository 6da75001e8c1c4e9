"""Raising: the rules that turn ops of StableHLO and CHLO into ops of the gnomon dialect.

The relation between the two dialects is many to many: ``stablehlo.reduce`` becomes one of seven
reductions, or a composition, by the function in its region; ``gnomon.conj`` lowers to four ops. So
a rule belongs to the op that it reads, and the families are those of the gnomon dialect. Every op
of StableHLO and CHLO has a rule or a `Refusal` with its reason; a test compares with upstream's
list. `passes.raise_stablehlo` applies the rules to programs.
"""

from gnomon.dialects.raising import (  # noqa: F401
    broadcasting,
    chlo,
    contraction,
    control_flow,
    custom_calls,
    elementwise,
    indexing,
    linear_algebra,
    normalization,
    ragged,
    reduction,
    refusals,
    scattering,
    sized,
    sorting,
    structural,
    windowed,
)
from gnomon.dialects.raising.source import RULES, RaiseError, Region, Source

__all__ = ["RULES", "RaiseError", "Region", "Source"]
