"""The regularized incomplete beta function.

It is computed by the continued fraction of DLMF 8.17.22, which converges on one side of the mean of
the beta distribution; the other side follows by symmetry.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.dialects.combinators import nary
from gnomon.dialects.elementwise.expansion import in_f64
from gnomon.dialects.elementwise.gamma_integrals import jvp_known_partials
from gnomon.dialects.elementwise.integral_weights import beta_weight
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import FLOATING

Value = Any

_EPSILON = 2.0**-50
# With large parameters, rounding keeps some fractions from converging to the last digit.
_SETTLED = 1e-9


def _fraction(o: Any, a: Value, b: Value, x: Value) -> Value:
    """The continued fraction by Lentz's method, two terms at a time."""
    tiny = 1e-290

    def guarded(value: Value) -> Value:
        is_zero = o.lt(o.abs(value), o.full_like(value, tiny))
        return o.select(is_zero, o.full_like(value, tiny), value)

    def step(a: Value, b: Value, x: Value, *carries: Value) -> list[Value]:
        n, limit, c, d, h, _ = carries
        one = o.full_like(n, 1)
        n = o.add(n, one)
        place = o.add(a, o.add(n, n))
        even = o.div(o.mul(o.mul(n, o.sub(b, n)), x), o.mul(o.sub(place, one), place))
        odd = o.neg(
            o.div(
                o.mul(o.mul(o.add(a, n), o.add(o.add(a, b), n)), x),
                o.mul(place, o.add(place, one)),
            )
        )
        change = one
        for term in (even, odd):
            d = o.div(one, guarded(o.add(one, o.mul(term, d))))
            c = guarded(o.add(one, o.div(term, c)))
            change = o.mul(d, c)
            h = o.mul(h, change)
        return [n, limit, c, d, h, o.sub(change, one)]

    def pending(n: Value, limit: Value, c: Value, d: Value, h: Value, change: Value) -> Value:
        moves = o.gt(o.abs(change), o.full_like(n, _EPSILON))
        return o.and_(moves, o.lt(n, limit))

    one, zero = o.div(a, a), o.sub(a, a)
    first = o.div(o.mul(o.add(a, b), x), o.add(a, one))
    d = o.div(one, guarded(o.sub(one, first)))
    # The number of terms grows with the square root of the larger parameter.
    root = o.mul(o.full_like(a, 6), o.sqrt(o.max(a, b)))
    limit = o.min(o.add(o.full_like(a, 100), root), o.full_like(a, 1e5))
    n, _, _, _, h, change = o.loop(pending, step, [a, b, x], [zero, limit, one, d, d, one])
    lost = o.gt(o.abs(change), o.full_like(n, _SETTLED))
    return o.select(lost, o.full_like(n, np.nan), h)


def _regular(o: Any, a: Value, b: Value, x: Value) -> Value:
    one, two = o.full_like(a, 1), o.full_like(a, 2)
    y = o.sub(one, x)
    total = o.add(a, o.add(b, two))
    is_mirrored = o.gt(x, o.div(o.add(a, one), total))
    p, q = o.select(is_mirrored, b, a), o.select(is_mirrored, a, b)
    u = o.select(is_mirrored, y, x)
    weight = beta_weight(o, a, b, x)
    value = o.mul(o.div(weight, p), _fraction(o, p, q, u))
    return o.select(is_mirrored, o.sub(one, value), value)


def _betainc(o: Any, a: Value, b: Value, x: Value) -> Value:
    zero, one, nan = (o.full_like(a, v) for v in (0, 1, np.nan))
    inf = o.full_like(a, np.inf)
    regular = o.and_(o.and_(o.gt(a, zero), o.lt(a, inf)), o.and_(o.gt(b, zero), o.lt(b, inf)))
    regular = o.and_(regular, o.and_(o.gt(x, zero), o.lt(x, one)))
    half = o.full_like(a, 0.5)
    value = _regular(
        o, o.select(regular, a, one), o.select(regular, b, one), o.select(regular, x, half)
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
    dtypes=FLOATING,
    jvp=jvp_known_partials("a parameter", "regularized_incomplete_beta", (None, None, _density)),
    **in_f64("regularized_incomplete_beta", _betainc),
)
