"""Fused multiply-add, with a single rounding.

Compilers contract ``x * y + z`` if the processor has an instruction for it, as XLA does in the
scaling of uniform random numbers. The op requests the contraction, so that evaluation and compiled
code give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects.combinators import Tangents, nary, stablehlo
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import add_tangents, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import FLOATING

# Veltkamp's splitting constant for 53-bit mantissas.
_SPLITTER = 2.0**27 + 1


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``x`` as a sum of two numbers of 26 bits, whose products are exact."""
    scaled = _SPLITTER * x
    high = scaled - (scaled - x)
    return high, x - high


def _fused_f64(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Compute with error-free transformations: add the errors of product and sum at the end.

    T. J. Dekker, A floating-point technique for extending the available precision (1971); D. E.
    Knuth, The Art of Computer Programming, volume 2, section 4.2.2.
    """
    product = x * y
    (x1, x2), (y1, y2) = _halves(x), _halves(y)
    product_error = ((x1 * y1 - product) + x1 * y2 + x2 * y1) + x2 * y2
    total = product + z
    part = total - product
    total_error = (product - (total - part)) + (z - part)
    fused = total + (total_error + product_error)
    # Near overflow the splitting overflows, too; then, and for inf and nan, the plain sum is used.
    return np.where(np.isfinite(fused), fused, total)


def _evaluate(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    if x.dtype == np.float32:
        # The product is exact in 48 bits, so only the sum is rounded, in f64 and then in f32. That
        # differs from one rounding where the f64 sum is rounded to the middle between two f32.
        return (x.astype(np.float64) * y + z).astype(np.float32)
    if x.dtype == np.float64:
        return _fused_f64(x, y, z)
    # Products of narrower numbers are exact in f32.
    wide = x.astype(np.float32) * y.astype(np.float32) + z.astype(np.float32)
    return wide.astype(x.dtype)


def _jvp(inst: Instance, outs: Sequence[ir.Value], tangents: Tangents) -> list[ir.Value | None]:
    x, y, _ = inst.operands
    dx, dy, dz = tangents
    if dy is None and dx is not None and dz is not None:
        return [ops.fma(dx, y, dz)]
    if dx is None and dy is not None and dz is not None:
        return [ops.fma(x, dy, dz)]
    products = [None if t is None else ops.mul(t, other) for t, other in ((dx, y), (dy, x))]
    return [add_tangents(add_tangents(*products), dz)]


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (ct,) = cotangents
    x, y, _ = inst.operands
    return [
        ops.mul(ct, y) if linear[0] else None,
        ops.mul(x, ct) if linear[1] else None,
        ct if linear[2] else None,
    ]


def _lower(inst: Instance) -> list[ir.Value]:
    x, y, z = inst.operands
    (product,) = stablehlo("multiply", [x, y], inst.result_types)
    return stablehlo("add", [product, z], inst.result_types)


fma = nary(
    "fma",
    3,
    doc="x * y + z; evaluation rounds once, and so does compiled code if the processor can",
    dtypes=FLOATING,
    evaluate=_evaluate,
    jvp=_jvp,
    transpose=_transpose,
    lower=_lower,
)
