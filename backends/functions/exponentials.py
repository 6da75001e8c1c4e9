"""Exponentials and hyperbolic functions within two units in the last place.

IREE's own lose digits: exp is off by 5 units near overflow, exp2 by 67, tanh by 4, and exp2(1024)
of f64 is finite. Here an exponential is ``2**n (1 + t)``, where the small ``t`` is a polynomial in
the reduced argument, and the other functions are computed from ``n`` and ``t`` before adding 1
rounds them. No format is wider than the argument's, so this also serves targets without f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from gnomon.backends.functions.double_length import format_of, polynomial
from gnomon.backends.functions.signs import with_sign_of
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = [
    "compilers_decay", "compilers_exp", "cosh", "exp", "exp2", "expm1", "logistic", "odd", "sinh",
    "tanh",
]  # fmt: skip


Emit: TypeAlias = "Callable[[ir.Value], ir.Value]"


class _Tables(NamedTuple):
    """Polynomials for a format: interpolations at Chebyshev's points, the lowest power first.

    Attributes:
      exp: ``(exp(r) - 1 - r) / r**2`` in ``r``, for ``r`` up to log(2) / 2 in absolute value; in
        f64 its Taylor polynomial.
      sinh: ``(sinh(x) / x - 1) / x**2`` in ``x**2``, up to 1.
      tanh: ``(tanh(x) / x - 1) / x**2`` in ``x**2``, up to 0.36.
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


def _largest_below(dtype: np.dtype, bound: float) -> float:
    """The largest number of a format that is at most a bound."""
    value = dtype.type(bound)
    return float(value if float(value) <= bound else np.nextafter(value, dtype.type(-np.inf)))


def _limits(dtype: np.dtype) -> tuple[float, float]:
    """The logarithms of the smallest normal number and of the largest one."""
    info = np.finfo(dtype)
    largest = math.log(2 - float(info.eps)) + (info.maxexp - 1) * math.log(2)
    return -_largest_below(dtype, -info.minexp * math.log(2)), _largest_below(dtype, largest)


def _grown(r: ir.Value) -> ir.Value:
    """``exp(r) - 1`` for ``r`` up to log(2) / 2 in absolute value."""
    square = ops.mul(r, r)
    return ops.add(r, ops.mul(square, polynomial(r, _TABLES[type_of(r).dtype].exp)))


def _parts(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """``n`` and ``t`` such that ``exp(x) = 2**n (1 + t)``, for a finite ``x`` of moderate size."""
    format_ = format_of(x)
    half = full_like(x, 0.5)
    n = ops.floor(ops.add(ops.mul(x, full_like(x, 1 / math.log(2))), half))
    r = ops.sub(x, ops.mul(n, full_like(x, format_.ln2_high)))
    return n, _grown(ops.sub(r, ops.mul(n, full_like(x, format_.ln2_low))))


def _scaled(value: ir.Value, n: ir.Value) -> ir.Value:
    """``2**n`` times a number near 1, where the product is a normal number."""
    format_ = format_of(value)
    count = convert(n, format_.integer)
    shifted = ops.shift_left(count, full_like(count, format_.mantissa))
    bits = ops.add(ops.bitcast_convert(value, dtype=format_.integer), shifted)
    return ops.bitcast_convert(bits, dtype=format_.dtype)


def _within(x: ir.Value, low: float, high: float) -> ir.Value:
    """``x`` clamped to an interval; nan becomes one of its ends."""
    x = ops.select(ops.lt(x, full_like(x, high)), x, full_like(x, high))
    return ops.select(ops.gt(x, full_like(x, low)), x, full_like(x, low))


def _bounded(x: ir.Value, value: ir.Value, low: float, high: float) -> ir.Value:
    """``value`` where ``x`` is in an interval, 0 below, infinity above, and nan for nan."""
    value = ops.select(ops.lt(x, full_like(x, low)), full_like(x, 0), value)
    value = ops.select(ops.gt(x, full_like(x, high)), full_like(x, np.inf), value)
    return ops.select(ops.ne(x, x), full_like(x, np.nan), value)


def exp(x: ir.Value) -> ir.Value:
    """Exponential of an f32 or f64 value; 0 where it would be subnormal."""
    low, high = _limits(type_of(x).dtype)
    n, t = _parts(_within(x, low, high))
    return _bounded(x, _scaled(ops.add(full_like(t, 1), t), n), low, high)


def exp2(x: ir.Value) -> ir.Value:
    """Power of 2 of an f32 or f64 value; exact for integers."""
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
    """``exp(x) - 1`` of an f32 or f64 value."""
    info = np.finfo(type_of(x).dtype)
    half = full_like(x, 0.5)
    _, high = _limits(info.dtype)
    # Below this the result rounds to -1.
    n, t = _parts(_within(x, -(info.nmant + 3) * math.log(2), high))
    # 2**n (1 + t) - 1 is computed as twice its half, since 2**n may overflow.
    power = _scaled(half, n)
    value = ops.add(ops.mul(power, t), ops.sub(power, half))
    value = ops.add(value, value)
    value = ops.select(ops.eq(n, full_like(n, 0)), t, value)
    value = ops.select(ops.gt(x, full_like(x, high)), full_like(x, np.inf), value)
    value = ops.select(ops.ne(x, x), full_like(x, np.nan), value)
    is_tiny = ops.lt(ops.abs(x), full_like(x, float(info.eps) / 4))
    return ops.select(is_tiny, x, value)


# exp(x) = 4 exp(x - _SHIFT) _SHIFT_REST. The shift is 2 log(2) rounded to so few bits that the
# subtraction is exact for the f32 numbers above _TOP; the factor corrects the rounding.
_SHIFT = 2 * 0.693359375
_SHIFT_REST = math.exp(_SHIFT - 2 * math.log(2))
_TOP = 87.0
_OVERFLOW = 89.0  # From here on, the power is infinite.


def compilers_exp(x: ir.Value) -> ir.Value:
    """Exponential by the compiler's code for f32, which is within one unit up to 88.3.

    It counts as few ops in the size of a kernel (`long_fusions`), and compiles in a third of the
    time. For an f64 value, for which the compiler would call a library, this is `exp`.

    That code converts to an integer, which has no defined result for nan: where LLVM sees that the
    argument is nan, as in ``exp(x + nan)``, it drops the code. So it gets a number instead of nan.
    """
    if type_of(x).dtype != np.float32:
        return exp(x)
    high = full_like(x, _OVERFLOW)
    size = ops.select(ops.lt(x, high), x, high)
    is_top = ops.gt(size, full_like(x, _TOP))
    power = ops.exp(ops.select(is_top, ops.sub(size, full_like(x, _SHIFT)), size))
    # Adding x returns nan for nan; it is too small to change the other powers.
    top = ops.add(ops.mul(power, full_like(x, 4 * _SHIFT_REST)), x)
    return ops.select(is_top, top, power)


def compilers_decay(x: ir.Value) -> ir.Value:
    """`compilers_exp` of a value that is nowhere positive, in fewer ops."""
    if type_of(x).dtype != np.float32:
        return exp(x)
    is_nan = ops.ne(x, x)
    return ops.select(is_nan, x, ops.exp(ops.select(is_nan, full_like(x, 0), x)))


def logistic(x: ir.Value, exp: Emit = exp) -> ir.Value:
    """``1 / (1 + exp(-x))`` of an f32 or f64 value, from the exponential that is at most 1."""
    one, zero = full_like(x, 1), full_like(x, 0)
    decayed = exp(ops.neg(ops.abs(x)))
    is_negative, total = ops.lt(x, zero), ops.add(one, decayed)
    value = ops.div(ops.select(is_negative, decayed, one), total)
    # The quotient is corrected for the rounding error of the sum.
    lost = ops.sub(decayed, ops.sub(total, one))
    inverse = ops.select(is_negative, ops.sub(one, value), value)
    return ops.sub(value, ops.mul(ops.mul(value, inverse), lost))


def _half_exp(size: ir.Value, exp: Emit) -> ir.Value:
    """``exp(size) / 2`` for ``size`` >= 0; infinite only where this half overflows."""
    dtype = type_of(size).dtype
    if dtype == np.float32:
        is_top, shift, rest = ops.gt(size, full_like(size, _TOP)), _SHIFT, _SHIFT_REST
    else:
        # The shift is 2 log(2) in 32 bits.
        format_ = format_of(size)
        is_top, shift = ops.gt(size, full_like(size, 700.0)), 2 * format_.ln2_high
        rest = math.exp(-2 * format_.ln2_low)
    power = exp(ops.select(is_top, ops.sub(size, full_like(size, shift)), size))
    factor = ops.select(is_top, full_like(size, 2 * rest), full_like(size, 0.5))
    return ops.mul(power, factor)


def sinh(x: ir.Value, exp: Emit = exp) -> ir.Value:
    """Hyperbolic sine of an f32 or f64 value."""
    size = ops.abs(x)
    half = _half_exp(size, exp)
    far = ops.sub(half, ops.div(full_like(x, 0.25), half))
    near = odd(size, _TABLES[type_of(x).dtype].sinh)
    return with_sign_of(ops.select(ops.lt(size, full_like(x, 1)), near, far), x)


def cosh(x: ir.Value, exp: Emit = exp) -> ir.Value:
    """Hyperbolic cosine of an f32 or f64 value."""
    half = _half_exp(ops.abs(x), exp)
    return ops.add(half, ops.div(full_like(x, 0.25), half))


def tanh(x: ir.Value, exp: Emit = exp) -> ir.Value:
    """Hyperbolic tangent of an f32 or f64 value."""
    one, size = full_like(x, 1), ops.abs(x)
    grown = ops.add(exp(ops.add(size, size)), one)
    far = ops.sub(one, ops.div(full_like(x, 2), grown))
    near = odd(size, _TABLES[type_of(x).dtype].tanh)
    return with_sign_of(ops.select(ops.lt(size, full_like(x, 0.6)), near, far), x)
