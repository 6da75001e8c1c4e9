"""Programs that users write, through gnomon and JAX: first calls, calls, memory.

python -m gnomon.tools.bench.programs --output programs.md

With ``--pytorch``, eager ports of the programs to PyTorch are measured in the same run (`pytorch`).
"""

from gnomon.tools.bench.programs import (
    images,
    kernels,
    sequences,
    simulation,
    statistics,
    transformers,
)
from gnomon.tools.bench.programs.program import Program

PROGRAMS: tuple[Program, ...] = (
    *images.PROGRAMS,
    *transformers.PROGRAMS,
    *sequences.PROGRAMS,
    *simulation.PROGRAMS,
    *statistics.PROGRAMS,
    *kernels.PROGRAMS,
)

__all__ = ["PROGRAMS", "Program"]
