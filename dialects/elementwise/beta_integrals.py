"""The regularized incomplete beta function.

It is computed by the continued fraction of DLMF 8.17.22, which converges fast on one side of the
mean of the beta distribution; the other side follows by symmetry.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.dialects.combinators import nary
from gnomon.dialects.elementwise.double_words import (
    Pair,
    backwards,
    exact_sum,
    joined,
    product,
    quotient,
    sum_of_lows,
)
from gnomon.dialects.elementwise.expansion import in_f64
from gnomon.dialects.elementwise.gamma_integrals import jvp_known_partials
from gnomon.dialects.elementwise.integral_weights import beta_weight
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost
from gnomon.dialects.types import FLOATING

Value = Any

# The most pairs of terms of a fraction; parameters that need over 1.5 times as many give nan.
_MOST_TERMS = 1e5


def _fraction(o: Any, a: Value, b: Value, x: Pair, terms: Value) -> Pair:
    """The inverse of the continued fraction, two terms at a time from the last to the first."""
    low = () if x.low is None else (x.low,)

    def plus_one(value: Pair) -> Pair:
        found = exact_sum(o, o.full_like(value.high, 1), value.high)
        return Pair(found.high, sum_of_lows(o, found.low, value.low))

    def over(above: Pair, below: Pair, total: Pair) -> Pair:
        return plus_one(quotient(o, above, product(o, below, total)))

    def minus(value: Pair) -> Pair:
        return Pair(o.neg(value.high), None if value.low is None else o.neg(value.low))

    def step(n: Value, total: Pair, a: Value, b: Value, *x: Value) -> Pair:
        one = o.full_like(n, 1)
        place, whole = exact_sum(o, a, o.add(n, n)), exact_sum(o, a, b)
        shifted = exact_sum(o, whole.high, n)
        shifted = Pair(shifted.high, sum_of_lows(o, shifted.low, whole.low))
        before, after = (exact_sum(o, place.high, side) for side in (o.neg(one), one))
        before, after = (Pair(p.high, sum_of_lows(o, p.low, place.low)) for p in (before, after))
        odd = product(o, product(o, exact_sum(o, a, n), shifted), Pair(*x))
        total = over(minus(odd), product(o, place, after), total)
        even = product(o, product(o, Pair(n), exact_sum(o, b, o.neg(n))), Pair(*x))
        return over(even, product(o, before, place), total)

    start = Pair(o.div(a, a), o.sub(a, a))
    total = backwards(o, terms, start, step, a, b, x.high, *low)
    first = product(o, exact_sum(o, a, b), x)
    return over(minus(first), exact_sum(o, a, o.full_like(a, 1)), total)


def _terms(o: Any, a: Value, b: Value, x: Value) -> Value:
    """The number of pairs of terms that count in f64, for x up to about the mean."""

    def number(value: float) -> Value:
        return o.full_like(a, value)

    # Far along the fraction, each pair of terms contributes a constant factor; where that is near
    # one, the fraction has converged before.
    root = o.sqrt(o.sub(number(1), x))
    rate = o.log(o.div(o.add(number(1), root), o.sub(number(1), root)))
    far = o.div(number(18.75), rate)
    far = o.min(far, o.add(number(24), o.mul(number(2.2), o.sqrt(o.max(a, b)))))
    # Around the mean, the fraction converges the later the larger the smaller parameter is.
    near = o.mul(number(2.2), o.sqrt(o.div(o.min(a, b), o.add(number(1), _smaller_ratio(o, a, b)))))
    return o.floor(o.add(o.add(far, near), number(8)))


def _smaller_ratio(o: Any, a: Value, b: Value) -> Value:
    return o.div(o.min(a, b), o.max(a, b))


def _regular(o: Any, loops: Any, a: Value, b: Value, x: Value) -> Value:
    one, two = o.full_like(a, 1), o.full_like(a, 2)
    y = exact_sum(o, one, o.neg(x))
    total = o.add(a, o.add(b, two))
    is_mirrored = o.gt(x, o.div(o.add(a, one), total))
    p, q = o.select(is_mirrored, b, a), o.select(is_mirrored, a, b)
    zero = o.full_like(a, 0)
    u = Pair(o.select(is_mirrored, y.high, x), o.select(is_mirrored, y.low, zero))
    terms = _terms(o, p, q, u.high)
    fraction = _fraction(loops, p, q, u, o.min(terms, o.full_like(a, _MOST_TERMS)))
    value = quotient(o, quotient(o, beta_weight(o, a, b, x), Pair(p)), fraction)
    rest = exact_sum(o, one, o.neg(value.high))
    found = o.select(is_mirrored, o.add(rest.high, o.sub(rest.low, value.low)), joined(o, value))
    lost = o.gt(terms, o.full_like(a, 1.5 * _MOST_TERMS))
    return o.select(lost, o.full_like(a, np.nan), found)


def _betainc(o: Any, loops: Any, a: Value, b: Value, x: Value) -> Value:
    zero, one, nan = (o.full_like(a, v) for v in (0, 1, np.nan))
    inf = o.full_like(a, np.inf)
    regular = o.and_(o.and_(o.gt(a, zero), o.lt(a, inf)), o.and_(o.gt(b, zero), o.lt(b, inf)))
    regular = o.and_(regular, o.and_(o.gt(x, zero), o.lt(x, one)))
    half = o.full_like(a, 0.5)
    value = _regular(
        o,
        loops,
        o.select(regular, a, one),
        o.select(regular, b, one),
        o.select(regular, x, half),
    )
    # All mass is at zero or at one.
    at_zero, at_one = o.or_(o.eq(a, zero), o.eq(b, inf)), o.or_(o.eq(b, zero), o.eq(a, inf))
    is_one = o.or_(o.eq(x, one), at_zero)
    edge = o.select(is_one, one, zero)
    edge = o.select(o.and_(at_one, o.lt(x, one)), zero, edge)
    edge = o.select(o.and_(at_zero, o.eq(x, zero)), zero, edge)
    outside = o.or_(o.or_(o.lt(a, zero), o.lt(b, zero)), o.or_(o.lt(x, zero), o.gt(x, one)))
    lost = o.or_(o.or_(o.ne(a, a), o.ne(b, b)), o.ne(x, x))
    lost = o.or_(o.or_(lost, outside), o.and_(at_zero, at_one))
    return o.select(lost, nan, o.select(regular, value, edge))


def _density(a: ir.Value, b: ir.Value, x: ir.Value, out: ir.Value) -> ir.Value:
    one = full_like(x, 1)
    powers = ops.add(
        ops.mul(ops.sub(a, one), ops.log(x)), ops.mul(ops.sub(b, one), ops.log1p(ops.neg(x)))
    )
    beta = ops.sub(ops.add(ops.lgamma(a), ops.lgamma(b)), ops.lgamma(ops.add(a, b)))
    return ops.exp(ops.sub(powers, beta))


regularized_incomplete_beta = nary(
    "regularized_incomplete_beta",
    3,
    doc="the cumulative distribution function at z of the beta distribution of parameters x and y",
    cost=Cost.FUNCTION,
    dtypes=FLOATING,
    jvp=jvp_known_partials("a parameter", "regularized_incomplete_beta", (None, None, _density)),
    **in_f64("regularized_incomplete_beta", _betainc),
)
