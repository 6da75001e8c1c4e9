"""Methods for the derivative of the incomplete gamma function with respect to its parameter.

With P the regularized lower function and p = x**a exp(-x) / (gamma(a) x), each computes
(dP/da) / -p, which does not underflow as p may. `gamma_integrals` chooses a method by region.

NIST Digital Library of Mathematical Functions, sections 8.7, 8.9, 8.12.
"""

from __future__ import annotations

from typing import Any

from gnomon.dialects.elementwise.double_words import horner
from gnomon.dialects.elementwise.gamma_polynomials import TEMME
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

# Four of the functions of the expansion are enough for parameters of thousands.
_TEMME = tuple(row[:14] for row in TEMME[:4])


def _at_eta(o: Any, a: Value, x: Value) -> tuple[Value, Value, Value]:
    """The numbers x / a - 1, eta, and the sum of the expansion."""
    m = o.div(o.sub(x, a), a)
    rest = log1p_rest(o, m)
    eta = o.sqrt(o.add(rest, rest))
    eta = o.select(o.lt(m, number(o, a, 0)), o.neg(eta), eta)
    total = horner(o, eta, _TEMME[-1])
    for coefficients in reversed(_TEMME[:-1]):
        total = o.add(o.div(total, a), horner(o, eta, coefficients))
    return m, eta, total


def uniform_expansion_moved(o: Any, a: Value, x: Value) -> Value:
    """(dP/da) / -p, by Temme's expansion."""
    m, eta, total = _at_eta(o, a, x)
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
