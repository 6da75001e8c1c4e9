"""Exponentials and hyperbolic functions within two units in the last place.

IREE's own lose digits: 5 units of exp next to overflow, 67 of exp2, 4 of tanh; and exp2(1024) of
f64 is finite. Here an exponential is ``2**n (1 + t)`` with a small ``t``, a polynomial of what is
left of the argument, and other functions are made of these parts before digits are lost. Nothing
is wider than the format, so this serves targets without f64 too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gnomon.backends.iree.legalize.functions.double_length import format_of, polynomial
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = [
    "compilers_exp", "cosh", "exp", "exp2", "expm1", "logistic", "odd", "sinh", "tanh",
    "with_sign_of",
]  # fmt: skip


Emit: TypeAlias = "Callable[[ir.Value], ir.Value]"


@dataclass(frozen=True)
class _Tables:
    """Polynomials of a format: interpolations at Chebyshev's points, the lowest power first.

    Attributes:
        exp: ``(exp(r) - 1 - r) / r**2`` for ``r`` within half of log(2).
        sinh: ``(sinh(x) / x - 1) / x**2`` by ``x**2`` up to 1.
        tanh: ``(tanh(x) / x - 1) / x**2`` by ``x**2`` up to 0.36.
    """

    exp: tuple[float, ...]
    sinh: tuple[float, ...]
    tanh: tuple[float, ...]


_TABLES = {
    np.dtype(np.float32): _Tables(
        exp=(
            0.500000001353873, 0.16666666681704215, 0.04166646419740569, 0.008333310844647862,
            0.0013933730715792083, 0.00019891080463998843,
        ),
        sinh=(
            0.16666666646842135, 0.00833333967591706, 0.00019838101968683888,
            2.8062802582276946e-06,
        ),
        tanh=(
            -0.33333333231207923, 0.133333128668618, -0.05396155178134269, 0.02178832199710852,
            -0.008410070801530736, 0.002370765640497788,
        ),
    ),
    np.dtype(np.float64): _Tables(
        exp=tuple(1 / math.factorial(k) for k in range(2, 14)),
        sinh=(
            0.16666666666666666, 0.008333333333333333, 0.00019841269841269773,
            2.755731922404034e-06, 2.505210836405804e-08, 1.6059048396350562e-10,
            7.646625361656657e-13, 2.8445264169895285e-15,
        ),
        tanh=(
            -0.3333333333333333, 0.13333333333333205, -0.05396825396808531, 0.021869488527368107,
            -0.008863235292803289, 0.0035921242500086925, -0.0014557958855734635,
            0.0005897680994688268, -0.00023795201383924994, 9.332432233847448e-05,
            -3.2086614037935994e-05, 6.934046420988954e-06,
        ),
    ),
}  # fmt: skip


def odd(x: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
    """``x + x**3 P(x**2)``."""
    square = ops.mul(x, x)
    return ops.add(x, ops.mul(ops.mul(x, square), polynomial(square, coefficients)))


def with_sign_of(magnitude: ir.Value, x: ir.Value) -> ir.Value:
    """``magnitude``, which is not negative, with the sign of ``x``, that of -0 too."""
    format_ = format_of(x)
    sign = full_like(ops.bitcast_convert(x, dtype=format_.integer), np.iinfo(format_.integer).min)
    bits = ops.and_(ops.bitcast_convert(x, dtype=format_.integer), sign)
    whole = ops.or_(ops.bitcast_convert(magnitude, dtype=format_.integer), bits)
    return ops.bitcast_convert(whole, dtype=format_.dtype)


def _largest_below(dtype: np.dtype, bound: float) -> float:
    """The largest number of a format that is not above a bound."""
    value = dtype.type(bound)
    return float(value if float(value) <= bound else np.nextafter(value, dtype.type(-np.inf)))


def _limits(dtype: np.dtype) -> tuple[float, float]:
    """The logarithms of the smallest normal number and of the largest one."""
    info = np.finfo(dtype)
    largest = math.log(2 - float(info.eps)) + (info.maxexp - 1) * math.log(2)
    return -_largest_below(dtype, -info.minexp * math.log(2)), _largest_below(dtype, largest)


def _grown(r: ir.Value) -> ir.Value:
    """``exp(r) - 1`` of a number within half of log(2)."""
    square = ops.mul(r, r)
    return ops.add(r, ops.mul(square, polynomial(r, _TABLES[type_of(r).dtype].exp)))


def _parts(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """``n`` and ``t`` of a finite number of moderate size: ``exp(x) = 2**n (1 + t)``."""
    format_ = format_of(x)
    half = full_like(x, 0.5)
    n = ops.floor(ops.add(ops.mul(x, full_like(x, 1 / math.log(2))), half))
    r = ops.sub(x, ops.mul(n, full_like(x, format_.ln2_high)))
    return n, _grown(ops.sub(r, ops.mul(n, full_like(x, format_.ln2_low))))


def _scaled(value: ir.Value, n: ir.Value) -> ir.Value:
    """``2**n`` times a number next to 1, where that is a normal number."""
    format_ = format_of(value)
    count = convert(n, format_.integer)
    shifted = ops.shift_left(count, full_like(count, format_.mantissa))
    bits = ops.add(ops.bitcast_convert(value, dtype=format_.integer), shifted)
    return ops.bitcast_convert(bits, dtype=format_.dtype)


def _within(x: ir.Value, low: float, high: float) -> ir.Value:
    """``x``, or the nearer end of an interval; an end for nan."""
    x = ops.select(ops.lt(x, full_like(x, high)), x, full_like(x, high))
    return ops.select(ops.gt(x, full_like(x, low)), x, full_like(x, low))


def _bounded(x: ir.Value, value: ir.Value, low: float, high: float) -> ir.Value:
    """``value`` where ``x`` is in an interval, 0 below, infinity above, and nan for nan."""
    value = ops.select(ops.lt(x, full_like(x, low)), full_like(x, 0), value)
    value = ops.select(ops.gt(x, full_like(x, high)), full_like(x, np.inf), value)
    return ops.select(ops.ne(x, x), full_like(x, np.nan), value)


def exp(x: ir.Value) -> ir.Value:
    """Of an f32 or f64 value; what is below the smallest normal number is 0."""
    low, high = _limits(type_of(x).dtype)
    n, t = _parts(_within(x, low, high))
    return _bounded(x, _scaled(ops.add(full_like(t, 1), t), n), low, high)


def exp2(x: ir.Value) -> ir.Value:
    """Of an f32 or f64 value; exact at whole numbers."""
    info = np.finfo(type_of(x).dtype)
    low, high = (
        float(info.minexp),
        float(np.nextafter(info.dtype.type(info.maxexp), info.dtype.type(0))),
    )
    inside = _within(x, low, high)
    n = ops.floor(ops.add(inside, full_like(x, 0.5)))
    t = _grown(ops.mul(ops.sub(inside, n), full_like(x, math.log(2))))
    return _bounded(x, _scaled(ops.add(full_like(t, 1), t), n), low, high)


def expm1(x: ir.Value) -> ir.Value:
    """Of an f32 or f64 value."""
    info = np.finfo(type_of(x).dtype)
    half = full_like(x, 0.5)
    _, high = _limits(info.dtype)
    # Below this the result rounds to -1.
    n, t = _parts(_within(x, -(info.nmant + 3) * math.log(2), high))
    # By half a power of 2, which does not overflow: 2**n (1 + t) - 1.
    power = _scaled(half, n)
    value = ops.add(ops.mul(power, t), ops.sub(power, half))
    value = ops.add(value, value)
    value = ops.select(ops.eq(n, full_like(n, 0)), t, value)
    value = ops.select(ops.gt(x, full_like(x, high)), full_like(x, np.inf), value)
    value = ops.select(ops.ne(x, x), full_like(x, np.nan), value)
    is_tiny = ops.lt(ops.abs(x), full_like(x, float(info.eps) / 4))
    return ops.select(is_tiny, x, value)


# Four times exp(x - _SHIFT) _SHIFT_REST is exp(x): the shift is two logarithms of 2 but for a rest,
# in so few bits that it is subtracted exactly from numbers of f32 next to the largest exponent.
_SHIFT = 2 * 0.693359375
_SHIFT_REST = math.exp(_SHIFT - 2 * math.log(2))
_TOP = 87.0


def compilers_exp(x: ir.Value) -> ir.Value:
    """Of an f32 value, by the compiler's code, which is right within one unit up to 88.3.

    It counts as one op in the size of a kernel, and compiles in a third of the time. Of an f64
    value, for which the compiler calls a library, `exp`.
    """
    if type_of(x).dtype != np.float32:
        return exp(x)
    is_top = ops.gt(x, full_like(x, _TOP))
    power = ops.exp(ops.select(is_top, ops.sub(x, full_like(x, _SHIFT)), x))
    return ops.select(is_top, ops.mul(power, full_like(x, 4 * _SHIFT_REST)), power)


def logistic(x: ir.Value, exp: Emit = exp) -> ir.Value:
    """Of an f32 or f64 value: of the exponential that does not overflow."""
    one, zero = full_like(x, 1), full_like(x, 0)
    decayed = exp(ops.neg(ops.abs(x)))
    is_negative, total = ops.lt(x, zero), ops.add(one, decayed)
    value = ops.div(ops.select(is_negative, decayed, one), total)
    # The quotient is corrected by what the sum has lost.
    lost = ops.sub(decayed, ops.sub(total, one))
    inverse = ops.select(is_negative, ops.sub(one, value), value)
    return ops.sub(value, ops.mul(ops.mul(value, inverse), lost))


def _half_exp(size: ir.Value, exp: Emit) -> ir.Value:
    """Half the exponential of a number that is not negative, infinite only where that is."""
    dtype = type_of(size).dtype
    if dtype == np.float32:
        is_top, shift, rest = ops.gt(size, full_like(size, _TOP)), _SHIFT, _SHIFT_REST
    else:
        # A logarithm of 2 in 33 bits.
        format_ = format_of(size)
        is_top, shift = ops.gt(size, full_like(size, 700.0)), 2 * format_.ln2_high
        rest = math.exp(-2 * format_.ln2_low)
    power = exp(ops.select(is_top, ops.sub(size, full_like(size, shift)), size))
    factor = ops.select(is_top, full_like(size, 2 * rest), full_like(size, 0.5))
    return ops.mul(power, factor)


def sinh(x: ir.Value, exp: Emit = exp) -> ir.Value:
    """Of an f32 or f64 value."""
    size = ops.abs(x)
    half = _half_exp(size, exp)
    far = ops.sub(half, ops.div(full_like(x, 0.25), half))
    near = odd(size, _TABLES[type_of(x).dtype].sinh)
    return with_sign_of(ops.select(ops.lt(size, full_like(x, 1)), near, far), x)


def cosh(x: ir.Value, exp: Emit = exp) -> ir.Value:
    """Of an f32 or f64 value."""
    half = _half_exp(ops.abs(x), exp)
    return ops.add(half, ops.div(full_like(x, 0.25), half))


def tanh(x: ir.Value, exp: Emit = exp) -> ir.Value:
    """Of an f32 or f64 value."""
    one, size = full_like(x, 1), ops.abs(x)
    grown = ops.add(exp(ops.add(size, size)), one)
    far = ops.sub(one, ops.div(full_like(x, 2), grown))
    near = odd(size, _TABLES[type_of(x).dtype].tanh)
    return with_sign_of(ops.select(ops.lt(size, full_like(x, 0.6)), near, far), x)
