"""Methods for the incomplete gamma functions, each without the factor that may underflow.

With P the regularized lower function, Q = 1 - P, and p = x**a exp(-x) / (gamma(a) x), a method
computes P / (x p) or Q / (x p), and (dP/da) / -p. `gamma_integrals` chooses a method by region.

NIST Digital Library of Mathematical Functions, sections 8.7, 8.9, 8.12.
"""

from __future__ import annotations

import math
from typing import Any

from gnomon.dialects.elementwise.double_words import horner
from gnomon.dialects.elementwise.integral_weights import stirling_rest

Value = Any

_EPSILON = 2.0**-53
_TERMS = 2000
_TINY = 1e-290


def number(o: Any, x: Value, value: float) -> Value:
    """An array of one number, of the shape of ``x``."""
    return o.full_like(x, value)


# ---------------------------------------------------------------------------------------- factors


def log1p_rest(o: Any, m: Value) -> Value:
    """The function m - log1p(m) for m >= -1, without cancellation near zero."""
    two = number(o, m, 2)
    s = o.div(m, o.add(m, two))
    square = o.mul(s, s)
    series = horner(o, square, [2 / (2 * k + 3) for k in range(12)])
    near = o.sub(o.mul(m, s), o.mul(o.mul(s, square), series))
    is_near = o.lt(o.abs(m), number(o, m, 0.4))
    return o.select(is_near, near, o.sub(m, o.log1p(m)))


# ----------------------------------------------------------------------------------- power series


def power_series(o: Any, a: Value, x: Value) -> Value:
    """P / (x p), by the power series."""
    one, zero = o.div(a, a), o.sub(a, a)

    def step(a: Value, x: Value, n: Value, term: Value, total: Value) -> list[Value]:
        n = o.add(n, number(o, n, 1))
        term = o.mul(term, o.div(x, o.add(a, n)))
        return [n, term, o.add(total, term)]

    def pending(n: Value, term: Value, total: Value) -> Value:
        grows = o.gt(term, o.mul(number(o, n, _EPSILON), total))
        return o.and_(grows, o.lt(n, number(o, n, _TERMS)))

    _, _, total = o.loop(pending, step, [a, x], [zero, one, one])
    return o.div(total, a)


def power_series_moved(o: Any, a: Value, x: Value) -> Value:
    """(dP/da) / -p, by the power series and the derivative of each term."""
    one, zero = o.div(a, a), o.sub(a, a)

    def step(a: Value, x: Value, *carries: Value) -> list[Value]:
        n, term, total, slope, slopes = carries
        n = o.add(n, number(o, n, 1))
        divisor = o.add(a, n)
        ratio = o.div(x, divisor)
        slope = o.mul(o.sub(slope, o.div(term, divisor)), ratio)
        term = o.mul(term, ratio)
        return [n, term, o.add(total, term), slope, o.add(slopes, slope)]

    def pending(n: Value, term: Value, total: Value, slope: Value, slopes: Value) -> Value:
        epsilon = number(o, n, _EPSILON)
        grows = o.or_(
            o.gt(term, o.mul(epsilon, total)),
            o.gt(o.abs(slope), o.mul(epsilon, o.abs(slopes))),
        )
        return o.and_(grows, o.lt(n, number(o, n, _TERMS)))

    carries = [zero, one, one, zero, zero]
    _, _, total, _, slopes = o.loop(pending, step, [a, x], carries)
    factor = o.sub(o.log(x), o.digamma(o.add(a, one)))
    return o.neg(o.mul(o.div(x, a), o.add(o.mul(factor, total), slopes)))


# ------------------------------------------------------------------------------ continued fraction


def continued_fraction(o: Any, a: Value, x: Value) -> Value:
    """Q / (x p), by Lentz's method for the continued fraction."""
    one, zero = o.div(a, a), o.sub(a, a)

    def step(a: Value, x: Value, *carries: Value) -> list[Value]:
        n, c, d, h, _ = carries
        one = number(o, n, 1)
        n = o.add(n, one)
        above = o.mul(n, o.sub(a, n))
        below = o.add(o.sub(x, a), o.add(o.add(n, n), one))
        d = o.div(one, o.add(o.mul(above, d), below))
        c = o.add(below, o.div(above, c))
        change = o.mul(d, c)
        return [n, c, d, o.mul(h, change), o.sub(change, one)]

    def pending(n: Value, c: Value, d: Value, h: Value, change: Value) -> Value:
        moves = o.gt(o.abs(change), number(o, n, 2 * _EPSILON))
        return o.and_(moves, o.lt(n, number(o, n, _TERMS)))

    d = o.div(one, o.add(o.sub(x, a), one))
    start = o.div(one, number(o, a, _TINY))
    return o.loop(pending, step, [a, x], [zero, start, d, d, one])[3]


def continued_fraction_moved(o: Any, a: Value, x: Value) -> Value:
    """(dP/da) / -p, by Lentz's method and the derivatives of its terms."""
    one, zero = o.div(a, a), o.sub(a, a)

    def step(a: Value, x: Value, *carries: Value) -> list[Value]:
        n, c, d, h, dc, dd, dh, _, _ = carries
        one = number(o, n, 1)
        n = o.add(n, one)
        above = o.mul(n, o.sub(a, n))
        below = o.add(o.sub(x, a), o.add(o.add(n, n), one))
        # d above / da = n, d below / da = -1.
        slope = o.sub(o.add(o.mul(n, d), o.mul(above, dd)), one)
        d = o.div(one, o.add(o.mul(above, d), below))
        dd = o.neg(o.mul(slope, o.mul(d, d)))
        quotient = o.div(above, c)
        dc = o.sub(o.div(o.sub(n, o.mul(quotient, dc)), c), one)
        c = o.add(below, quotient)
        change = o.mul(d, c)
        change_slope = o.add(o.mul(dd, c), o.mul(d, dc))
        dh = o.add(o.mul(dh, change), o.mul(h, change_slope))
        moved = o.mul(h, change_slope)
        return [n, c, d, o.mul(h, change), dc, dd, dh, o.sub(change, one), moved]

    def pending(n: Value, *carries: Value) -> Value:
        _, _, _, _, _, dh, change, moved = carries
        epsilon = number(o, n, 2 * _EPSILON)
        moves = o.or_(o.gt(o.abs(change), epsilon), o.gt(o.abs(moved), o.mul(epsilon, o.abs(dh))))
        return o.and_(moves, o.lt(n, number(o, n, _TERMS)))

    d = o.div(one, o.add(o.sub(x, a), one))
    dd = o.mul(d, d)
    start = o.div(one, number(o, a, _TINY))
    carries = [zero, start, d, d, zero, dd, dd, one, one]
    _, _, _, h, _, _, dh, _, _ = o.loop(pending, step, [a, x], carries)
    return o.mul(x, o.add(o.mul(o.sub(o.log(x), o.digamma(a)), h), dh))


# ------------------------------------------------------------------------------- uniform expansion

# The coefficients c0, c1, c2, c3 of the expansion (DLMF 8.12.7) as power series of eta.
_TEMME = (
    (
        -0.3333333333333333,
        0.08333333333333333,
        -0.014814814814814815,
        0.0011574074074074073,
        0.0003527336860670194,
        -0.0001787551440329218,
        3.919263178522438e-05,
        -2.185448510679992e-06,
        -1.85406221071516e-06,
        8.296711340953087e-07,
        -1.7665952736826078e-07,
        6.707853543401498e-09,
        1.0261809784240309e-08,
        -4.382036018453353e-09,
    ),
    (
        -0.001851851851851852,
        -0.003472222222222222,
        0.0026455026455026454,
        -0.0009902263374485596,
        0.00020576131687242798,
        -4.018775720164609e-07,
        -1.8098550334489977e-05,
        7.64916091608111e-06,
        -1.6120900894563446e-06,
        4.647127802807434e-09,
    ),
    (
        0.004133597883597883,
        -0.0026813271604938273,
        0.0007716049382716049,
        2.0093878600823047e-06,
        -0.0001073665322636516,
        5.2923448829120125e-05,
        -1.2760635188618728e-05,
    ),
    (
        0.0006494341563786008,
        0.00022947209362139917,
        -0.0004691894943952557,
        0.00026772063206283885,
        -7.561801671883977e-05,
    ),
)


def _at_eta(o: Any, a: Value, x: Value) -> tuple[Value, Value, Value, Value]:
    """The numbers x / a - 1, eta, the sum of the expansion, and its factor."""
    m = o.div(o.sub(x, a), a)
    rest = log1p_rest(o, m)
    eta = o.sqrt(o.add(rest, rest))
    eta = o.select(o.lt(m, number(o, a, 0)), o.neg(eta), eta)
    total = horner(o, eta, _TEMME[-1])
    for coefficients in reversed(_TEMME[:-1]):
        total = o.add(o.div(total, a), horner(o, eta, coefficients))
    width = o.sqrt(o.mul(number(o, a, 2 * math.pi), a))
    return m, eta, total, o.div(o.exp(o.neg(o.mul(a, rest))), width)


def uniform_expansion(o: Any, a: Value, x: Value, sign: int) -> Value:
    """P (for sign -1) or Q (for sign 1) by Temme's expansion."""
    _, eta, total, factor = _at_eta(o, a, x)
    half, side = number(o, a, 0.5), number(o, a, sign)
    z = o.mul(o.mul(side, eta), o.sqrt(o.mul(half, a)))
    return o.add(o.mul(half, o.erfc(z)), o.mul(side, o.mul(factor, total)))


def uniform_expansion_moved(o: Any, a: Value, x: Value) -> Value:
    """(dP/da) / -p, by Temme's expansion."""
    m, eta, total, _ = _at_eta(o, a, x)
    # The derivative of the sum with respect to a, through eta and through the powers of a.
    by_eta, slope = _ratio(o, m, eta), number(o, a, 0)
    for k in reversed(range(len(_TEMME))):
        derivative = horner(o, eta, [n * c for n, c in enumerate(_TEMME[k])][1:])
        power = o.mul(number(o, a, k), horner(o, eta, _TEMME[k]))
        slope = o.sub(o.sub(o.div(slope, a), o.mul(derivative, by_eta)), power)
    slope = o.div(slope, a)
    logarithm = o.log1p(m)
    change = o.sub(logarithm, o.div(number(o, a, 0.5), a))
    moved = o.add(o.add(_ratio(o, logarithm, eta), slope), o.mul(total, change))
    factor = o.mul(o.add(m, number(o, a, 1)), o.exp(stirling_rest(o, a)))
    return o.mul(factor, moved)


def _ratio(o: Any, x: Value, eta: Value) -> Value:
    """The quotient x / eta, which tends to one at zero."""
    is_zero = o.eq(eta, number(o, eta, 0))
    one = number(o, eta, 1)
    return o.select(is_zero, one, o.div(x, o.select(is_zero, one, eta)))
