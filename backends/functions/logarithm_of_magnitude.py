"""The logarithm of ``|1 + z|`` for targets without f64, where its terms nearly cancel."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.backends.functions.double_length import exact_product, exact_sum
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir

__all__ = ["log1p_parts"]


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
