"""Programs as loops over scalars, which each target compiles."""

from __future__ import annotations

from gnomon.backends.kernels.lowering import KernelBackend
from gnomon.backends.kernels.program import Kernels, kernels
from gnomon.backends.kernels.workspace import ALIGNMENT

__all__ = ["ALIGNMENT", "KernelBackend", "Kernels", "kernels"]
