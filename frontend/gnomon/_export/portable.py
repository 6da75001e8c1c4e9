"""Programs lowered to StableHLO for other compilers."""

from __future__ import annotations

import gnomon.backends.compilation as lowering
from gnomon.dialects.functions import Program
from gnomon.dialects.symbolic.errors import InconclusiveDimensionOperation
from gnomon.passes.lower import LoweringError

__all__ = ["lowered"]


def lowered(program: Program) -> lowering.Lowering:
    """A program of the dialect, lowered to StableHLO without legalizing it for any backend.

    Raises:
      LoweringError: an op with symbolic dimensions has no form in StableHLO.
    """
    steps = lowering.Lowering(program)
    try:
        steps.expand()
        steps.run(("expand-scan",))
        steps.to_stablehlo()
    except InconclusiveDimensionOperation as error:
        raise LoweringError(f"no StableHLO for symbolic dimensions: {error}") from error
    return steps
