"""The weights x**a exp(-x) / gamma(a) and x**a (1 - x)**b / beta(a, b) in f64.

The exponents of such products cancel: for parameters of a thousand, terms of a thousand have a sum
of one. So the logarithms and their sums are pairs, and by Stirling's formula all large terms are
multiples of two logarithms of ratios, which are near one where the weight is large. Parameters
below `_FAR` are increased by it, and the factors of the recurrence make up for that.
"""

from __future__ import annotations

from typing import Any

from gnomon.dialects.elementwise.double_words import (
    Pair,
    exact_product,
    exact_sum,
    exponential,
    horner,
    logarithm,
    product,
    quotient,
    scaled,
    sum_of_lows,
)
from gnomon.dialects.elementwise.gamma_functions import STIRLING

__all__ = ["beta_weight", "gamma_weight", "stirling_rest"]

Value = Any

# From here on Stirling's series is exact to f64.
_FAR = 7
# Beyond these exponents the weight is 0, or infinite.
_LEAST, _MOST = -1000.0, 800.0
# Below `_SMALL`, a number is multiplied by 2**_PLACES before its logarithm is taken.
_SMALL, _PLACES = 2.0**-900, 120
_LN2 = (0xB17217F7 / 2.0**32, 0xD1CF79ABC9E3B398 / 2.0**96)


def stirling_rest(o: Any, a: Value) -> Value:
    """The difference of lgamma(a) and (a - 1/2) log(a) - a + log(2 pi) / 2, for a >= 7."""
    inverse = o.div(o.full_like(a, 1), a)
    return o.mul(inverse, horner(o, o.mul(inverse, inverse), STIRLING))


def _shifted(o: Any, a: Pair) -> tuple[Pair, Pair, Value]:
    """A parameter of at least `_FAR`, a factor, and the step by which the parameter was increased.

    The factor is a (a + 1) ... over as many powers of the increased parameter.
    """
    zero, one, far = (o.full_like(a.high, value) for value in (0, 1, _FAR))
    is_small = o.lt(a.high, far)
    step = o.select(is_small, far, zero)
    total = exact_sum(o, a.high, step)
    moved = Pair(total.high, sum_of_lows(o, total.low, a.low))
    start = Pair(o.select(is_small, a.high, one), o.select(is_small, a.low, zero))
    end = Pair(o.select(is_small, moved.high, far), o.select(is_small, moved.low, zero))
    rising = start
    for k in range(1, _FAR):
        term = exact_sum(o, start.high, o.full_like(one, k))
        rising = product(o, rising, Pair(term.high, sum_of_lows(o, term.low, start.low)))
    square = product(o, end, end)
    power = product(o, product(o, product(o, square, square), square), end)
    factor = quotient(o, rising, power)
    factor = Pair(o.select(is_small, factor.high, one), o.select(is_small, factor.low, zero))
    return moved, factor, step


def _times_log(o: Any, a: Value, x: Pair, over: Pair) -> Pair:
    """``a log(x / over)``."""
    places = o.full_like(x.high, 2.0**_PLACES)
    is_small = o.lt(x.high, o.full_like(x.high, _SMALL))
    one, zero = o.full_like(x.high, 1), o.full_like(x.high, 0)
    factor = o.select(is_small, places, one)
    x = Pair(*(None if part is None else o.mul(part, factor) for part in x))
    found = logarithm(o, quotient(o, x, over), precise=True)
    high, low = (o.select(is_small, o.full_like(one, -_PLACES * part), zero) for part in _LN2)
    total = exact_sum(o, high, found.high)
    return product(o, Pair(a), Pair(total.high, sum_of_lows(o, total.low, found.low, low)))


def _sum(o: Any, *terms: Pair) -> Pair:
    total = terms[0]
    for term in terms[1:]:
        found = exact_sum(o, total.high, term.high)
        total = Pair(found.high, sum_of_lows(o, found.low, total.low, term.low))
    return total


# 1 / (2 pi) in two parts.
_OVER_2PI = (0.15915494309189535, -9.839338337591243e-18)


def _square_root(o: Any, x: Pair) -> Pair:
    """The square root of a positive pair."""
    root = o.sqrt(x.high)
    back, lost = exact_product(o, root, root)
    rest = sum_of_lows(o, o.sub(x.high, back), None if lost is None else o.neg(lost), x.low)
    return Pair(root, None if x.low is None else o.div(rest, o.add(root, root)))


def _weight(o: Any, exponent: Pair, factor: Pair, square: Pair) -> Pair:
    """The exponential of a pair, times a pair and the square root of a pair over 2 pi."""
    least, most = o.full_like(square.high, _LEAST), o.full_like(square.high, _MOST)
    zero = o.full_like(square.high, 0)
    # Products of huge parameters overflow to infinity, and their low parts are nan.
    is_plain = o.and_(o.gt(exponent.high, least), o.lt(exponent.high, most))
    high = o.min(o.max(exponent.high, least), most)
    power, n = exponential(o, Pair(high, o.select(is_plain, exponent.low, zero)))
    over = Pair(*(o.full_like(zero, part) for part in _OVER_2PI))
    root = _square_root(o, product(o, square, over))
    found = product(o, product(o, exact_sum(o, *power), factor), root)
    return Pair(*(scaled(o, part, n) for part in found))


def gamma_weight(o: Any, a: Value, x: Value) -> Pair:
    """``x**a exp(-x) / gamma(a)`` of positive finite numbers."""
    zero = o.full_like(a, 0)
    moved, factor, _ = _shifted(o, Pair(a, zero))
    apart = exact_sum(o, moved.high, o.neg(x))
    exponent = _sum(
        o, apart, _times_log(o, a, Pair(x, zero), moved), Pair(zero, moved.low),
        Pair(zero, o.neg(stirling_rest(o, moved.high))),
    )  # fmt: skip
    return _weight(o, exponent, factor, moved)


def beta_weight(o: Any, a: Value, b: Value, x: Value) -> Pair:
    """``x**a (1 - x)**b / beta(a, b)`` of positive finite numbers a, b, for 0 < x < 1."""
    zero, one = o.full_like(a, 0), o.full_like(a, 1)
    y = exact_sum(o, one, o.neg(x))
    moved_a, factor_a, step_a = _shifted(o, Pair(a, zero))
    moved_b, factor_b, step_b = _shifted(o, Pair(b, zero))
    total, factor, step = _shifted(o, exact_sum(o, a, b))
    rest = o.sub(stirling_rest(o, total.high), stirling_rest(o, moved_a.high))
    rest = o.sub(rest, stirling_rest(o, moved_b.high))
    exponent = _sum(
        o,
        _times_log(o, a, Pair(x, zero), quotient(o, moved_a, total)),
        _times_log(o, b, y, quotient(o, moved_b, total)),
        Pair(o.sub(o.add(step_a, step_b), step), rest),
    )
    factor = quotient(o, product(o, factor_a, factor_b), factor)
    square = product(o, quotient(o, moved_a, total), moved_b)
    return _weight(o, exponent, factor, square)
