"""Special functions: error functions and Bessel functions.

StableHLO has none of them. Each is an algorithm over the ops of the dialect that serves both
evaluation and lowering: ``o`` is `evaluated` or `lowered`. Steps that would lose the last digits
are done with `double_words`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon.dialects.combinators import unary
from gnomon.dialects.elementwise.double_words import (
    Pair,
    exact_product,
    exact_sum,
    exponential,
    horner,
    joined,
    polynomial,
    product,
    quotient,
    scaled,
    sum_of_lows,
)
from gnomon.dialects.elementwise.expansion import both, dtype_of
from gnomon.dialects.elementwise.special_polynomials import (
    ERF,
    ERFCX,
    ERFINV_CENTER,
    ERFINV_MIDDLE,
    ERFINV_TAIL,
    I0E_FAR,
    I0E_NEAR,
    I1E_FAR,
    I1E_NEAR,
    Polynomial,
)
from gnomon.dialects.emit import full_like, ops, scale
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost
from gnomon.dialects.types import FLOATING

Value = Any


def _fitted(o: Any, x: Value, table: Polynomial, low: float, high: float) -> Value:
    """Evaluate a tabulated polynomial, whose variable maps x in [low, high] to [-1, 1]."""
    half = (high - low) / 2
    t = o.mul(o.sub(x, o.full_like(x, low + half)), o.full_like(x, 1 / half))
    return horner(o, t, table[dtype_of(x)])


def _fitted_pair(
    o: Any, x: Value, table: Polynomial, low: float, high: float, steps: int = 1
) -> Pair:
    """The same with a rounding error; see `polynomial`."""
    half = (high - low) / 2
    shifted = exact_sum(o, x, o.full_like(x, -low - half))
    t, t_low = (None if part is None else o.mul(part, o.full_like(x, 1 / half)) for part in shifted)
    return polynomial(o, t, table[dtype_of(x)], steps, t_low)


def _signed(o: Any, magnitude: Value, x: Value) -> Value:
    """``magnitude`` if x >= 0, its negative if x < 0."""
    return o.select(o.lt(x, o.full_like(x, 0)), o.neg(magnitude), magnitude)


# ------------------------------------------------------------------------------------------- error


def _erf_near(o: Any, x: Value) -> Value:
    """The error function of a number in [-1, 1]."""
    return o.add(x, o.mul(x, _fitted(o, o.mul(x, x), ERF, 0, 1)))


def scaled_erfc(o: Any, x: Value, precise: bool = False) -> Pair:
    """``exp(x**2) erfc(x)`` of a non-negative number whose erfc is not 0 in the format.

    Args:
      o: the namespace of ops.
      x: the number.
      precise: whether numbers below 0.5 matter, where the polynomial is steep.
    """
    four, one = o.full_like(x, 4), o.full_like(x, 1)
    if precise:
        fraction = quotient(o, exact_sum(o, x, o.neg(four)), exact_sum(o, x, four))
        series = polynomial(o, fraction.high, ERFCX[dtype_of(x)], steps=2, t_low=fraction.low)
    else:
        series = polynomial(o, o.div(o.sub(x, four), o.add(x, four)), ERFCX[dtype_of(x)])
    return quotient(o, series, exact_sum(o, one, o.add(x, x)))


def _erfc_positive(o: Any, x: Value) -> Value:
    """The complementary error function of a non-negative number."""
    # Beyond this the result is 0 in the format; infinity would give nan.
    limit = 30 if dtype_of(x) == np.float64 else 11
    x = o.min(x, o.full_like(x, limit))
    factor = scaled_erfc(o, x)
    square = exact_product(o, x, x)
    minus = Pair(*(None if part is None else o.neg(part) for part in square))
    power, n = exponential(o, minus)
    return scaled(o, joined(o, product(o, factor, power)), n)


def _erf(o: Any, x: Value) -> Value:
    magnitude, one = o.abs(x), o.full_like(x, 1)
    far = _signed(o, o.sub(one, _erfc_positive(o, magnitude)), x)
    return o.select(o.lt(magnitude, one), _erf_near(o, x), far)


def _erfc(o: Any, x: Value) -> Value:
    magnitude, one = o.abs(x), o.full_like(x, 1)
    positive = _erfc_positive(o, magnitude)
    is_negative = o.lt(x, o.full_like(x, 0))
    far = o.select(is_negative, o.sub(o.full_like(x, 2), positive), positive)
    is_near = o.lt(magnitude, o.full_like(x, 0.5))
    return o.select(is_near, o.sub(one, _erf_near(o, x)), far)


def _erf_inv_place(o: Any, x: Value) -> Value:
    """The variable in which the polynomials of ``erf_inv`` are well conditioned."""
    one = o.full_like(x, 1)
    return o.neg(o.log(o.mul(o.sub(one, x), o.add(one, x))))


def _erf_inv(o: Any, x: Value, w: Value) -> Value:
    one = o.full_like(x, 1)
    center = _fitted_pair(o, w, ERFINV_CENTER, 0, 6.25, steps=2)
    center = product(o, Pair(x), center)
    root = o.sqrt(o.max(w, o.full_like(x, 0)))
    ratio = _fitted(o, root, ERFINV_MIDDLE, 2.5, 4.25)
    if dtype_of(x) in ERFINV_TAIL:
        tail = _fitted(o, root, ERFINV_TAIL, 4.25, 6.25)
        ratio = o.select(o.lt(root, o.full_like(x, 4.25)), ratio, tail)
    ratio = o.select(o.eq(o.abs(x), one), o.full_like(x, np.inf), ratio)
    # Outside of [-1, 1], w is nan as the logarithm of a negative number.
    ratio = o.select(o.ne(w, w), w, ratio)
    # The low part may be a zero of the other sign.
    value = o.select(o.eq(x, o.full_like(x, 0)), x, joined(o, center))
    return o.select(o.lt(w, o.full_like(x, 6.25)), value, o.mul(x, ratio))


erf = unary(
    "erf",
    doc="the error function, 2 / sqrt(pi) times the integral of exp(-t²) from 0 to x",
    cost=Cost.FUNCTION,
    dtypes=FLOATING,
    jvp=lambda x, out: scale(ops.exp(ops.neg(ops.mul(x, x))), 2 / math.sqrt(math.pi)),
    **both("erf", _erf, wide=False),
)
erfc = unary(
    "erfc",
    doc="1 - erf(x), accurate if erf(x) is close to 1",
    cost=Cost.FUNCTION,
    dtypes=FLOATING,
    jvp=lambda x, out: scale(ops.exp(ops.neg(ops.mul(x, x))), -2 / math.sqrt(math.pi)),
    **both("erfc", _erfc),
)
erf_inv = unary(
    "erf_inv",
    doc="the inverse of the error function; infinite at -1 and 1, nan beyond",
    cost=Cost.FUNCTION,
    dtypes=FLOATING,
    jvp=lambda x, out: scale(ops.exp(ops.mul(out, out)), math.sqrt(math.pi) / 2),
    **both("erf_inv", _erf_inv, first=_erf_inv_place),
)

# ------------------------------------------------------------------------------------------ Bessel


def _bessel_far(o: Any, x: Value, table: Polynomial) -> Value:
    """exp(-x) I(x) of a number of at least 8."""
    root = o.sqrt(x)
    square = exact_product(o, root, root)
    divisor = Pair(root)
    if square.low is not None:
        lost = o.sub(o.sub(x, square.high), square.low)
        # Near infinity the square overflows.
        lost = o.select(o.lt(x, o.full_like(x, 2.0**100)), lost, o.full_like(x, 0))
        divisor = Pair(root, o.div(lost, o.add(root, root)))
    series = _fitted_pair(o, o.div(o.full_like(x, 8), x), table, 0, 1)
    value = quotient(o, series, divisor)
    # An infinite divisor has no remainder.
    return o.select(o.eq(x, o.full_like(x, np.inf)), o.full_like(x, 0), joined(o, value))


def _bessel_i0e(o: Any, x: Value) -> Value:
    magnitude, eight = o.abs(x), o.full_like(x, 8)
    near = o.min(magnitude, eight)
    flat = exact_sum(o, o.full_like(x, 1), o.mul(near, o.full_like(x, 0.75)))
    inner = joined(o, quotient(o, _fitted_pair(o, near, I0E_NEAR, 0, 8, steps=2), flat))
    outer = _bessel_far(o, o.max(magnitude, eight), I0E_FAR)
    return o.select(o.gt(magnitude, eight), outer, inner)


def _bessel_i1e(o: Any, x: Value) -> Value:
    magnitude, eight, two = o.abs(x), o.full_like(x, 8), o.full_like(x, 2)
    near = o.min(magnitude, eight)
    slope = exact_sum(o, two, o.mul(near, o.full_like(x, 0.65625)))
    grown = product(o, Pair(near), slope)
    flat = exact_sum(o, two, grown.high)
    flat = Pair(flat.high, sum_of_lows(o, flat.low, grown.low))
    ratio = quotient(o, _fitted_pair(o, near, I1E_NEAR, 0, 8), flat)
    signed_near = o.max(o.min(x, eight), o.neg(eight))
    # The low part may be a zero of the other sign.
    inner = product(o, Pair(signed_near), ratio)
    inner = o.select(o.eq(x, o.full_like(x, 0)), x, joined(o, inner))
    outer = _bessel_far(o, o.max(magnitude, eight), I1E_FAR)
    return o.select(o.gt(magnitude, eight), _signed(o, outer, x), inner)


# The series of I1(x) / x in powers of x * x, exact to f64 for x below one.
_I1_SERIES = tuple(0.5 / (4**k * math.factorial(k) * math.factorial(k + 1)) for k in range(10))


def _slope_of_i1e(x: ir.Value, out: ir.Value) -> ir.Value:
    # i1e(x) / x near zero by its series, because the quotient has an inaccurate second derivative.
    zero, one, size = full_like(x, 0), full_like(x, 1), ops.abs(x)
    is_near = ops.lt(size, one)
    near = ops.select(is_near, x, zero)
    square = ops.mul(near, near)
    total = full_like(x, _I1_SERIES[-1])
    for coefficient in reversed(_I1_SERIES[:-1]):
        total = ops.add(ops.mul(total, square), full_like(x, coefficient))
    # x * sign(x) rather than abs(x): at zero the derivative of abs is one, but that of an even
    # function is zero.
    series = ops.mul(total, ops.exp(ops.neg(ops.mul(near, ops.sign(near)))))
    quotient = ops.div(out, ops.select(is_near, one, x))
    quotient = ops.select(is_near, series, quotient)
    return ops.sub(ops.sub(ops.bessel_i0e(x), ops.mul(ops.sign(x), out)), quotient)


bessel_i0e = unary(
    "bessel_i0e",
    doc="exp(-|x|) times the modified Bessel function of order 0",
    cost=Cost.FUNCTION,
    dtypes=FLOATING,
    jvp=lambda x, out: ops.sub(ops.bessel_i1e(x), ops.mul(ops.sign(x), out)),
    **both("bessel_i0e", _bessel_i0e),
)
bessel_i1e = unary(
    "bessel_i1e",
    doc="exp(-|x|) times the modified Bessel function of order 1",
    cost=Cost.FUNCTION,
    dtypes=FLOATING,
    jvp=_slope_of_i1e,
    **both("bessel_i1e", _bessel_i1e),
)
