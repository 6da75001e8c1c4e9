"""Inverse circular functions within two units in the last place.

IREE's arc tangent of f32 is off by 40 units, and so are the functions that are made of it. All is
computed in the format itself, so this serves targets without f64 too.
"""

from __future__ import annotations

import math

import numpy as np

from gnomon.backends.iree.legalize.exponentials import odd, with_sign_of
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir

__all__ = ["acos", "asin", "atan", "atan2"]

# (atan(x) / x - 1) / x**2 by x**2 up to 1.
_ATAN = (
    -0.3333333308107325, 0.19999949321141888, -0.1428400379473353, 0.11088261628735159,
    -0.08931826777381315, 0.07031914250029966, -0.04896051402709067, 0.026305001110062377,
    -0.009144629760592396, 0.0014886919393047597,
)  # fmt: skip
# (asin(x) / x - 1) / x**2 by x**2 up to 1/4.
_ASIN = (
    0.16666666337430908, 0.07500094543497424, 0.04459940152851218, 0.03110066273549457,
    0.017149238357677253, 0.03369084720283012,
)  # fmt: skip

# A quarter and a half of a turn as sums of two f32 numbers.
_QUARTER = float(np.float32(math.pi / 2)), math.pi / 2 - float(np.float32(math.pi / 2))
_HALF = 2 * _QUARTER[0], 2 * _QUARTER[1]


def _less(whole: tuple[float, float], angle: ir.Value) -> ir.Value:
    """A part of a turn less an angle."""
    high, low = (full_like(angle, part) for part in whole)
    return ops.add(ops.sub(high, angle), low)


def atan(x: ir.Value) -> ir.Value:
    """Of an f32 value."""
    size, one = ops.abs(x), full_like(x, 1)
    is_steep = ops.gt(size, one)
    angle = odd(ops.select(is_steep, ops.div(one, size), size), _ATAN)
    return with_sign_of(ops.select(is_steep, _less(_QUARTER, angle), angle), x)


def atan2(y: ir.Value, x: ir.Value) -> ir.Value:
    """Of f32 values."""
    height, width = ops.abs(y), ops.abs(x)
    is_steep = ops.gt(height, width)
    short, long = ops.select(is_steep, width, height), ops.select(is_steep, height, width)
    quotient = ops.div(short, long)
    # 0 / 0 is 0 here, and infinity / infinity 1.
    quotient = ops.select(ops.eq(long, full_like(long, 0)), full_like(long, 0), quotient)
    quotient = ops.select(ops.eq(short, full_like(long, np.inf)), full_like(long, 1), quotient)
    angle = odd(quotient, _ATAN)
    angle = ops.select(is_steep, _less(_QUARTER, angle), angle)
    bits = ops.bitcast_convert(x, dtype=np.dtype(np.int32))
    is_left = ops.lt(bits, full_like(bits, 0))
    angle = with_sign_of(ops.select(is_left, _less(_HALF, angle), angle), y)
    is_nan = ops.or_(ops.ne(x, x), ops.ne(y, y))
    return ops.select(is_nan, full_like(x, np.nan), angle)


def _root(size: ir.Value) -> ir.Value:
    """The sine of half the angle whose cosine is ``size``."""
    half = full_like(size, 0.5)
    return ops.sqrt(ops.mul(ops.sub(full_like(size, 1), size), half))


def asin(x: ir.Value) -> ir.Value:
    """Of an f32 value."""
    size = ops.abs(x)
    is_steep = ops.gt(size, full_like(x, 0.5))
    angle = odd(ops.select(is_steep, _root(size), size), _ASIN)
    return with_sign_of(ops.select(is_steep, _less(_QUARTER, ops.add(angle, angle)), angle), x)


def acos(x: ir.Value) -> ir.Value:
    """Of an f32 value."""
    size = ops.abs(x)
    is_steep = ops.gt(size, full_like(x, 0.5))
    angle = odd(ops.select(is_steep, _root(size), x), _ASIN)
    twice = ops.add(angle, angle)
    steep = ops.select(ops.lt(x, full_like(x, 0)), _less(_HALF, twice), twice)
    return ops.select(is_steep, steep, _less(_QUARTER, angle))
