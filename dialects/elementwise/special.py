"""Special functions: error functions, gamma, zeta and Bessel functions.

StableHLO has none of them. Each is an algorithm over the ops of the dialect that serves both
evaluation and lowering: ``o`` is `evaluated` or `lowered`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.dialects.combinators import Tangents, Values, binary, unary
from gnomon.dialects.contract import Instance
from gnomon.dialects.elementwise.expansion import both, dtype_of, emitted
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
    LGAMMA,
    Polynomial,
)
from gnomon.dialects.emit import full_like, ops, scale
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import FLOATING

Value = Any


def _number(o: Any, x: Value, value: float) -> Value:
    return o.full_like(x, value)


def horner(o: Any, t: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate a polynomial; the coefficient of the lowest power comes first."""
    total = _number(o, t, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = o.add(o.mul(total, t), _number(o, t, coefficient))
    return total


def _fitted(o: Any, x: Value, table: Polynomial, low: float, high: float) -> Value:
    """Evaluate a tabulated polynomial, whose variable maps x in [low, high] to [-1, 1]."""
    half = (high - low) / 2
    t = o.mul(o.sub(x, _number(o, x, low + half)), _number(o, x, 1 / half))
    return horner(o, t, table[dtype_of(x)])


def _signed(o: Any, magnitude: Value, x: Value) -> Value:
    """``magnitude`` if x >= 0, its negative if x < 0."""
    return o.select(o.lt(x, _number(o, x, 0)), o.neg(magnitude), magnitude)


# ------------------------------------------------------------------------------------------- error


def _erf_near(o: Any, x: Value) -> Value:
    """The error function of a number in [-1, 1]."""
    return o.add(x, o.mul(x, _fitted(o, o.mul(x, x), ERF, 0, 1)))


def _erfc_positive(o: Any, x: Value) -> Value:
    """The complementary error function of a non-negative number."""
    # Beyond 30 the result is 0 in every dtype; infinity would give nan.
    x = o.min(x, _number(o, x, 30))
    four, one = _number(o, x, 4), _number(o, x, 1)
    fraction = o.div(o.sub(x, four), o.add(x, four))
    scaled = o.div(horner(o, fraction, ERFCX[dtype_of(x)]), o.add(one, o.add(x, x)))
    # exp amplifies the rounding error of x * x, but the square of a shortened number is exact.
    bits = (np.finfo(dtype_of(x)).nmant - 1) // 2
    short = o.reduce_precision(x, exponent_bits=8, mantissa_bits=bits)
    rest = o.mul(o.sub(x, short), o.add(x, short))
    return o.mul(o.mul(scaled, o.exp(o.neg(o.mul(short, short)))), o.exp(o.neg(rest)))


def _erf(o: Any, x: Value) -> Value:
    magnitude, one = o.abs(x), _number(o, x, 1)
    far = _signed(o, o.sub(one, _erfc_positive(o, magnitude)), x)
    return o.select(o.lt(magnitude, one), _erf_near(o, x), far)


def _erfc(o: Any, x: Value) -> Value:
    magnitude, one = o.abs(x), _number(o, x, 1)
    positive = _erfc_positive(o, magnitude)
    is_negative = o.lt(x, _number(o, x, 0))
    far = o.select(is_negative, o.sub(_number(o, x, 2), positive), positive)
    is_near = o.lt(magnitude, _number(o, x, 0.5))
    return o.select(is_near, o.sub(one, _erf_near(o, x)), far)


def _erf_inv_place(o: Any, x: Value) -> Value:
    """The variable in which the polynomials of ``erf_inv`` are well conditioned."""
    one = _number(o, x, 1)
    return o.neg(o.log(o.mul(o.sub(one, x), o.add(one, x))))


def _erf_inv(o: Any, x: Value, w: Value) -> Value:
    one = _number(o, x, 1)
    center = _fitted(o, w, ERFINV_CENTER, 0, 6.25)
    root = o.sqrt(o.max(w, _number(o, x, 0)))
    ratio = _fitted(o, root, ERFINV_MIDDLE, 2.5, 4.25)
    if dtype_of(x) in ERFINV_TAIL:
        tail = _fitted(o, root, ERFINV_TAIL, 4.25, 6.25)
        ratio = o.select(o.lt(root, _number(o, x, 4.25)), ratio, tail)
    ratio = o.select(o.lt(w, _number(o, x, 6.25)), center, ratio)
    end = o.eq(o.abs(x), one)
    # Outside of [-1, 1], w is nan as the logarithm of a negative number.
    return o.mul(x, o.select(end, _number(o, x, np.inf), o.select(o.ne(w, w), w, ratio)))


erf = unary(
    "erf",
    doc="the error function, 2 / sqrt(pi) times the integral of exp(-t²) from 0 to x",
    dtypes=FLOATING,
    jvp=lambda x, out: scale(ops.exp(ops.neg(ops.mul(x, x))), 2 / math.sqrt(math.pi)),
    **both("erf", _erf, wide=False),
)
erfc = unary(
    "erfc",
    doc="1 - erf(x), accurate if erf(x) is close to 1",
    dtypes=FLOATING,
    jvp=lambda x, out: scale(ops.exp(ops.neg(ops.mul(x, x))), -2 / math.sqrt(math.pi)),
    **both("erfc", _erfc),
)
erf_inv = unary(
    "erf_inv",
    doc="the inverse of the error function; infinite at -1 and 1, nan beyond",
    dtypes=FLOATING,
    jvp=lambda x, out: scale(ops.exp(ops.mul(out, out)), math.sqrt(math.pi) / 2),
    **both("erf_inv", _erf_inv, first=_erf_inv_place),
)

# ------------------------------------------------------------------------------------------- gamma

# B(2k) / (2k (2k - 1)), the coefficients of Stirling's series in powers of 1 / x².
_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138, -236364091 / 2730,
)  # fmt: skip
STIRLING = tuple(b / ((2 * k + 2) * (2 * k + 1)) for k, b in enumerate(_BERNOULLI[:10]))
_DIGAMMA_SERIES = tuple(b / (2 * k + 2) for k, b in enumerate(_BERNOULLI[:8]))
_SHIFTS = 6


def _lgamma_positive(o: Any, x: Value) -> Value:
    """The lgamma of a number of at least one half."""
    one = _number(o, x, 1)
    # Shift into [1.5, 2.5): up by one, or down while accumulating the product of the factors.
    is_small = o.lt(x, _number(o, x, 1.5))
    moved, product = o.select(is_small, o.add(x, one), x), one
    for _ in range(_SHIFTS):
        above = o.ge(moved, _number(o, x, 2.5))
        moved = o.select(above, o.sub(moved, one), moved)
        product = o.select(above, o.mul(product, moved), product)
    # Computing x + 1 - 2 would lose the digits in which x differs from 1.
    from_two = o.select(is_small, o.sub(x, one), o.sub(moved, _number(o, x, 2)))
    zeros = o.mul(o.add(from_two, one), from_two)
    center = o.mul(zeros, _fitted(o, moved, LGAMMA, 1.5, 2.5))
    logarithm = o.log(o.select(is_small, x, product))
    near = o.add(center, o.select(is_small, o.neg(logarithm), logarithm))
    inverse = o.div(one, x)
    series = o.mul(inverse, horner(o, o.mul(inverse, inverse), STIRLING))
    # (x - 1/2) log x - x, arranged so that infinity gives infinity.
    half = _number(o, x, 0.5)
    grown = o.mul(o.sub(x, half), o.sub(o.log(x), one))
    far = o.add(grown, o.add(_number(o, x, math.log(2 * math.pi) / 2 - 0.5), series))
    return o.select(o.lt(x, _number(o, x, 8)), near, far)


# The series of sin(pi d) / d in powers of d * d, exact to f64 for d up to one half.
_SINE = tuple((-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(12))


def _sine(o: Any, d: Value) -> Value:
    """``sin(pi d)`` for d up to one half."""
    return o.mul(d, horner(o, o.mul(d, d), _SINE))


def _distance_to_integer(o: Any, x: Value) -> Value:
    fraction = o.sub(x, o.floor(x))
    return o.min(fraction, o.sub(_number(o, x, 1), fraction))


def _lgamma(o: Any, x: Value) -> Value:
    one = _number(o, x, 1)
    reflected = o.lt(x, _number(o, x, 0.5))
    value = _lgamma_positive(o, o.select(reflected, o.sub(one, x), x))
    # gamma(x) gamma(1 - x) = pi / sin(pi x), infinite at the poles
    sine = _sine(o, _distance_to_integer(o, o.abs(x)))
    mirrored = o.sub(o.sub(_number(o, x, math.log(math.pi)), o.log(sine)), value)
    is_pole = o.or_(o.eq(sine, _number(o, x, 0)), o.eq(x, _number(o, x, -np.inf)))
    mirrored = o.select(is_pole, _number(o, x, np.inf), mirrored)
    # For subnormal x, pi x has few digits; there -log |x| is accurate.
    size = o.abs(x)
    mirrored = o.select(o.lt(size, _number(o, x, 1e-20)), o.neg(o.log(size)), mirrored)
    return o.select(reflected, mirrored, value)


_DIGAMMA_SHIFTS = 10


def _digamma(o: Any, x: Value) -> Value:
    one, zero = _number(o, x, 1), _number(o, x, 0)
    reflected = o.lt(x, _number(o, x, 0.5))
    y = o.select(reflected, o.sub(one, x), x)
    # The recurrence increases y until the asymptotic series is accurate.
    is_small = o.lt(y, _number(o, x, _DIGAMMA_SHIFTS))
    total = zero
    for i in range(_DIGAMMA_SHIFTS):
        total = o.add(o.div(one, o.add(y, _number(o, x, i))), total)
    total = o.select(is_small, total, zero)
    y = o.select(is_small, o.add(y, _number(o, x, _DIGAMMA_SHIFTS)), y)
    inverse = o.div(one, y)
    square = o.mul(inverse, inverse)
    series = o.mul(square, horner(o, square, _DIGAMMA_SERIES))
    half = o.mul(_number(o, x, 0.5), inverse)
    value = o.sub(o.sub(o.sub(o.log(y), half), series), total)
    # psi(x) = psi(1 - x) - pi / tan(pi x), with the tangent of the distance to the next integer.
    offset = o.sub(x, o.round(x, rounding_method="TO_NEAREST_EVEN"))
    pi, size = _number(o, x, math.pi), o.abs(offset)
    cosine = _sine(o, o.sub(_number(o, x, 0.5), size))
    cotangent = o.div(o.mul(pi, cosine), _sine(o, size))
    mirrored = o.sub(value, _signed(o, cotangent, offset))
    is_pole = o.eq(offset, zero)
    mirrored = o.select(is_pole, _number(o, x, np.nan), mirrored)
    return o.select(reflected, mirrored, value)


def _polygamma_slope(n: ir.Value, x: ir.Value) -> ir.Value:
    return ops.polygamma(ops.add(n, full_like(n, 1)), x)


lgamma = unary(
    "lgamma",
    doc="the logarithm of the absolute value of the gamma function",
    dtypes=FLOATING,
    jvp=lambda x, out: ops.digamma(x),
    **both("lgamma", _lgamma),
)
digamma = unary(
    "digamma",
    doc="the derivative of lgamma; nan at its poles, 0 and the negative integers",
    dtypes=FLOATING,
    jvp=lambda x, out: _polygamma_slope(full_like(x, 0), x),
    **both("digamma", _digamma),
)

# -------------------------------------------------------------------------------------------- zeta

_ZETA_TERMS = 10
# B(2k) / (2k)!, the coefficients of the Euler-Maclaurin formula.
_ZETA_SERIES = tuple(b / math.factorial(2 * k + 2) for k, b in enumerate(_BERNOULLI))


def _zeta_positive(o: Any, x: Value, q: Value) -> Value:
    """The sum for x > 1 and q > 0: ten terms, then the Euler-Maclaurin formula for the rest."""
    power = o.neg(x)
    total = o.pow(q, power)
    for i in range(1, _ZETA_TERMS):
        total = o.add(total, o.pow(o.add(q, _number(o, x, i)), power))
    a = o.add(q, _number(o, x, _ZETA_TERMS))
    last = o.pow(a, power)
    integral = o.div(o.mul(last, a), o.sub(x, _number(o, x, 1)))
    # Here 0 * infinity is 0, a sum of zeros.
    integral = o.select(o.eq(a, _number(o, x, np.inf)), last, integral)
    total = o.add(total, o.add(integral, o.mul(_number(o, x, 0.5), last)))
    term = o.div(o.mul(last, x), a)
    square = o.mul(a, a)
    correction = o.mul(term, _number(o, x, _ZETA_SERIES[0]))
    for i, coefficient in enumerate(_ZETA_SERIES[1:]):
        rising = o.mul(o.add(x, _number(o, x, 2 * i + 1)), o.add(x, _number(o, x, 2 * i + 2)))
        term = o.mul(term, o.div(rising, square))
        correction = o.add(correction, o.mul(term, _number(o, x, coefficient)))
    return o.add(total, correction)


def _zeta(o: Any, x: Value, q: Value) -> Value:
    one, zero = _number(o, x, 1), _number(o, x, 0)
    nan, inf = _number(o, x, np.nan), _number(o, x, np.inf)
    is_negative = o.lt(q, zero)
    # The bases are q, q + 1, ... The absolute values of the negative ones run from the fraction of
    # -q up to -q, and their integer powers differ only in sign from those of the bases, so their
    # sum is a difference of two sums. The other bases start at the fraction of q.
    mirrored = o.neg(q)
    first = o.sub(mirrored, o.floor(mirrored))
    whole, above = _zeta_positive(o, x, first), _zeta_positive(o, x, o.sub(one, q))
    half = o.mul(x, _number(o, x, 0.5))
    # The difference is nan for an infinite exponent, which is not even.
    is_even = o.eq(o.sub(half, o.floor(half)), zero)
    value = _zeta_positive(o, x, o.select(is_negative, o.sub(q, o.floor(q)), q))
    # Subtract the nearly equal terms first: for half-integers the first two terms are equal.
    both = o.sub(
        o.add(value, o.select(is_even, whole, o.neg(whole))), o.select(is_even, above, o.neg(above))
    )
    value = o.select(is_negative, both, value)
    value = o.select(o.lt(x, one), nan, value)
    # Undefined: a base of zero, or a negative base to a fractional power.
    is_pole = o.eq(q, o.floor(q))
    is_whole = o.eq(x, o.floor(x))
    lost = o.and_(is_negative, o.not_(is_whole))
    value = o.select(lost, nan, value)
    at_pole = o.select(is_even, inf, nan)
    value = o.select(o.and_(is_pole, o.le(q, zero)), at_pole, value)
    return o.select(o.eq(x, one), inf, value)


def _zeta_by_exponent(o: Any, x: Value, q: Value) -> Value:
    """The derivative in the exponent for q > 0, term by term as in `_zeta_positive`."""

    def falling(base: Value) -> tuple[Value, Value]:
        """A power and its derivative with respect to x."""
        power = o.pow(base, o.neg(x))
        return power, o.neg(o.mul(o.log(base), power))

    _, total = falling(q)
    for i in range(1, _ZETA_TERMS):
        total = o.add(total, falling(o.add(q, _number(o, x, i)))[1])
    a = o.add(q, _number(o, x, _ZETA_TERMS))
    last, last_slope = falling(a)
    above = o.sub(x, _number(o, x, 1))
    integral = o.mul(o.div(a, above), o.sub(last_slope, o.div(last, above)))
    total = o.add(total, o.add(integral, o.mul(_number(o, x, 0.5), last_slope)))
    term, slope = o.div(o.mul(last, x), a), o.div(o.add(o.mul(last_slope, x), last), a)
    square = o.mul(a, a)
    total = o.add(total, o.mul(slope, _number(o, x, _ZETA_SERIES[0])))
    for i, coefficient in enumerate(_ZETA_SERIES[1:]):
        one, two = o.add(x, _number(o, x, 2 * i + 1)), o.add(x, _number(o, x, 2 * i + 2))
        rising, rising_slope = o.mul(one, two), o.add(one, two)
        slope = o.div(o.add(o.mul(slope, rising), o.mul(term, rising_slope)), square)
        term = o.mul(term, o.div(rising, square))
        total = o.add(total, o.mul(slope, _number(o, x, coefficient)))
    defined = o.and_(o.gt(q, _number(o, x, 0)), o.gt(x, _number(o, x, 1)))
    return o.select(defined, total, _number(o, x, np.nan))


def _polygamma(o: Any, n: Value, x: Value) -> Value:
    one, zero = _number(o, x, 1), _number(o, x, 0)
    order = o.add(n, one)
    # Call the algorithms, not the ops: a backend that expands this op afterwards legalizes only
    # elementary functions, not series.
    magnitude = o.mul(o.exp(_lgamma(o, order)), _zeta(o, order, x))
    half = o.mul(n, _number(o, x, 0.5))
    is_even = o.eq(half, o.floor(half))
    value = o.select(is_even, o.neg(magnitude), magnitude)
    value = o.select(o.eq(n, zero), _digamma(o, x), value)
    is_order = o.and_(o.eq(n, o.floor(n)), o.ge(n, zero))
    return o.select(is_order, value, _number(o, x, np.nan))


def _zeta_by_base(x: Value, q: Value, out: Value) -> Value:
    return ops.neg(ops.mul(x, ops.zeta(ops.add(x, full_like(x, 1)), q)))


def _jvp_polygamma(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    if tangents[0] is not None:
        raise NotImplementedError(
            "gnomon.polygamma has no derivative with respect to its first operand, the order; "
            "apply stop_gradient to it, or differentiate only with respect to the second operand"
        )
    slope = _polygamma_slope(*inst.operands)
    return [None if tangents[1] is None else ops.mul(tangents[1], slope)]


zeta = binary(
    "zeta",
    doc="the Hurwitz zeta function, the sum of (q + k) ** -x over k = 0, 1, 2, ...",
    dtypes=FLOATING,
    jvp=(lambda x, q, out: _zeta_by_exponent(emitted, x, q), _zeta_by_base),
    **both("zeta", _zeta),
)
polygamma = binary(
    "polygamma",
    doc="the n-th derivative of digamma, for an integer n (the first operand)",
    dtypes=FLOATING,
    rule=_jvp_polygamma,
    **both("polygamma", _polygamma),
)

# ------------------------------------------------------------------------------------------ Bessel


def _bessel(o: Any, x: Value, near: Polynomial, far: Polynomial) -> Value:
    """exp(-x) I(x) of a non-negative number, without the factor x of odd orders."""
    eight = _number(o, x, 8)
    inner = _fitted(o, o.min(x, eight), near, 0, 8)
    beyond = o.max(x, eight)
    outer = o.div(_fitted(o, o.div(eight, beyond), far, 0, 1), o.sqrt(beyond))
    return o.select(o.gt(x, eight), outer, inner)


def _bessel_i0e(o: Any, x: Value) -> Value:
    return _bessel(o, o.abs(x), I0E_NEAR, I0E_FAR)


def _bessel_i1e(o: Any, x: Value) -> Value:
    magnitude = o.abs(x)
    value = _bessel(o, magnitude, I1E_NEAR, I1E_FAR)
    is_far = o.gt(magnitude, _number(o, x, 8))
    return o.select(is_far, _signed(o, value, x), o.mul(value, x))


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
    dtypes=FLOATING,
    jvp=lambda x, out: ops.sub(ops.bessel_i1e(x), ops.mul(ops.sign(x), out)),
    **both("bessel_i0e", _bessel_i0e),
)
bessel_i1e = unary(
    "bessel_i1e",
    doc="exp(-|x|) times the modified Bessel function of order 1",
    dtypes=FLOATING,
    jvp=_slope_of_i1e,
    **both("bessel_i1e", _bessel_i1e),
)
