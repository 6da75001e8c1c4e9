"""Cube roots by Halley's iteration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gnomon.backends.functions.signs import has_sign, with_sign
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["cbrt_in"]

# The bits of a number, divided by 3 and plus this, are about the bits of its cube root.
_BITS = {np.dtype(np.float32): 0x2A5137A0, np.dtype(np.float64): 0x2A9F7893 << 32}
# The steps of the iteration from there to full precision.
_STEPS = {np.dtype(np.float32): 3, np.dtype(np.float64): 4}


def _subnormal(x: ir.Value, wide: np.dtype) -> tuple[ir.Value, ir.Value]:
    """Whether an f32 or f64 value is subnormal or zero, and its magnitude if it is.

    The magnitude is counted in units of the smallest positive number, in the dtype ``wide``. It is
    read from the bits, since compiled arithmetic flushes subnormal numbers to zero.
    """
    dtype = type_of(x).dtype
    info = np.finfo(dtype)
    integer = np.dtype(f"i{dtype.itemsize}")
    bits = ops.bitcast_convert(x, dtype=integer)
    bits = ops.and_(bits, full_like(bits, np.iinfo(integer).max))
    is_subnormal = ops.lt(bits, full_like(bits, 1 << info.nmant))
    return is_subnormal, convert(bits, wide)


def _cube_root(x: ir.Value) -> ir.Value:
    """Cube root of a positive normal number."""
    dtype = type_of(x).dtype
    bits = ops.bitcast_convert(x, dtype=np.dtype(f"i{dtype.itemsize}"))
    third = ops.div(bits, full_like(bits, 3))
    root = ops.bitcast_convert(ops.add(third, full_like(bits, _BITS[dtype])), dtype=dtype)
    two = full_like(root, 2)
    for _ in range(_STEPS[dtype]):
        # Halley's step, as a small correction of the root, without a cube, which may overflow.
        other = ops.div(x, ops.mul(root, root))
        change = ops.div(ops.sub(other, root), ops.add(ops.mul(two, root), other))
        root = ops.add(root, ops.mul(root, change))
    return root


def cbrt_in(wide: np.dtype) -> Callable[[ir.Value], ir.Value]:
    """A function that emits the cube root of f32 or f64, computed in the dtype ``wide``."""

    def cbrt(x: ir.Value) -> ir.Value:
        dtype = type_of(x).dtype
        widened = convert(x, wide)
        is_subnormal, units = _subnormal(x, wide)
        # The unit is a power of 2 (2**-149 of f32). Splitting its exponent by 3 leaves a factor
        # with an exact cube root, and 1, 2 or 4, by which the magnitude is scaled.
        info = np.finfo(dtype)
        exponent = int(info.minexp - info.nmant)
        units = ops.mul(units, full_like(units, 2.0 ** (exponent % 3)))
        scaled = ops.select(is_subnormal, units, ops.abs(widened))
        is_edge = ops.or_(ops.eq(units, full_like(units, 0)), ops.not_(ops.is_finite(x)))
        scaled = ops.select(is_edge, full_like(scaled, 1), scaled)
        root = _cube_root(scaled)
        back = ops.mul(root, full_like(root, 2.0 ** (exponent // 3)))
        root = ops.select(is_subnormal, back, root)
        root = convert(with_sign(root, has_sign(widened)), dtype)
        return ops.select(is_edge, x, root)

    return cbrt
