"""Hypergeometric functions of real numbers: `hyp1f1`, `hyp2f1`.

Each is computed in several ways at once: by power series after the transformations that keep the
function, by asymptotic series, by series around 1, and by recurrences from small parameters. Sums
know the size of their terms, so that the way that loses the fewest digits is chosen. Digital
Library of Mathematical Functions, chapters 13 and 15; J. Pearson, S. Olver, M. Porter: Numerical
Methods for the Computation of the Confluent and Gauss Hypergeometric Functions (2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon._transformations.differentiate import jvp
from gnomon.scipy._gamma_functions import real_arguments
from gnomon.scipy._hypergeometric_sums import (
    LIMIT,
    Estimate,
    Series,
    accuracy,
    best,
    descend,
    difference,
    gammas,
    is_pole,
    quotient,
    sum_series,
)

__all__ = ["hyp1f1", "hyp2f1"]


def _by_value(raw: Callable[..., Array], place: int) -> Callable[..., Array]:
    """The contribution of the argument at ``place`` to a tangent, linear in the tangent ``t``."""

    def contribution(t: Array, out: Array, *primals: Array) -> Array:
        def alone(x: Array) -> Array:
            return raw(*primals[:place], x, *primals[place + 1 :])

        x = primals[place]
        return t * jvp(alone, (x,), (lax.full_like(x, 1),))[1]

    return contribution


def _never_defined(c: Array, *numerators: Array) -> Array:
    """Whether ``c`` gives a term of the series a pole before a numerator parameter ends it."""
    ends = gnp.zeros(c.shape, bool)
    for a in numerators:
        ends |= is_pole(a) & (a > c)
    return is_pole(c) & ~ends


def _times(estimate: Estimate, factor: Array, exponent: Array) -> Estimate:
    """A product with a power whose exponent, times a logarithm, is ``exponent``."""
    lost = accuracy(factor) * gnp.abs(lax.stop_gradient(exponent))
    return Estimate(estimate.value * factor, estimate.error + lost)


def _only(usable: Array, estimate: Estimate) -> Estimate:
    return Estimate(estimate.value, gnp.where(usable, estimate.error, np.inf))


def _worse(estimate: Estimate, lost: Array) -> Estimate:
    return Estimate(estimate.value, estimate.error + lost)


def _reduced(p: Array) -> tuple[Array, Array]:
    """A parameter in [0, 1) from which whole steps down lead to ``p``, and their number."""
    steps = lax.stop_gradient(gnp.where(p < 0, -gnp.floor(p), 0))
    return p + steps, steps


# ------------------------------------------------------------------------------------------- 1F1


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function 1F1(a; b; x).

    Args:
      a, b, x: real arrays or scalars.
    Returns:
      An array of the broadcast shape; infinite where ``b`` is zero or a negative integer, unless
      the series ends first, or ``a`` is equal to ``b``; nan where half of the digits are lost.
    Raises:
      ValueError: an argument is complex.

    Example:
      >>> print(hyp1f1(1.0, 1.0, 1.0).round(4))
      2.7183
    """
    return _hyp1f1(*real_arguments("hyp1f1", a, b, x))


def _confluent(a: Array, b: Array, x: Array) -> Array:
    # By Kummer's transformation, 1F1(a; b; x) is exp(x) 1F1(b - a; b; -x).
    turned, size = x < 0, gnp.abs(x)
    rest, rounded = difference(b, a)
    p = gnp.where(turned, rest, a)
    low, high = gnp.exp(gnp.minimum(x, 0) / 2), gnp.maximum(x, 0)
    reduced, steps = _reduced(p)
    far = gnp.maximum(size, 1)
    direct, kummer, start, before, fallen = sum_series(
        [
            Series(a, None, b, x),
            Series(rest, None, b, -x, gnp.exp(x / 2)),
            Series(reduced, None, b, size, low),
            Series(reduced - 1, None, b, size, low),
            Series(b - p, 1 - p, None, 1 / far, diverges=True),
        ]
    )

    def terms(k: Array, older: Array, newer: Array) -> tuple[Array, Array]:
        at = reduced - k
        return at * older / (b - at), (b - 2 * at - size) * newer / (b - at)

    lost = gnp.where(turned, rounded, 0)
    recurrence, near_zeros = [
        _worse(_times(estimate, low, x), lost) for estimate in descend(start, before, steps, terms)
    ]
    of_b, of_p, of_rest = gammas(b, p, b - p)
    log = high + (p - b) * lax.log(far)
    leading = quotient([of_b], [of_p], log)
    # The smaller part of the asymptotic form is left out.
    ratio = of_p.log - of_rest.log - size + (b - 2 * p) * lax.log(far)
    left = gnp.where(of_rest.pole, 0, lax.exp(lax.stop_gradient(ratio)))
    error = fallen.error + leading.error + left
    asymptotic = Estimate(leading.value * fallen.value, error)
    return best(
        [
            direct,
            _worse(_times(kummer, gnp.exp(x / 2), x), rounded),
            recurrence,
            _only((size > 8) & ~of_p.pole, asymptotic),
        ],
        near_zeros,
    )


def _confluent_at_poles(a: Array, b: Array, x: Array) -> Array:
    bad = _never_defined(b, a)
    value = gnp.where(bad, np.inf, _confluent(a, gnp.where(bad, 1, b), x))
    value = gnp.where(a == b, lax.exp(x), value)
    return gnp.where(gnp.equal(a, 0), 1, value)


_hyp1f1 = custom_jvp(_confluent_at_poles)
_hyp1f1.defjvps(
    _by_value(_confluent, 0),
    _by_value(_confluent, 1),
    lambda t, out, a, b, x: t * a / b * _hyp1f1(a + 1, b + 1, x),
)


# ------------------------------------------------------------------------------------------- 2F1


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's hypergeometric function 2F1(a, b; c; x).

    Args:
      a, b, c, x: real arrays or scalars.
    Returns:
      An array of the broadcast shape; infinite where ``c`` is zero or a negative integer, and for
      ``x > 1``, unless the series ends first, or an upper parameter is equal to ``c``; nan where
      half of the digits are lost.
    Raises:
      ValueError: an argument is complex.

    Example:
      >>> print(hyp2f1(1.0, 1.0, 2.0, 0.5).round(4))
      1.3863
    """
    return _hyp2f1(*real_arguments("hyp2f1", a, b, c, x))


def _gauss(a: Array, b: Array, c: Array, x: Array) -> Array:
    """The function for x < 1, or for a finite sum, if c is not a pole."""
    ends = is_pole(a) | is_pole(b)
    inside = x < 1
    base = gnp.where(inside, 1 - x, 1)
    log = lax.log(base)
    z = gnp.where(inside, -x / base, 0)
    negative = x < 0

    without_a, lost_a = difference(c, a)
    without_b, lost_b = difference(c, b)

    def scaled(p: Array, q: Array, w: Array, power: Array | float, usable: Array) -> Any:
        """A series times a power of 1 - x, half of which is a factor of the first term."""
        usable &= (gnp.abs(w) < 1) | is_pole(p) | is_pole(q)
        exponent = power * log
        half = gnp.exp(exponent / 2)
        return Series(p, q, c, gnp.where(usable, w, 0), half), half, exponent, usable

    # The recurrence lowers the parameter that is the least of a pair.
    pairs = (
        (a, gnp.where(negative, without_b, b), gnp.where(negative, -a, 0)),
        (
            gnp.where(negative, b, without_b),
            without_a,
            gnp.where(negative, -b, c - a - b),
        ),
    )
    least = [gnp.minimum(p, q) for p, q, _ in pairs]
    other = least[1] < gnp.where(negative | (least[0] >= 0), least[0], -np.inf)
    p, q, power = (gnp.where(other, v, u) for u, v in zip(*pairs, strict=True))
    p, q = gnp.minimum(p, q), gnp.maximum(p, q)
    w = gnp.where(negative, z, x)
    reduced, steps = _reduced(p)
    ways = [
        scaled(a, b, x, lax.full_like(x, 0), inside | ends),
        scaled(without_a, without_b, x, c - a - b, inside),
        scaled(a, without_b, z, -a, inside),
        scaled(b, without_a, z, -b, inside),
        scaled(reduced, q, w, power, inside),
        scaled(reduced - 1, q, w, power, inside),
    ]
    # Around 1, for the first pair.
    second = gnp.where(negative, without_b, b)
    close = inside & (w > 0.5)
    y = gnp.where(close, gnp.where(negative, 1 / base, 1 - x), 0.5)
    near_one = _NearOne(a, second, c, y)
    found = sum_series([way[0] for way in ways] + near_one.series)
    rounded = lax.full_like(x, 0), lost_a + lost_b, lost_b, lost_a
    estimates = [
        _only(usable, _worse(_times(estimate, half, exponent), lost))
        for estimate, lost, (_, half, exponent, usable) in zip(found, rounded, ways, strict=False)
    ]

    def terms(k: Array, older: Array, newer: Array) -> tuple[Array, Array]:
        at = reduced - k
        return (
            at * (1 - w) * older / (c - at),
            (c - 2 * at - (q - at) * w) * newer / (c - at),
        )

    _, half, exponent, usable = ways[4]
    lost = gnp.where(negative, gnp.where(other, lost_a, lost_b), gnp.where(other, rounded[1], 0))
    recurrence, near_zeros = [
        _only(usable, _worse(_times(estimate, half, exponent), lost))
        for estimate in descend(found[4], found[5], steps, terms)
    ]
    exponent = gnp.where(negative, -a, 0) * log
    around_one = _times(near_one.joined(found[len(ways) :]), gnp.exp(exponent), exponent)
    return best([*estimates[:4], recurrence, _only(close, around_one)], near_zeros)


class _NearOne:
    """2F1(a, b; c; 1 - y) by series in small y > 0."""

    def __init__(self, a: Array, b: Array, c: Array, y: Array) -> None:
        self.y = y
        excess = c - a - b
        self.whole = gnp.round(excess)
        self.distance = lax.stop_gradient(gnp.abs(excess - self.whole))
        self.is_whole = self.distance <= accuracy(y) ** 0.5 / 4
        # DLMF 15.8.4. Near a whole excess, each of the two series has a pole, but their sum is
        # finite.
        apart = gnp.where(self.is_whole, 0.5, excess)
        d = a + b + apart
        # Euler's transformation makes a whole excess positive.
        self.negative = self.whole < 0
        self.m = m = gnp.where(self.is_whole, gnp.abs(self.whole), 1)
        self.a1, self.b1 = a1, b1 = [gnp.where(self.negative, c - v, v) for v in (a, b)]
        self.values = gammas(
            *(d, apart, -apart, d - a, d - b, a, b),
            *(a1 + b1 + m, gnp.maximum(m, 1), m + 1, a1 + m, b1 + m, a1, b1),
        )
        self.apart = apart
        self.series = [Series(a, b, 1 - apart, y), Series(d - a, d - b, 1 + apart, y)]

    def joined(self, sums: Sequence[Estimate]) -> Estimate:
        """The function, from the sums of the two series."""
        of_d, of_apart, of_minus, of_d_a, of_d_b, of_a, of_b = self.values[:7]
        first = quotient([of_d, of_apart], [of_d_a, of_d_b])
        second = quotient([of_d, of_minus], [of_a, of_b], self.apart * lax.log(self.y))
        parted = _sum_of_products([first, second], sums)
        exponent = gnp.where(self.negative & self.is_whole, self.whole, 0) * lax.log(self.y)
        whole = _times(_integer_excess(self), gnp.exp(exponent), exponent)
        # A power of y and slopes of gamma functions are left out.
        slope = gnp.abs(lax.log(self.y)) + gnp.log1p(self.m) + 4
        whole = _worse(whole, lax.stop_gradient(self.distance * slope))
        return Estimate(
            gnp.where(self.is_whole, whole.value, parted.value),
            gnp.where(self.is_whole, whole.error, parted.error),
        )


def _sum_of_products(factors: Sequence[Estimate], others: Sequence[Estimate]) -> Estimate:
    total: Any = 0.0
    lost: Any = 0.0
    for x, y in zip(factors, others, strict=True):
        product = x.value * y.value
        total = total + product
        error = gnp.where(gnp.equal(x.value, 0), 0, x.error + y.error)
        lost = lost + gnp.abs(lax.stop_gradient(product)) * error
    return Estimate(total, lost / gnp.abs(lax.stop_gradient(total)))


def _integer_excess(near: _NearOne) -> Estimate:
    """2F1(a, b; a + b + m; 1 - y) for whole m >= 0: DLMF 15.8.10."""
    a, b, m, y = near.a1, near.b1, near.m, near.y
    of_c, of_m, of_next, of_a_m, of_b_m, of_a, of_b = near.values[7:]
    zero = lax.full_like(y, 0)
    unit = accuracy(y)

    def finite(state: Any) -> Any:
        term, total, size, k = state
        live = k < m
        term = gnp.where(live, term, 0)
        ratio = (a + k) * (b + k) / ((k + 1) * gnp.where(k + 1 == m, 1, k + 1 - m)) * y
        magnitude = gnp.abs(lax.stop_gradient(term))
        return gnp.where(live, term * ratio, 0), total + term, size + magnitude, k + 1

    start: Any = (lax.full_like(y, 1), zero, zero, gnp.zeros((), y.dtype))
    _, head, size, _ = lax.while_loop(lambda s: gnp.any(s[3] < m) & (s[3] < LIMIT), finite, start)
    factor = quotient([of_m, of_c], [of_a_m, of_b_m])
    head = gnp.where(m > 0, factor.value * head, 0)
    lost = gnp.where(m > 0, gnp.abs(factor.value) * size * (2 * unit + factor.error), 0)

    def tail(state: Any) -> Any:
        weight, psi, total, size, k, _ = state
        term = weight * (log_y + psi)
        ratio = (a + m + k) * (b + m + k) / ((k + 1) * (k + m + 1)) * y
        psi = psi - 1 / (k + 1) - 1 / (k + m + 1) + 1 / (a + m + k) + 1 / (b + m + k)
        magnitude = lax.stop_gradient(gnp.abs(weight) * (gnp.abs(log_y) + gnp.abs(psi)))
        return weight * ratio, psi, total + term, size + magnitude, k + 1, term

    log_y = lax.log(y)
    slopes = lax.digamma(gnp.stack([zero + 1, m + 1, a + m, b + m]))
    psi = -slopes[0] - slopes[1] + slopes[2] + slopes[3]
    first = lax.exp(-of_next.log)
    start = first, psi, zero, zero, gnp.zeros((), y.dtype), lax.full_like(y, 1)

    def unfinished(state: Any) -> Any:
        _, _, total, _, k, term = state
        pending = gnp.isfinite(total) & (gnp.abs(term) * (k + 1) > unit / 8 * gnp.abs(total))
        return (gnp.any(pending) | (k < 2)) & (k < LIMIT)

    _, _, total, size, _, _ = lax.while_loop(unfinished, tail, start)
    sign = gnp.where(gnp.equal(m % 2, 0), 1, -1)
    factor = quotient([of_c], [of_a, of_b], m * log_y)
    lost = lost + gnp.abs(factor.value) * size * (2 * unit + factor.error)
    value = head - sign * factor.value * total
    return Estimate(value, lax.stop_gradient(lost / gnp.abs(value)))


def _gauss_everywhere(a: Array, b: Array, c: Array, x: Array) -> Array:
    finite = is_pole(a) | is_pole(b)
    excess = c - a - b
    bad = _never_defined(c, a, b)
    regular = gnp.where(is_pole(c), 1, c)
    above_one = gnp.where(excess > 0, excess, 1)
    of_c, of_excess, *below = gammas(regular, above_one, c - a, c - b)
    at_one = quotient([of_c, of_excess], below).value
    inside = (x < 1) | finite
    value = _gauss(a, b, gnp.where(bad, 1, c), gnp.where(inside, x, 0.5))
    one = gnp.equal(x, 1) & ~finite
    value = gnp.where(one, gnp.where(excess > 0, at_one, np.inf), value)
    value = gnp.where((x > 1) & ~finite, np.inf, value)
    value = gnp.where(bad, np.inf, value)
    # An upper parameter that is equal to the lower one cancels it.
    same = (gnp.equal(a, c) | gnp.equal(b, c)) & (x < 1)
    exponent = gnp.where(gnp.equal(a, c), b, a)
    power = gnp.exp(-exponent * lax.log1p(-gnp.where(same, x, 0)))
    value = gnp.where(same, power, value)
    no_step = gnp.equal(a, 0) | gnp.equal(b, 0)
    trivial = gnp.equal(x, 0) | (no_step & gnp.not_equal(c, 0))
    return gnp.where(trivial, 1, value)


_hyp2f1 = custom_jvp(_gauss_everywhere)
_hyp2f1.defjvps(
    _by_value(_gauss, 0),
    _by_value(_gauss, 1),
    _by_value(_gauss, 2),
    lambda t, out, a, b, c, x: t * a * b / c * _hyp2f1(a + 1, b + 1, c + 1, x),
)
