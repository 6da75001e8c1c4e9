"""Functions of f32 for targets without f64, in f32 and 32-bit integers only.

Their forms in f64, and the edge cases of both, are in `special_functions`; sines are in `angles`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.backends.iree.legalize.functions.double_length import exact_product, exact_sum
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir

__all__ = ["cube_root", "log1p_parts"]

_F32 = np.dtype(np.float32)
_I32 = np.dtype(np.int32)

# ------------------------------------------------------------------------------------- cube root

# The bits of an f32, divided by 3 and plus this, are about the bits of its cube root.
_CBRT_BITS = 0x2A5137A0


def cube_root(x: ir.Value) -> ir.Value:
    """Cube root of a positive normal f32 number."""
    bits = ops.bitcast_convert(x, dtype=_I32)
    third = ops.div(bits, full_like(bits, 3))
    root = ops.bitcast_convert(ops.add(third, full_like(bits, _CBRT_BITS)), dtype=_F32)
    two = full_like(root, 2)
    for _ in range(3):
        # Halley's step, as a small correction of the root, without a cube, which may overflow.
        other = ops.div(x, ops.mul(root, root))
        change = ops.div(ops.sub(other, root), ops.add(ops.mul(two, root), other))
        root = ops.add(root, ops.mul(root, change))
    return root


# --------------------------------------------------------------------------- logarithm near one


def log1p_parts(real: ir.Value, imaginary: ir.Value) -> ir.Value:
    """The logarithm of ``|1 + z|`` for the f32 parts of ``z``."""
    one, half, zero = (full_like(real, value) for value in (1, 0.5, 0))
    shifted, height = ops.abs(ops.add(real, one)), ops.abs(imaginary)
    larger, smaller = ops.max(shifted, height), ops.min(shifted, height)
    # Where squares would overflow, or 1 + z is small and therefore exact, use the ratio of the
    # parts.
    is_far = ops.or_(
        ops.gt(larger, full_like(larger, 2.0**30)), ops.lt(larger, full_like(larger, 0.5))
    )
    ratio = ops.div(smaller, larger)
    ratio = ops.select(ops.eq(larger, zero), zero, ratio)
    far = ops.add(ops.log(larger), ops.mul(half, ops.log1p(ops.mul(ratio, ratio))))
    real, imaginary = (ops.select(is_far, zero, part) for part in (real, imaginary))
    # |1 + z|² - 1 is x² + 2x + y², whose terms nearly cancel near the circle |1 + z| = 1.
    terms: Sequence[ir.Value] = (
        *exact_product(real, real), *exact_product(imaginary, imaginary), ops.add(real, real),
    )  # fmt: skip
    total, lost = zero, zero
    for term in (terms[4], terms[2], terms[0]):
        total, rounding = exact_sum(total, term)
        lost = ops.add(lost, rounding)
    lost = ops.add(lost, ops.add(terms[1], terms[3]))
    excess = ops.max(ops.add(total, lost), full_like(total, -1))
    rest = ops.add(ops.sub(total, excess), lost)
    near = ops.log1p(excess)
    correction = ops.div(rest, ops.add(one, excess))
    correction = ops.select(ops.is_finite(correction), correction, zero)
    return ops.select(is_far, far, ops.mul(half, ops.add(near, correction)))
