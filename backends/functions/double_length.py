"""Arithmetic with twice the digits of a format: a value is the sum of two numbers of the format.

T. J. Dekker, A floating-point technique for extending the available precision, 1971. It needs no
wider format, so it serves f64 everywhere, and f32 on targets without f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["exact_product", "exact_sum", "format_of", "logarithm", "polynomial", "positive_power"]


class Format(NamedTuple):
    """The constants of a floating-point format that the algorithms need.

    Attributes:
      dtype: the format.
      integer: the signed integer of its width.
      mantissa: the number of bits of the mantissa that are stored.
      low: the number of bits in the lower half of a mantissa; products of halves are exact, up to
        the last bit of that of two lower halves in f64.
      ln2_high, ln2_low: log(2) in two parts; the first has so few bits that its product with an
        exponent is exact.
      terms: the number of terms of the logarithm's series.
      largest_power: with an exponent beyond it, every power of a number other than 1 overflows
        or is 0.
      largest_exponent: beyond it, ``exp`` overflows or is 0.
    """

    dtype: np.dtype
    integer: np.dtype
    mantissa: int
    low: int
    ln2_high: float
    ln2_low: float
    terms: int
    largest_power: float
    largest_exponent: float


_FORMATS = {
    format_.dtype: format_
    for format_ in (
        Format(
            dtype=np.dtype(np.float64),
            integer=np.dtype(np.int64),
            mantissa=52,
            low=27,
            ln2_high=0xB17217F7 / 2.0**32,
            ln2_low=0xD1CF79ABC9E3B398 / 2.0**96,
            terms=12,
            largest_power=2.0**64,
            largest_exponent=800.0,
        ),
        Format(
            dtype=np.dtype(np.float32),
            integer=np.dtype(np.int32),
            mantissa=23,
            low=12,
            ln2_high=0x58B9 / 2.0**15,
            ln2_low=1.428606820309417e-6,
            terms=6,
            largest_power=2.0**34,
            largest_exponent=120.0,
        ),
    )
}


def format_of(x: ir.Value) -> Format:
    """The format of an f32 or f64 value."""
    return _FORMATS[type_of(x).dtype]


def polynomial(x: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
    """The sum of the coefficients times powers of ``x``, by Horner's rule."""
    total = full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = ops.add(ops.mul(total, x), full_like(x, c))
    return total


def exact_sum(a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    """A sum and its rounding error."""
    total = ops.add(a, b)
    part = ops.sub(total, a)
    return total, ops.add(ops.sub(a, ops.sub(total, part)), ops.sub(b, part))


def _halves(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """A value as the sum of two: the upper half of its mantissa's bits, and the lower half."""
    format_ = format_of(x)
    bits = ops.bitcast_convert(x, dtype=format_.integer)
    upper = ops.and_(bits, full_like(bits, -(1 << format_.low)))
    high = ops.bitcast_convert(upper, dtype=format_.dtype)
    return high, ops.sub(x, high)


def exact_product(a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    """A product and its rounding error."""
    rounded = ops.mul(a, b)
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    lost = ops.sub(ops.mul(a1, b1), rounded)
    for left, right in ((a1, b2), (a2, b1), (a2, b2)):
        lost = ops.add(lost, ops.mul(left, right))
    return rounded, lost


def logarithm(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The natural logarithm of a positive finite number, in two parts."""
    format_, info = format_of(x), np.finfo(type_of(x).dtype)
    bits = ops.bitcast_convert(x, dtype=format_.integer)
    # The bits of a subnormal number count its units, which are powers of two. Arithmetic might
    # flush it to zero.
    is_subnormal = ops.lt(bits, full_like(bits, 1 << format_.mantissa))
    units = ops.bitcast_convert(convert(bits, format_.dtype), dtype=format_.integer)
    bits = ops.select(is_subnormal, units, bits)
    shift = ops.select(is_subnormal, full_like(x, int(info.nmant - info.minexp)), full_like(x, 0))
    # The exponent for which the mantissa is around 1, from sqrt(1/2) to sqrt(2).
    root_half = int(np.array(math.sqrt(0.5), format_.dtype).view(format_.integer))
    offset = ops.sub(bits, full_like(bits, root_half))
    places = full_like(bits, format_.mantissa)
    exponent = ops.shift_right_arithmetic(offset, places)
    scaled = ops.sub(bits, ops.shift_left(exponent, places))
    mantissa = ops.bitcast_convert(scaled, dtype=format_.dtype)
    one = full_like(mantissa, 1)
    excess, total = ops.sub(mantissa, one), ops.add(mantissa, one)
    total_lost = ops.sub(mantissa, ops.sub(total, one))
    s = ops.div(excess, total)
    back, back_lost = exact_product(s, total)
    rest = ops.sub(ops.sub(ops.sub(excess, back), back_lost), ops.mul(s, total_lost))
    s_low = ops.div(rest, total)
    # 2 atanh(s) = 2 s + 2 s**3 / 3 + ...: the first two terms in two parts, the others in one.
    square, square_low = exact_product(s, s)
    square_low = ops.add(square_low, ops.mul(ops.add(s, s), s_low))
    cube, cube_low = exact_product(square, s)
    cube_low = ops.add(cube_low, ops.add(ops.mul(square_low, s), ops.mul(square, s_low)))
    factor = float(format_.dtype.type(2 / 3))
    two_thirds = full_like(s, factor)
    third, third_low = exact_product(cube, two_thirds)
    missing = full_like(s, float(Fraction(2, 3) - Fraction(factor)))
    third_low = ops.add(third_low, ops.add(ops.mul(cube_low, two_thirds), ops.mul(cube, missing)))
    series = tuple(2 / (2 * k + 5) for k in range(format_.terms - 1))
    tail = ops.mul(ops.mul(cube, square), polynomial(square, series))
    high, lost = exact_sum(ops.add(s, s), third)
    low = ops.add(lost, ops.add(ops.add(s_low, s_low), ops.add(third_low, tail)))
    count = ops.sub(convert(exponent, format_.dtype), shift)
    low = ops.add(low, ops.mul(count, full_like(s, format_.ln2_low)))
    high, lost = exact_sum(ops.mul(count, full_like(s, format_.ln2_high)), high)
    low = ops.add(low, lost)
    total = ops.add(high, low)
    return total, ops.sub(low, ops.sub(total, high))


def positive_power(x: ir.Value, y: ir.Value, exp: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """The power of a positive finite number, exp(y log(x)), with y log(x) in double length."""
    format_ = format_of(x)
    limit = full_like(y, format_.largest_power)
    y = ops.clamp(ops.neg(limit), y, limit)
    high, low = logarithm(x)
    exponent, lost = exact_product(high, y)
    lost = ops.add(lost, ops.mul(low, y))
    power = exp(exponent)
    # Elsewhere the power is 0 or infinite, and the correction would make it nan.
    is_plain = ops.lt(ops.abs(exponent), full_like(exponent, format_.largest_exponent))
    return ops.select(
        ops.and_(is_plain, ops.is_finite(power)), ops.add(power, ops.mul(power, lost)), power
    )
