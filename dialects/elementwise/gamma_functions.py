"""The gamma function's logarithm and its derivatives, and the zeta function.

StableHLO has none of them: see `special`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon.dialects.combinators import Tangents, Values, binary, unary
from gnomon.dialects.contract import Instance
from gnomon.dialects.elementwise.double_words import (
    Pair,
    exact_product,
    exact_sum,
    exponential,
    horner,
    joined,
    logarithm,
    polynomial,
    product,
    quotient,
    scaled,
    sum_of_lows,
)
from gnomon.dialects.elementwise.expansion import both, dtype_of, emitted
from gnomon.dialects.elementwise.gamma_polynomials import COTANGENT, DIGAMMA, LGAMMA
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost
from gnomon.dialects.types import FLOATING

Value = Any


def _parts(o: Any, x: Value, high: float, low: float) -> tuple[Value, Value | None]:
    """A constant that is the sum of two f64, in two parts of the format of ``x``."""
    dtype = dtype_of(x)
    first = float(dtype.type(high))
    return o.full_like(x, first), o.full_like(x, (high - first) + low) if o.keeps_errors else None


def _plus(o: Any, a: Pair, b: Pair) -> Pair:
    """The sum of two pairs."""
    total = exact_sum(o, a.high, b.high)
    return Pair(total.high, sum_of_lows(o, total.low, a.low, b.low))


def _negative(o: Any, x: Pair) -> Pair:
    return Pair(o.neg(x.high), None if x.low is None else o.neg(x.low))


def _chosen(o: Any, mask: Value, a: Pair, b: Pair) -> Pair:
    if a.low is None or b.low is None:
        return Pair(o.select(mask, a.high, b.high))
    return Pair(o.select(mask, a.high, b.high), o.select(mask, a.low, b.low))


# -------------------------------------------------------------------------------------- log-gamma

# The Bernoulli numbers B(2), B(4), ...
_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138, -236364091 / 2730,
)  # fmt: skip
# B(2k) / (2k (2k - 1)), the coefficients of Stirling's series in powers of 1 / x².
STIRLING = tuple(b / ((2 * k + 2) * (2 * k + 1)) for k, b in enumerate(_BERNOULLI[:10]))
_STIRLING_NEARER = tuple(b / ((2 * k + 2) * (2 * k + 1)) for k, b in enumerate(_BERNOULLI))
# From here on Stirling's series is exact to f64.
_FAR, _SHIFTS = 6.5, 4
# log(2 pi) / 2
_HALF_LOG_2PI = (0.9189385332046728, -3.8782941580672414e-17)


def _stirling(o: Any, y: Value, logarithm_of_y: Pair) -> Pair:
    """The lgamma of a large number, given its logarithm."""
    inverse = o.div(o.full_like(y, 1), y)
    series = o.mul(inverse, horner(o, o.mul(inverse, inverse), _STIRLING_NEARER))
    # (y - 1/2) (log y - 1) - 1/2 + log(2 pi) / 2, arranged so that infinity gives infinity.
    less = exact_sum(o, logarithm_of_y.high, o.full_like(y, -1))
    less = Pair(less.high, sum_of_lows(o, less.low, logarithm_of_y.low))
    grown = product(o, Pair(o.sub(y, o.full_like(y, 0.5))), less)
    first, second = _parts(o, y, *_HALF_LOG_2PI)
    constant = Pair(o.sub(first, o.full_like(y, 0.5)), second)
    total = _plus(o, grown, constant)
    if total.low is None:
        return Pair(o.add(total.high, series))
    # For huge numbers the parts of products overflow, and have no digits that matter.
    is_huge = o.gt(y, o.full_like(y, 2.0**60))
    low = o.select(is_huge, o.full_like(y, 0), o.add(total.low, series))
    return Pair(o.select(is_huge, grown.high, total.high), low)


def _lgamma_positive(o: Any, y: Value) -> tuple[Pair, Value]:
    """The lgamma of a number of at least one half, and an approximation of its slope."""
    one, zero = o.full_like(y, 1), o.full_like(y, 0)
    # Shift into [1.5, 2.5): up by one, or down while accumulating the product of the factors.
    is_small, is_far = o.lt(y, o.full_like(y, 1.5)), o.ge(y, o.full_like(y, _FAR))
    moved, factors = o.select(is_small, o.add(y, one), y), Pair(one)
    for i in range(_SHIFTS):
        above = o.ge(moved, o.full_like(y, 2.5))
        moved = o.select(above, o.sub(moved, one), moved)
        factor = Pair(o.select(above, moved, one))
        factors = product(o, factors, factor) if i else factor
    # Computing y + 1 - 2 would lose the digits in which y differs from 1.
    from_two = o.select(is_small, o.sub(y, one), o.sub(moved, o.full_like(y, 2)))
    center = o.mul(o.sub(moved, o.full_like(y, 2)), o.full_like(y, 2))
    fitted = polynomial(o, center, LGAMMA[dtype_of(y)], steps=2)
    # (y - 1) (y - 2) times the polynomial, which cancels with the logarithm near the minimum.
    outer = _plus(o, fitted, product(o, Pair(from_two), fitted))
    inner = product(o, Pair(from_two), outer)
    argument = _chosen(o, o.or_(is_small, is_far), Pair(y, _absent(o, zero)), factors)
    logarithm_of = logarithm(o, argument)
    signed = _chosen(o, is_small, _negative(o, logarithm_of), logarithm_of)
    near = _plus(o, signed, inner)
    far = _stirling(o, o.max(y, o.full_like(y, _FAR)), logarithm_of)
    # The slope is digamma, to about a tenth; it only multiplies a rounding error.
    about = o.mul(o.full_like(y, 2.1), o.sub(one, o.div(o.full_like(y, 1.46), y)))
    return _chosen(o, is_far, far, near), o.select(is_far, logarithm_of.high, about)


def _absent(o: Any, zero: Value) -> Value | None:
    return zero if o.keeps_errors else None


# The series of sin(pi d) / (pi d) in powers of d * d, exact to f64 for d up to one half.
_SINE = tuple((-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(12))


def _distance_to_integer(o: Any, x: Value) -> Value:
    fraction = o.sub(x, o.floor(x))
    return o.min(fraction, o.sub(o.full_like(x, 1), fraction))


def _lgamma(o: Any, x: Value) -> Value:
    one, zero, inf = o.full_like(x, 1), o.full_like(x, 0), o.full_like(x, np.inf)
    reflected = o.lt(x, o.full_like(x, 0.5))
    away = exact_sum(o, one, o.neg(x))
    value, slope = _lgamma_positive(o, o.select(reflected, away.high, x))
    # gamma(x) gamma(1 - x) = pi / sin(pi x), infinite at the poles
    distance, size = _distance_to_integer(o, o.abs(x)), o.abs(x)
    sine = product(o, Pair(distance), polynomial(o, o.mul(distance, distance), _SINE))
    # Subnormal numbers have no pair of parts; there -log |x| is accurate.
    is_tiny = o.lt(size, o.full_like(x, 1e-20))
    is_pole = o.or_(o.eq(distance, zero), o.eq(x, o.full_like(x, -np.inf)))
    sine = _chosen(o, o.or_(is_tiny, is_pole), Pair(one, _absent(o, zero)), sine)
    below = _plus(o, value, logarithm(o, sine))
    if away.low is not None:
        below = Pair(below.high, o.add(below.low, o.mul(away.low, slope)))
    mirrored = joined(o, _negative(o, below))
    mirrored = o.select(is_tiny, o.neg(o.log(size)), mirrored)
    mirrored = o.select(o.or_(is_pole, o.ne(x, x)), o.add(o.abs(x), inf), mirrored)
    whole = o.select(o.eq(x, inf), inf, joined(o, value))
    return o.select(o.lt(x, o.full_like(x, 0.5)), mirrored, whole)


# ---------------------------------------------------------------------------------------- digamma

_DIGAMMA_SERIES = tuple(b / (2 * k + 2) for k, b in enumerate(_BERNOULLI))
_DIGAMMA_FAR, _DIGAMMA_SHIFTS = 7.0, 5
# The positive zero of digamma, minus 1.
_ZERO_OF_DIGAMMA = (0.46163214496836236, -1.5522348162858677e-17)


def _digamma_positive(o: Any, y: Value) -> Pair:
    """The digamma of a number of at least one half."""
    one, zero = o.full_like(y, 1), o.full_like(y, 0)
    # digamma(1 + t) for t in [0, 1), and the sum of the reciprocals that lead from there to y.
    below, is_far = o.lt(y, one), o.ge(y, o.full_like(y, _DIGAMMA_FAR))
    t = o.select(below, y, o.sub(y, one))
    total = Pair(o.select(below, o.neg(o.div(one, y)), zero))
    for _ in range(_DIGAMMA_SHIFTS):
        above = o.ge(t, one)
        part = o.select(above, o.div(one, o.max(t, one)), zero)
        total = _plus(o, Pair(part), total)
        t = o.select(above, o.sub(t, one), t)
    first, second = _parts(o, y, *_ZERO_OF_DIGAMMA)
    apart = exact_sum(o, t, o.neg(first))
    if second is not None:
        apart = Pair(apart.high, o.sub(apart.low, second))
    half = o.full_like(y, 0.5)
    middle = o.mul(o.sub(t, half), o.full_like(y, 2))
    near = _plus(o, product(o, apart, polynomial(o, middle, DIGAMMA[dtype_of(y)])), total)
    far_y = o.max(y, o.full_like(y, _DIGAMMA_FAR))
    inverse = o.div(one, far_y)
    square = o.mul(inverse, inverse)
    series = o.mul(square, horner(o, square, _DIGAMMA_SERIES))
    tail = Pair(o.neg(o.add(o.mul(half, inverse), series)))
    return _chosen(o, is_far, _plus(o, logarithm(o, Pair(far_y)), tail), near)


def _digamma(o: Any, x: Value) -> Value:
    one, zero, inf = o.full_like(x, 1), o.full_like(x, 0), o.full_like(x, np.inf)
    reflected = o.lt(x, o.full_like(x, 0.5))
    away = exact_sum(o, one, o.neg(x))
    y = o.select(reflected, away.high, x)
    value = _digamma_positive(o, y)
    # digamma(x) = digamma(1 - x) - pi / tan(pi x), from the distance to the next integer.
    offset = o.sub(x, o.round(x, rounding_method="TO_NEAREST_EVEN"))
    is_pole = o.eq(offset, zero)
    size = o.select(is_pole, one, o.abs(offset))
    square = exact_product(o, size, size)
    four = o.full_like(x, -4)
    lower = exact_sum(o, one, o.mul(four, square.high))
    if square.low is not None:
        lower = Pair(lower.high, o.add(lower.low, o.mul(four, square.low)))
    eighth = o.full_like(x, 0.125)
    place = o.mul(o.sub(square.high, eighth), o.full_like(x, 8))
    factor = polynomial(o, place, COTANGENT[dtype_of(x)], steps=2)
    cotangent = quotient(o, product(o, lower, factor), Pair(size))
    is_right = o.gt(offset, zero)
    mirrored = _plus(o, value, _chosen(o, is_right, _negative(o, cotangent), cotangent))
    if mirrored.low is not None:
        # The slope of digamma is 1 / y + 1 / (2 y**2), to about a fifth.
        inverse = o.div(one, y)
        slope = o.add(inverse, o.mul(o.full_like(x, 0.5), o.mul(inverse, inverse)))
        moved = o.mul(away.low, slope)
        mirrored = Pair(mirrored.high, o.add(mirrored.low, moved))
    # Next to a pole the low parts overflow.
    is_near = o.lt(size, o.full_like(x, 1e-20))
    result = o.select(is_near, o.neg(o.div(one, offset)), joined(o, mirrored))
    # The limits at zeros of both signs are infinite; those at negative integers depend on the side.
    at_pole = o.select(o.eq(x, zero), o.neg(o.div(one, x)), o.full_like(x, np.nan))
    result = o.select(is_pole, at_pole, result)
    whole = o.select(o.eq(x, inf), inf, joined(o, value))
    return o.select(reflected, result, whole)


def _polygamma_slope(n: ir.Value, x: ir.Value) -> ir.Value:
    return ops.polygamma(ops.add(n, full_like(n, 1)), x)


lgamma = unary(
    "lgamma",
    doc="the logarithm of the absolute value of the gamma function",
    cost=Cost.FUNCTION,
    dtypes=FLOATING,
    jvp=lambda x, out: ops.digamma(x),
    **both("lgamma", _lgamma),
)
digamma = unary(
    "digamma",
    doc="the derivative of lgamma; -inf at 0, inf at -0, and nan at the negative integers",
    cost=Cost.FUNCTION,
    dtypes=FLOATING,
    jvp=lambda x, out: _polygamma_slope(full_like(x, 0), x),
    **both("digamma", _digamma),
)

# -------------------------------------------------------------------------------------------- zeta

_ZETA_TERMS = 10
# B(2k) / (2k)!, the coefficients of the Euler-Maclaurin formula.
_ZETA_SERIES = tuple(b / math.factorial(2 * k + 2) for k, b in enumerate(_BERNOULLI))


def _power(o: Any, base: Pair, exponent: Value) -> Pair:
    """A power of a pair: the low part counts as many times as the exponent is large."""
    power = o.pow(base.high, exponent)
    if base.low is None:
        return Pair(power)
    change = o.mul(power, o.div(o.mul(exponent, base.low), base.high))
    is_plain = o.lt(o.abs(change), o.full_like(power, np.inf))
    return Pair(power, o.select(is_plain, change, o.full_like(power, 0)))


def _zeta_positive(o: Any, x: Value, q: Value) -> Pair:
    """The sum for x > 1 and q > 0: ten terms, then the Euler-Maclaurin formula for the rest."""
    inf = o.full_like(x, np.inf)
    power = o.neg(x)
    total = Pair(o.pow(q, power))
    for i in range(1, _ZETA_TERMS):
        total = _plus(o, _power(o, exact_sum(o, q, o.full_like(x, i)), power), total)
    base = exact_sum(o, q, o.full_like(x, _ZETA_TERMS))
    a, whole = base.high, _power(o, base, power)
    last = whole.high
    above = product(o, whole, base)
    integral = quotient(o, above, exact_sum(o, x, o.full_like(x, -1)))
    # Here 0 * infinity is 0, a sum of zeros.
    is_plain = o.and_(o.lt(o.abs(integral.high), inf), o.lt(a, inf))
    plain = o.select(o.eq(a, inf), last, integral.high)
    if integral.low is not None:
        integral = Pair(plain, o.select(is_plain, integral.low, o.full_like(x, 0)))
    else:
        integral = Pair(plain)
    total = _plus(o, total, integral)
    rest = o.mul(o.full_like(x, 0.5), last)
    term = o.div(o.mul(last, x), a)
    square = o.mul(a, a)
    correction = o.mul(term, o.full_like(x, _ZETA_SERIES[0]))
    for i, coefficient in enumerate(_ZETA_SERIES[1:]):
        rising = o.mul(o.add(x, o.full_like(x, 2 * i + 1)), o.add(x, o.full_like(x, 2 * i + 2)))
        term = o.mul(term, o.div(rising, square))
        correction = o.add(correction, o.mul(term, o.full_like(x, coefficient)))
    rest = o.add(rest, correction)
    # Infinite sums have no low part.
    rest = rest if total.low is None else o.add(rest, total.low)
    return Pair(total.high, o.select(o.lt(total.high, inf), rest, o.full_like(x, 0)))


def _zeta(o: Any, x: Value, q: Value) -> Value:
    return joined(o, _zeta_pair(o, x, q))


def _zeta_pair(o: Any, x: Value, q: Value) -> Pair:
    one, zero = o.full_like(x, 1), o.full_like(x, 0)
    nan, inf = o.full_like(x, np.nan), o.full_like(x, np.inf)
    is_negative = o.lt(q, zero)
    # The bases are q, q + 1, ... The absolute values of the negative ones run from the fraction of
    # -q up to -q, and their integer powers differ only in sign from those of the bases, so their
    # sum is a difference of two sums. The other bases start at the fraction of q.
    mirrored = o.neg(q)
    first = o.sub(mirrored, o.floor(mirrored))
    whole = joined(o, _zeta_positive(o, x, first))
    above = joined(o, _zeta_positive(o, x, o.sub(one, q)))
    half = o.mul(x, o.full_like(x, 0.5))
    # The difference is nan for an infinite exponent, which is not even.
    is_even = o.eq(o.sub(half, o.floor(half)), zero)
    found = _zeta_positive(o, x, o.select(is_negative, o.sub(q, o.floor(q)), q))
    value, low = joined(o, found), o.select(is_negative, zero, found.low)
    # Subtract the nearly equal terms first: for half-integers the first two terms are equal.
    both = o.sub(
        o.add(value, o.select(is_even, whole, o.neg(whole))), o.select(is_even, above, o.neg(above))
    )
    value = o.select(is_negative, both, found.high)
    value = o.select(o.lt(x, one), nan, value)
    # Undefined: a base of zero, or a negative base to a fractional power.
    is_pole = o.eq(q, o.floor(q))
    is_whole = o.eq(x, o.floor(x))
    lost = o.and_(is_negative, o.not_(is_whole))
    value = o.select(lost, nan, value)
    at_pole = o.select(is_even, inf, nan)
    value = o.select(o.and_(is_pole, o.le(q, zero)), at_pole, value)
    return Pair(o.select(o.eq(x, one), inf, value), low)


def _zeta_by_exponent(o: Any, x: Value, q: Value) -> Value:
    """The derivative in the exponent for q > 0, term by term as in `_zeta_positive`."""

    def falling(base: Value) -> tuple[Value, Value]:
        """A power and its derivative with respect to x."""
        power = o.pow(base, o.neg(x))
        return power, o.neg(o.mul(o.log(base), power))

    _, total = falling(q)
    for i in range(1, _ZETA_TERMS):
        total = o.add(total, falling(o.add(q, o.full_like(x, i)))[1])
    a = o.add(q, o.full_like(x, _ZETA_TERMS))
    last, last_slope = falling(a)
    above = o.sub(x, o.full_like(x, 1))
    integral = o.mul(o.div(a, above), o.sub(last_slope, o.div(last, above)))
    total = o.add(total, o.add(integral, o.mul(o.full_like(x, 0.5), last_slope)))
    term, slope = o.div(o.mul(last, x), a), o.div(o.add(o.mul(last_slope, x), last), a)
    square = o.mul(a, a)
    total = o.add(total, o.mul(slope, o.full_like(x, _ZETA_SERIES[0])))
    for i, coefficient in enumerate(_ZETA_SERIES[1:]):
        one, two = o.add(x, o.full_like(x, 2 * i + 1)), o.add(x, o.full_like(x, 2 * i + 2))
        rising, rising_slope = o.mul(one, two), o.add(one, two)
        slope = o.div(o.add(o.mul(slope, rising), o.mul(term, rising_slope)), square)
        term = o.mul(term, o.div(rising, square))
        total = o.add(total, o.mul(slope, o.full_like(x, coefficient)))
    defined = o.and_(o.gt(q, o.full_like(x, 0)), o.gt(x, o.full_like(x, 1)))
    return o.select(defined, total, o.full_like(x, np.nan))


# Products of integers up to this one are exact, even in f32.
_EXACT_FACTORIAL = 12


def _factorial(o: Any, n: Value) -> Value:
    """The factorial of a non-negative integer."""
    one = o.full_like(n, 1)
    small = one
    for k in range(2, _EXACT_FACTORIAL + 1):
        factor = o.full_like(n, k)
        small = o.mul(small, o.select(o.ge(n, factor), factor, one))
    # Beyond 200 the factorial is infinite in every format.
    least, most = o.full_like(n, _EXACT_FACTORIAL + 1), o.full_like(n, 200)
    y = o.add(o.min(o.max(n, least), most), one)
    power, count = exponential(o, _stirling(o, y, logarithm(o, Pair(y))))
    large = scaled(o, joined(o, power), count)
    return o.select(o.lt(n, least), small, large)


def _polygamma(o: Any, n: Value, x: Value) -> Value:
    one, zero = o.full_like(x, 1), o.full_like(x, 0)
    order = o.add(n, one)
    # Call the algorithms, not the ops: a backend that expands this op afterwards legalizes only
    # elementary functions, not series.
    magnitude = product(o, Pair(_factorial(o, n)), _zeta_pair(o, order, x))
    # Next to overflow the low parts overflow.
    half = o.full_like(x, float(np.finfo(dtype_of(x)).max) / 2)
    is_plain = o.lt(o.abs(magnitude.high), half)
    magnitude = o.select(is_plain, joined(o, magnitude), magnitude.high)
    half = o.mul(n, o.full_like(x, 0.5))
    is_even = o.eq(half, o.floor(half))
    value = o.select(is_even, o.neg(magnitude), magnitude)
    value = o.select(o.eq(n, zero), _digamma(o, x), value)
    is_order = o.and_(o.eq(n, o.floor(n)), o.ge(n, zero))
    return o.select(is_order, value, o.full_like(x, np.nan))


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
    cost=Cost.FUNCTION,
    dtypes=FLOATING,
    jvp=(lambda x, q, out: _zeta_by_exponent(emitted, x, q), _zeta_by_base),
    **both("zeta", _zeta),
)
polygamma = binary(
    "polygamma",
    doc="the n-th derivative of digamma, for an integer n (the first operand)",
    cost=Cost.FUNCTION,
    dtypes=FLOATING,
    rule=_jvp_polygamma,
    **both("polygamma", _polygamma),
)
