"""Sines and cosines, computed in the argument's own format and integers of its width.

M. Payne and R. Hanek, Radian reduction for trigonometric functions, 1983: a float is an integer
times a power of 2, so only some bits of 2/pi affect its angle modulo a turn. The bits before those
contribute whole turns. A product with three words of 2/pi leaves two words of the angle, which is
enough: no float is closer to a multiple of pi/2 than 2**-31 in f32 and 2**-61 in f64.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple, TypeAlias

import numpy as np

from gnomon.backends.functions.double_length import exact_product, polynomial
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["cosine", "sine", "tangent"]

Double: TypeAlias = "tuple[ir.Value, ir.Value]"
"""A value as the unevaluated sum of two numbers, the larger one first."""


def _two_over_pi(bits: int) -> int:
    """2/pi times a power of 2, by Machin's formula."""
    spare = 64
    one = 1 << (bits + spare)

    def arc_tangent(n: int) -> int:
        """Arc tangent of 1/n, scaled by ``one``."""
        total = term = one // n
        for k in itertools.count(3, 2):
            term //= -n * n
            if term in (0, -1):
                return total
            total += term // k
        raise AssertionError

    pi = 4 * (4 * arc_tangent(5) - arc_tangent(239))
    return ((2 << (2 * (bits + spare))) // pi) >> spare


class _Format(NamedTuple):
    """A floating-point format, and the constants that the reduction needs.

    Attributes:
      dtype, word: the format, and the unsigned integer of its width.
      bits: the number of bits in a word.
      mantissa: the number of bits of the mantissa that are stored.
      words: 2/pi in words, after a word of zeros; enough words for the largest number.
      sine, cosine: the coefficients of their series.
      quarter: a quarter of a turn, pi/2, as the sum of two numbers.
    """

    dtype: np.dtype
    word: np.dtype
    bits: int
    mantissa: int
    words: tuple[int, ...]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]
    quarter: tuple[float, float]

    @staticmethod
    def of(dtype: np.dtype, terms: int) -> _Format:
        """The format of a NumPy dtype; its series have ``terms`` terms."""
        info = np.finfo(dtype)
        bits = 8 * dtype.itemsize
        quarter = float(dtype.type(math.pi / 2))
        # Words up to the largest exponent, two more for the angle, and one that the shift reaches.
        count = (int(info.maxexp) + bits - 1) // bits + 3
        whole = _two_over_pi(count * bits)
        words = [(whole >> (bits * (count - 1 - k))) % (1 << bits) for k in range(count)]
        return _Format(
            dtype,
            np.dtype(f"u{dtype.itemsize}"),
            bits,
            int(info.nmant),
            (0, *words),
            tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(terms)),
            tuple((-1.0) ** k / math.factorial(2 * k) for k in range(terms + 1)),
            (quarter, math.pi / 2 - quarter if bits == 32 else 6.123233995736766e-17),
        )


_FORMATS = {
    format_.dtype: format_
    for format_ in (
        _Format.of(np.dtype(np.float32), 5),
        _Format.of(np.dtype(np.float64), 9),
    )
}


def _shift(x: ir.Value, count: int) -> ir.Value:
    """``x`` shifted left by ``count`` bits, or right if ``count`` is negative."""
    if count < 0:
        return ops.shift_right_logical(x, full_like(x, -count))
    return ops.shift_left(x, full_like(x, count))


def _upper_word(a: ir.Value, b: ir.Value) -> ir.Value:
    """The upper word of the product of two words."""
    half = 4 * type_of(a).dtype.itemsize
    mask = full_like(a, (1 << half) - 1)
    (a1, a0), (b1, b0) = ((_shift(x, -half), ops.and_(x, mask)) for x in (a, b))
    first = ops.add(ops.mul(a1, b0), _shift(ops.mul(a0, b0), -half))
    second = ops.add(ops.mul(a0, b1), ops.and_(first, mask))
    return ops.add(ops.mul(a1, b1), ops.add(_shift(first, -half), _shift(second, -half)))


def _bits_of_two_over_pi(format_: _Format, first: ir.Value) -> list[ir.Value]:
    """The three words of 2/pi that begin at bit ``first`` of the format's words."""
    last = full_like(first, format_.bits - 1)
    word = _shift(first, -(format_.bits.bit_length() - 1))
    shift = ops.and_(first, last)
    aligned = []
    for k in range(4):
        chosen = full_like(first, format_.words[k])
        for i in range(1, len(format_.words) - 3):
            is_there = ops.eq(word, full_like(word, i))
            chosen = ops.select(is_there, full_like(first, format_.words[i + k]), chosen)
        aligned.append(chosen)
    # The right shift is by one and then by the rest, since a shift by all the bits of a word is
    # undefined on some machines.
    rest = ops.sub(last, shift)
    return [
        ops.or_(ops.shift_left(high, shift), ops.shift_right_logical(_shift(low, -1), rest))
        for high, low in itertools.pairwise(aligned)
    ]


def _quarter_turns(format_: _Format, magnitude: ir.Value) -> tuple[ir.Value, Double]:
    """The quarter turns in an angle of at least 1/2, modulo 4, and the remaining angle."""
    width, mantissa_bits = format_.bits, format_.mantissa
    bits = ops.bitcast_convert(magnitude, dtype=format_.word)
    exponent = _shift(bits, -mantissa_bits)
    stored = ops.and_(bits, full_like(bits, (1 << mantissa_bits) - 1))
    mantissa = ops.or_(stored, full_like(bits, 1 << mantissa_bits))
    # The position in `words` of the first bit of 2/pi that affects the quadrant.
    bias = int(np.finfo(format_.dtype).maxexp) - 1
    start = ops.sub(exponent, full_like(bits, bias + mantissa_bits + 2 - width))
    high, middle, low = _bits_of_two_over_pi(format_, start)
    lower = ops.mul(mantissa, middle)
    second = ops.add(lower, _upper_word(mantissa, low))
    carry = convert(ops.lt(second, lower), format_.word)
    first = ops.add(ops.mul(mantissa, high), ops.add(_upper_word(mantissa, middle), carry))

    # The fraction of a quarter turn in two words; from one half on, the next quadrant is nearer.
    high = ops.or_(_shift(first, 2), _shift(second, 2 - width))
    low = _shift(second, 2)
    is_above = ops.ge(high, full_like(high, 1 << (width - 1)))
    quadrant = ops.add(_shift(first, 2 - width), convert(is_above, format_.word))
    borrow = convert(ops.eq(low, full_like(low, 0)), format_.word)
    high = ops.select(is_above, ops.add(ops.not_(high), borrow), high)
    low = ops.select(is_above, ops.sub(full_like(low, 0), low), low)
    # The leading bits of the first word, which the format holds exactly, and the rest.
    mask = full_like(high, -(1 << (width - mantissa_bits - 1)) % (1 << width))
    top = ops.and_(high, mask)
    whole = _scaled(format_, top, -width)
    rest = ops.add(_scaled(format_, ops.sub(high, top), -width), _scaled(format_, low, -2 * width))
    quarter = format_.quarter[0]
    product, lost = exact_product(whole, full_like(whole, quarter))
    lost = ops.add(lost, ops.mul(whole, full_like(whole, format_.quarter[1])))
    lost = ops.add(lost, ops.mul(rest, full_like(rest, quarter)))
    angle = ops.add(product, lost)
    rest = ops.sub(lost, ops.sub(angle, product))
    angle, rest = (ops.select(is_above, ops.neg(v), v) for v in (angle, rest))
    return ops.and_(quadrant, full_like(quadrant, 3)), (angle, rest)


def _scaled(format_: _Format, word: ir.Value, exponent: int) -> ir.Value:
    value = convert(word, format_.dtype)
    return ops.mul(value, full_like(value, 2.0**exponent))


def _sine_and_cosine(x: ir.Value) -> tuple[Double, Double]:
    """Sine and cosine of any f32 or f64 value, each with its rounding error."""
    format_ = _FORMATS[type_of(x).dtype]
    magnitude = ops.abs(x)
    is_small = ops.le(magnitude, full_like(x, 0.5))
    quadrant, (angle, rest) = _quarter_turns(format_, magnitude)
    quadrant = ops.select(is_small, full_like(quadrant, 0), quadrant)
    angle = ops.select(is_small, magnitude, angle)
    rest = ops.select(is_small, full_like(rest, 0), rest)
    square, one = ops.mul(angle, angle), full_like(angle, 1)
    tail = ops.mul(ops.mul(angle, square), polynomial(square, format_.sine[1:]))
    slope = ops.sub(one, ops.mul(square, full_like(square, 0.5)))
    sine_ = _sum(angle, ops.add(tail, ops.mul(rest, slope)))
    below_one = ops.mul(square, polynomial(square, format_.cosine[1:]))
    cosine_ = _sum(one, ops.sub(below_one, ops.mul(angle, rest)))

    def has(value: ir.Value, bit: int) -> ir.Value:
        return ops.ne(ops.and_(value, full_like(value, bit)), full_like(value, 0))

    is_odd = has(quadrant, 1)
    below = ops.ne(has(quadrant, 2), ops.lt(x, full_like(x, 0)))
    left = has(ops.add(quadrant, full_like(quadrant, 1)), 2)

    def chosen(first: Double, second: Double, is_negative: ir.Value) -> Double:
        values = (ops.select(is_odd, a, b) for a, b in zip(first, second, strict=True))
        high, low = (ops.select(is_negative, ops.neg(v), v) for v in values)
        return ops.select(ops.is_finite(x), high, full_like(x, np.nan)), low

    return chosen(cosine_, sine_, below), chosen(sine_, cosine_, left)


def _sum(larger: ir.Value, smaller: ir.Value) -> Double:
    total = ops.add(larger, smaller)
    return total, ops.sub(smaller, ops.sub(total, larger))


def _identity_if_tiny(x: ir.Value, value: ir.Value) -> ir.Value:
    """``value``, or ``x`` where ``x`` is so small that both are equal; this preserves -0."""
    is_tiny = ops.lt(
        ops.abs(x), full_like(x, 2.0 ** -(_FORMATS[type_of(x).dtype].mantissa // 2 + 3))
    )
    return ops.select(is_tiny, x, value)


def sine(x: ir.Value) -> ir.Value:
    """Sine of an f32 or f64 value."""
    return _identity_if_tiny(x, _sine_and_cosine(x)[0][0])


def cosine(x: ir.Value) -> ir.Value:
    """Cosine of an f32 or f64 value."""
    return _sine_and_cosine(x)[1][0]


def tangent(x: ir.Value) -> ir.Value:
    """Tangent of an f32 or f64 value."""
    (high, low), (below, below_low) = _sine_and_cosine(x)
    quotient = ops.div(high, below)
    lost = ops.sub(low, ops.mul(quotient, below_low))
    return _identity_if_tiny(x, ops.add(quotient, ops.div(lost, below)))
