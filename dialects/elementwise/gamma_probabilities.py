"""The regularized incomplete gamma functions P and Q = 1 - P, to the last digits of f64.

With the weight w = x**a exp(-x) / gamma(a), there are four methods:

- a > 50 and x within 0.3 a of it: Temme's uniform expansion, which needs no loop;
- a < 1 and x < 0.5, for Q: a formula without the cancellation of 1 - P, as Q tends to 0 with a;
- x < max(a, 1), for Q only if a >= 1: a power series of P / w;
- otherwise: a continued fraction of Q / w.

The series and the fraction are evaluated from the last term to the first, so that the rounding
errors of most terms are damped. In f64 those of the others are kept. A P or Q that is not computed
directly is 1 minus the other, and never less than about a third.

NIST Digital Library of Mathematical Functions, sections 8.7, 8.9, 8.12.
"""

from __future__ import annotations

import math
from typing import Any

from gnomon.dialects.elementwise.double_words import (
    Pair,
    backwards,
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
from gnomon.dialects.elementwise.gamma_polynomials import LGAMMA_QUOTIENT, TEMME
from gnomon.dialects.elementwise.integral_weights import gamma_weight
from gnomon.dialects.elementwise.special import scaled_erfc

__all__ = ["lower_probability", "upper_probability"]

Value = Any

_LARGE, _CLOSE = 50.0, 0.3
# For Q of a < 1: from here on the continued fraction is used.
_FAR = 0.5
# 2 / 3 in two parts.
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def _constant(o: Any, x: Value, value: float) -> Value:
    return o.full_like(x, value)


def _rest(o: Any, x: Pair) -> Pair:
    """One minus a probability."""
    found = exact_sum(o, _constant(o, x.high, 1), o.neg(x.high))
    return Pair(found.high, o.sub(found.low, x.low))


def _complement_where(o: Any, is_rest: Value, x: Pair) -> Value:
    """A probability, or one minus it where ``is_rest``; not less than zero by rounding."""
    value = o.select(is_rest, joined(o, _rest(o, x)), joined(o, x))
    return o.max(value, _constant(o, value, 0))


def lower_probability(o: Any, loops: Any, a: Value, x: Value) -> Value:
    """P of positive finite numbers.

    Args:
      o: the namespace of ops, which keeps rounding errors.
      loops: the namespace for the loops.
      a: the parameter.
      x: the upper limit of the integral.
    """
    below, found = _by_loops(o, loops, a, x, o.max(a, _constant(o, a, 1)))
    above, expanded = _expanded(o, a, x)
    return o.select(
        _is_expanded(o, a, x),
        _complement_where(o, above, expanded),
        _complement_where(o, o.not_(below), found),
    )


def upper_probability(o: Any, loops: Any, a: Value, x: Value) -> Value:
    """Q of positive finite numbers; see `lower_probability`."""
    is_below_one = o.lt(a, _constant(o, a, 1))
    far, half = _constant(o, a, _FAR), _constant(o, a, 0.5)
    is_small = o.and_(is_below_one, o.lt(x, far))
    below, found = _by_loops(o, loops, a, x, o.select(is_below_one, far, a))
    small = _upper_of_small_parameter(o, o.select(is_small, a, half), o.select(is_small, x, half))
    above, expanded = _expanded(o, a, x)
    return o.select(
        _is_expanded(o, a, x),
        _complement_where(o, o.not_(above), expanded),
        o.select(is_small, small, _complement_where(o, below, found)),
    )


def _is_expanded(o: Any, a: Value, x: Value) -> Value:
    is_close = o.lt(o.abs(o.sub(x, a)), o.mul(a, _constant(o, a, _CLOSE)))
    return o.and_(o.gt(a, _constant(o, a, _LARGE)), is_close)


# ------------------------------------------------------------------------------------------ loops


def _by_loops(o: Any, loops: Any, a: Value, x: Value, edge: Value) -> tuple[Value, Pair]:
    """The mask of x below the edge, and P there and Q elsewhere.

    The elements that other methods compute take no iterations.
    """
    zero = _constant(o, a, 0)
    weight = gamma_weight(o, a, x)
    below, expanded = o.lt(x, edge), _is_expanded(o, a, x)
    in_series = o.and_(below, o.not_(expanded))
    in_fraction = o.not_(o.or_(below, expanded))
    series = _series(loops, a, x, o.select(in_series, _terms_of_series(o, x), zero))
    fraction = _fraction(loops, a, x, o.select(in_fraction, _terms_of_fraction(o, x), zero))
    lower = product(o, quotient(o, weight, Pair(a)), series)
    upper = quotient(o, weight, fraction)
    return below, Pair(*(o.select(below, *parts) for parts in zip(lower, upper, strict=True)))


def _terms_of_series(o: Any, x: Value) -> Value:
    """The number of terms that count in f64, for x up to a + 1; of large a, for x up to 0.7 a."""
    number = o.add(_constant(o, x, 16), o.mul(_constant(o, x, 8.5), o.sqrt(x)))
    return o.floor(o.min(number, _constant(o, x, 112)))


def _terms_of_fraction(o: Any, x: Value) -> Value:
    """The number of terms that count in f64, for x from max(a, 0.5) on."""
    return o.floor(o.add(_constant(o, x, 28), o.div(_constant(o, x, 110), x)))


def _series(o: Any, a: Value, x: Value, terms: Value) -> Pair:
    """The sum 1 + x / (a + 1) (1 + x / (a + 2) (1 + ...))."""

    def step(n: Value, total: Pair, a: Value, x: Value) -> Pair:
        ratio = quotient(o, product(o, Pair(x), total), exact_sum(o, a, n))
        found = exact_sum(o, _constant(o, a, 1), ratio.high)
        return Pair(found.high, sum_of_lows(o, found.low, ratio.low))

    return backwards(o, terms, Pair(o.div(a, a), o.sub(a, a)), step, a, x)


def _fraction(o: Any, a: Value, x: Value, terms: Value) -> Pair:
    """The inverse of Q / w: b(0) + 1 (a - 1) / (b(1) + 2 (a - 2) / ...), b(n) = x - a + 2n + 1."""

    def divisor(a: Value, x: Value, n: Value) -> Pair:
        apart = exact_sum(o, x, o.neg(a))
        found = exact_sum(o, apart.high, o.add(o.add(n, n), _constant(o, n, 1)))
        return Pair(found.high, sum_of_lows(o, found.low, apart.low))

    def step(n: Value, total: Pair, a: Value, x: Value) -> Pair:
        above = product(o, Pair(n), exact_sum(o, a, o.neg(n)))
        ratio = quotient(o, above, total)
        below = divisor(a, x, o.sub(n, _constant(o, n, 1)))
        found = exact_sum(o, below.high, ratio.high)
        return Pair(found.high, sum_of_lows(o, found.low, below.low, ratio.low))

    return backwards(o, terms, divisor(a, x, terms), step, a, x)


# ------------------------------------------------------------------------- small a, for Q


def _upper_of_small_parameter(o: Any, a: Value, x: Value) -> Value:
    """Q of a < 1 and x < 0.5: -expm1(l) - exp(l) a t.

    Here exp(l) = x**a / gamma(a + 1), and t is the sum of (-x)**k / ((a + k) k!) from k = 1 on.
    """
    half = exact_sum(o, a, _constant(o, a, -0.5))
    by_gamma = polynomial(o, half.high, LGAMMA_QUOTIENT, steps=2, t_low=half.low)
    by_power = logarithm(o, Pair(x, _constant(o, x, 0)))
    found = exact_sum(o, by_power.high, by_gamma.high)
    low = sum_of_lows(o, found.low, by_power.low, by_gamma.low)
    exponent = product(o, Pair(a), Pair(found.high, low))
    power = o.exp(exponent.high)
    first = o.add(o.expm1(exponent.high), o.mul(power, exponent.low))
    total = _constant(o, x, 0)
    for k in range(18, 0, -1):
        inner = o.sub(o.div(_constant(o, a, 1), o.add(a, _constant(o, a, k))), total)
        total = o.mul(o.mul(x, _constant(o, x, 1 / k)), inner)
    return o.sub(o.mul(o.mul(power, a), total), first)


# ------------------------------------------------------------------------------- large a


def _expanded(o: Any, a: Value, x: Value) -> tuple[Value, Pair]:
    """The mask of x above a, and Q there and P elsewhere, by Temme's expansion.

    With m = x / a - 1 and eta**2 / 2 = m - log1p(m), it is exp(-a eta**2 / 2) times the sum of
    erfcx(sqrt(a / 2) eta) / 2 and a series in powers of eta and 1 / a.
    """
    expanded = _is_expanded(o, a, x)
    large = _constant(o, a, 2 * _LARGE)
    a, x = o.select(expanded, a, large), o.select(expanded, x, large)
    zero = _constant(o, a, 0)
    above = o.gt(x, a)
    # Exact: the numbers are within a factor of two of each other.
    apart = o.sub(x, a)
    # With s = m / (m + 2), m - log1p(m) is s (m - 2/3 s**2 - 2/5 s**4 - ...).
    s = quotient(o, Pair(apart), exact_sum(o, x, a))
    square = product(o, s, s)
    tail = polynomial(o, square.high, [2 / (2 * k + 3) for k in range(1, 12)])
    tail = product(o, square, tail)
    series = exact_sum(o, _constant(o, a, _TWO_THIRDS[0]), tail.high)
    series = Pair(series.high, o.add(series.low, o.add(tail.low, _constant(o, a, _TWO_THIRDS[1]))))
    excess = product(o, product(o, square, series), Pair(a))
    rest = exact_sum(o, apart, o.neg(excess.high))
    rest = product(o, s, Pair(rest.high, o.sub(rest.low, excess.low)))
    root = o.sqrt(o.max(rest.high, zero))
    eta = o.div(root, o.sqrt(o.mul(a, _constant(o, a, 0.5))))
    signed = o.select(above, eta, o.neg(eta))
    total = horner(o, signed, TEMME[-1])
    for row in reversed(TEMME[:-1]):
        total = o.add(o.div(total, a), horner(o, signed, row))
    total = o.div(total, o.sqrt(o.mul(a, _constant(o, a, 2 * math.pi))))
    total = o.select(above, total, o.neg(total))
    erfcx = scaled_erfc(o, root, precise=True)
    half = _constant(o, a, 0.5)
    factor = exact_sum(o, o.mul(erfcx.high, half), total)
    factor = Pair(factor.high, o.add(factor.low, o.mul(erfcx.low, half)))
    # Beyond this the exponential is 0.
    most = _constant(o, a, 1000)
    low = o.select(o.lt(rest.high, most), rest.low, zero)
    power, n = exponential(o, Pair(o.neg(o.min(rest.high, most)), o.neg(low)))
    return above, Pair(*(scaled(o, part, n) for part in product(o, exact_sum(o, *power), factor)))
