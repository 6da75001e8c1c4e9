"""Inverse circular functions within two units in the last place.

IREE's arc tangent of f32 is off by up to 40 units, and so are the functions that IREE derives from
it. Its arc tangent of f64 calls a library for each element. The functions here use no wider format,
so they also serve targets without f64.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from gnomon.backends.functions.double_length import format_of, polynomial
from gnomon.backends.functions.exponentials import odd
from gnomon.backends.functions.signs import with_sign_of
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["acos", "asin", "atan", "atan2"]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)

Table: TypeAlias = "dict[np.dtype, tuple[float, ...]]"

# (atan(x) / x - 1) / x**2 as a polynomial in x**2, for x**2 up to 1.
_ATAN: Table = {
    _F32: (
        -0.3333333308107325, 0.19999949321141888, -0.1428400379473353, 0.11088261628735159,
        -0.08931826777381315, 0.07031914250029966, -0.04896051402709067, 0.026305001110062377,
        -0.009144629760592396, 0.0014886919393047597,
    ),
    _F64: (
        -0.3333333333333333,
        0.1999999999999992,
        -0.14285714285701234,
        0.11111111110268297,
        -0.0909090906193528,
        0.07692307078827029,
        -0.06666657934573768,
        0.05882264416776449,
        -0.052624922290256754,
        0.04758080083637821,
        -0.043306538430670664,
        0.03938687540798632,
        -0.035271331066871296,
        0.030330719265790507,
        -0.024191345810140718,
        0.01718398172211335,
        -0.010412153260359241,
        0.005140912856746939,
        -0.0019612554271685326,
        0.0005376839297396244,
        -9.371186345052626e-05,
        7.767624330289919e-06,
    ),
}  # fmt: skip
# (asin(x) / x - 1) / x**2 as a polynomial in x**2, for x**2 up to 1/4.
_ASIN: Table = {
    _F32: (
        0.16666666337430908, 0.07500094543497424, 0.04459940152851218, 0.03110066273549457,
        0.017149238357677253, 0.03369084720283012,
    ),
    _F64: (
        0.16666666666666666,
        0.07500000000000118,
        0.044642857142551895,
        0.03038194447553234,
        0.02237215744350722,
        0.017352816540325496,
        0.01396378001220357,
        0.011566459612121669,
        0.009621842970100282,
        0.009319560794767446,
        0.0030448799094556773,
        0.019554513336123378,
        -0.01924167174674304,
        0.02961201126495512,
    ),
}  # fmt: skip

# A quarter turn, pi/2, as the sum of two numbers.
_QUARTER = {
    _F32: (float(np.float32(math.pi / 2)), math.pi / 2 - float(np.float32(math.pi / 2))),
    _F64: (math.pi / 2, 6.123233995736766e-17),
}


def _less(quarters: int, angle: ir.Value) -> ir.Value:
    """``quarters`` quarter turns minus an angle."""
    high, low = (full_like(angle, quarters * part) for part in _QUARTER[type_of(angle).dtype])
    return ops.add(ops.sub(high, angle), low)


def _odd(x: ir.Value, table: Table) -> ir.Value:
    return odd(x, table[type_of(x).dtype])


def atan(x: ir.Value) -> ir.Value:
    """Arc tangent of an f32 or f64 value."""
    size, one = ops.abs(x), full_like(x, 1)
    is_steep = ops.gt(size, one)
    angle = _odd(ops.select(is_steep, ops.div(one, size), size), _ATAN)
    return with_sign_of(ops.select(is_steep, _less(1, angle), angle), x)


def atan2(y: ir.Value, x: ir.Value) -> ir.Value:
    """Angle of the point ``(x, y)``, for f32 or f64 values."""
    height, width = ops.abs(y), ops.abs(x)
    is_steep = ops.gt(height, width)
    short, long = ops.select(is_steep, width, height), ops.select(is_steep, height, width)
    quotient = ops.div(short, long)
    # The quotients 0 / 0 and infinity / infinity count as 0 and 1.
    quotient = ops.select(ops.eq(long, full_like(long, 0)), full_like(long, 0), quotient)
    quotient = ops.select(ops.eq(short, full_like(long, np.inf)), full_like(long, 1), quotient)
    angle = _odd(quotient, _ATAN)
    angle = ops.select(is_steep, _less(1, angle), angle)
    bits = ops.bitcast_convert(x, dtype=format_of(x).integer)
    is_left = ops.lt(bits, full_like(bits, 0))
    angle = with_sign_of(ops.select(is_left, _less(2, angle), angle), y)
    is_nan = ops.or_(ops.ne(x, x), ops.ne(y, y))
    return ops.select(is_nan, full_like(x, np.nan), angle)


def _root(size: ir.Value) -> ir.Value:
    """The sine of half the angle whose cosine is ``size``."""
    half = full_like(size, 0.5)
    return ops.sqrt(ops.mul(ops.sub(full_like(size, 1), size), half))


def asin(x: ir.Value) -> ir.Value:
    """Arc sine of an f32 or f64 value."""
    size = ops.abs(x)
    is_steep = ops.gt(size, full_like(x, 0.5))
    sine = ops.select(is_steep, _root(size), size)
    square = ops.mul(sine, sine)
    series = polynomial(square, _ASIN[type_of(x).dtype])
    tail = ops.mul(ops.mul(sine, square), series)
    # pi/2 - 2 sine first; its rounding error is added with the small terms.
    high, low = (full_like(x, part) for part in _QUARTER[type_of(x).dtype])
    twice = ops.add(sine, sine)
    angle = ops.sub(high, twice)
    lost = ops.sub(ops.sub(high, angle), twice)
    steep = ops.add(angle, ops.add(lost, ops.sub(low, ops.add(tail, tail))))
    return with_sign_of(ops.select(is_steep, steep, ops.add(sine, tail)), x)


def acos(x: ir.Value) -> ir.Value:
    """Arc cosine of an f32 or f64 value."""
    size = ops.abs(x)
    is_steep = ops.gt(size, full_like(x, 0.5))
    angle = _odd(ops.select(is_steep, _root(size), x), _ASIN)
    twice = ops.add(angle, angle)
    steep = ops.select(ops.lt(x, full_like(x, 0)), _less(2, twice), twice)
    return ops.select(is_steep, steep, _less(1, angle))
