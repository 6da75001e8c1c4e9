"""Elementwise ops: the result at an index depends only on the operands at that index.

Importing this package registers all of them.
"""

from __future__ import annotations

from gnomon.dialects.elementwise import (
    arithmetic,
    beta_integrals,
    bitwise,
    comparison,
    conversion,
    exponential,
    fused,
    gamma_functions,
    gamma_integrals,
    hyperbolic,
    representation,
    special,
    trigonometric,
)

__all__ = [
    "arithmetic",
    "beta_integrals",
    "bitwise",
    "comparison",
    "conversion",
    "exponential",
    "fused",
    "gamma_functions",
    "gamma_integrals",
    "hyperbolic",
    "representation",
    "special",
    "trigonometric",
]
