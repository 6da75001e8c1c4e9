"""Functions of f32 where there is no f64 to compute them in: f32 and 32-bit integers only.

`special_functions` holds their wide forms, and the edges that both share.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from gnomon.backends.iree.legalize.double_length import exact_product, exact_sum, polynomial
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir

__all__ = ["cosine", "cube_root", "log1p_parts", "sine", "tangent"]

_F32 = np.dtype(np.float32)
_I32 = np.dtype(np.int32)
_U32 = np.dtype(np.uint32)

# ------------------------------------------------------------------------------- sine and cosine

# 2/pi in words of 32 bits, behind a word of zeros: enough for the largest f32.
_TWO_OVER_PI = (
    0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB,
)  # fmt: skip
_SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(5))
_COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(6))


def _shift(x: ir.Value, count: int) -> ir.Value:
    """To the left by ``count`` bits, to the right where it is negative."""
    if count < 0:
        return ops.shift_right_logical(x, full_like(x, -count))
    return ops.shift_left(x, full_like(x, count))


def _upper_word(a: ir.Value, b: ir.Value) -> ir.Value:
    """The upper 32 of the 64 bits of a product of u32 numbers."""
    mask = full_like(a, 0xFFFF)
    (a1, a0), (b1, b0) = ((_shift(x, -16), ops.and_(x, mask)) for x in (a, b))
    first = ops.add(ops.mul(a1, b0), _shift(ops.mul(a0, b0), -16))
    second = ops.add(ops.mul(a0, b1), ops.and_(first, mask))
    return ops.add(ops.mul(a1, b1), ops.add(_shift(first, -16), _shift(second, -16)))


def _bits_of_two_over_pi(first: ir.Value) -> list[ir.Value]:
    """Three words of 2/pi from a bit on, counted in `_TWO_OVER_PI`."""
    word, shift = _shift(first, -5), ops.and_(first, full_like(first, 31))
    aligned = []
    for k in range(4):
        chosen = full_like(first, _TWO_OVER_PI[k])
        for i in range(1, len(_TWO_OVER_PI) - 3):
            is_there = ops.eq(word, full_like(word, i))
            chosen = ops.select(is_there, full_like(first, _TWO_OVER_PI[i + k]), chosen)
        aligned.append(chosen)
    # By one and the rest: a shift by all 32 bits has no meaning on some machines.
    rest = ops.sub(full_like(shift, 31), shift)
    return [
        ops.or_(ops.shift_left(high, shift), ops.shift_right_logical(_shift(low, -1), rest))
        for high, low in itertools.pairwise(aligned)
    ]


def _quarter_turns(magnitude: ir.Value) -> tuple[ir.Value, ir.Value]:
    """How many quarter turns an angle of at least 1/2 is, modulo 4, and the angle that is left.

    M. Payne and R. Hanek, Radian reduction for trigonometric functions, 1983: the angle is an
    integer times a power of 2, by which only some bits of 2/pi count. Those in front of them give
    whole turns; 96 of them leave 70 bits behind the point, and no f32 comes nearer to a multiple of
    pi/2 than 31 of them show.
    """
    bits = ops.bitcast_convert(magnitude, dtype=_U32)
    exponent = _shift(bits, -23)
    mantissa = ops.or_(ops.and_(bits, full_like(bits, 0x7FFFFF)), full_like(bits, 0x800000))
    # The lowest bit of the mantissa is 2**(exponent - 150); two bits are for the quadrant.
    high, middle, low = _bits_of_two_over_pi(ops.sub(exponent, full_like(bits, 120)))
    lower = ops.mul(mantissa, middle)
    second = ops.add(lower, _upper_word(mantissa, low))
    carry = convert(ops.lt(second, lower), _U32)
    first = ops.add(ops.mul(mantissa, high), ops.add(_upper_word(mantissa, middle), carry))

    # The fraction as 64 bits; from a half on the next quadrant is the nearer one.
    high = ops.or_(_shift(first, 2), _shift(second, -30))
    low = _shift(second, 2)
    is_above = ops.ge(high, full_like(high, 1 << 31))
    quadrant = ops.add(_shift(first, -30), convert(is_above, _U32))
    borrow = convert(ops.eq(low, full_like(low, 0)), _U32)
    high = ops.select(is_above, ops.add(ops.not_(high), borrow), high)
    low = ops.select(is_above, ops.sub(full_like(low, 0), low), low)
    fraction = ops.add(_scaled(high, -32), _scaled(low, -64))
    angle = ops.mul(fraction, full_like(fraction, math.pi / 2))
    return ops.and_(quadrant, full_like(quadrant, 3)), ops.select(is_above, ops.neg(angle), angle)


def _scaled(word: ir.Value, exponent: int) -> ir.Value:
    value = convert(word, _F32)
    return ops.mul(value, full_like(value, 2.0**exponent))


def _sine_and_cosine(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Of an f32 value, in f32, within 3 units in the last place for every argument."""
    magnitude = ops.abs(x)
    is_small = ops.le(magnitude, full_like(x, 0.5))
    quadrant, angle = _quarter_turns(magnitude)
    quadrant = ops.select(is_small, full_like(quadrant, 0), quadrant)
    angle = ops.select(is_small, magnitude, angle)
    square = ops.mul(angle, angle)
    sine, cosine = ops.mul(angle, polynomial(square, _SINE)), polynomial(square, _COSINE)

    def has(value: ir.Value, bit: int) -> ir.Value:
        return ops.ne(ops.and_(value, full_like(value, bit)), full_like(value, 0))

    is_odd = has(quadrant, 1)
    below = ops.ne(has(quadrant, 2), ops.lt(x, full_like(x, 0)))
    left = has(ops.add(quadrant, full_like(quadrant, 1)), 2)
    values = []
    for value, is_negative in (
        (ops.select(is_odd, cosine, sine), below),
        (ops.select(is_odd, sine, cosine), left),
    ):
        signed = ops.select(is_negative, ops.neg(value), value)
        values.append(ops.select(ops.is_finite(x), signed, full_like(x, np.nan)))
    return values[0], values[1]


def sine(x: ir.Value) -> ir.Value:
    """Of an f32 value; -0 of -0."""
    is_tiny = ops.lt(ops.abs(x), full_like(x, 2.0**-13))
    return ops.select(is_tiny, x, _sine_and_cosine(x)[0])


def cosine(x: ir.Value) -> ir.Value:
    """Of an f32 value."""
    return _sine_and_cosine(x)[1]


def tangent(x: ir.Value) -> ir.Value:
    """Of an f32 value, within 5 units in the last place; -0 of -0."""
    is_tiny = ops.lt(ops.abs(x), full_like(x, 2.0**-13))
    return ops.select(is_tiny, x, ops.div(*_sine_and_cosine(x)))


# ------------------------------------------------------------------------------------- cube root

# The bits of an f32 divided by 3 are near those of its cube root, but for this.
_CBRT_BITS = 0x2A5137A0


def cube_root(x: ir.Value) -> ir.Value:
    """Of a positive normal f32 number."""
    bits = ops.bitcast_convert(x, dtype=_I32)
    third = ops.div(bits, full_like(bits, 3))
    root = ops.bitcast_convert(ops.add(third, full_like(bits, _CBRT_BITS)), dtype=_F32)
    two = full_like(root, 2)
    for _ in range(3):
        # Halley's step, as a small correction of the root; no cube, which may overflow.
        other = ops.div(x, ops.mul(root, root))
        change = ops.div(ops.sub(other, root), ops.add(ops.mul(two, root), other))
        root = ops.add(root, ops.mul(root, change))
    return root


# ------------------------------------------------------------------------- logarithm near to one


def log1p_parts(real: ir.Value, imaginary: ir.Value) -> ir.Value:
    """The logarithm of ``|1 + z|`` for the f32 parts of ``z``."""
    one, half, zero = (full_like(real, value) for value in (1, 0.5, 0))
    shifted, height = ops.abs(ops.add(real, one)), ops.abs(imaginary)
    larger, smaller = ops.max(shifted, height), ops.min(shifted, height)
    # Where squares overflow, or 1 + z is small, which is exact then: by their ratio.
    is_far = ops.or_(
        ops.gt(larger, full_like(larger, 2.0**30)), ops.lt(larger, full_like(larger, 0.5))
    )
    ratio = ops.div(smaller, larger)
    ratio = ops.select(ops.eq(larger, zero), zero, ratio)
    far = ops.add(ops.log(larger), ops.mul(half, ops.log1p(ops.mul(ratio, ratio))))
    real, imaginary = (ops.select(is_far, zero, part) for part in (real, imaginary))
    # |1 + z|² - 1 is x² + 2x + y², of which the terms nearly cancel near the circle.
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
