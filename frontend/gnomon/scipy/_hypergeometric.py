"""Hypergeometric functions of real numbers: `hyp1f1`, `hyp2f1`.

They are computed by power series, after a transformation that moves the argument close to zero. A
sum ends when its terms have become small for all elements. Digital Library of Mathematical
Functions, chapters 13 and 15; J. Pearson, S. Olver, M. Porter: Numerical Methods for the
Computation of the Confluent and Gauss Hypergeometric Functions (2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon._transformations.differentiate import jvp
from gnomon.scipy._gamma_functions import gammasgn, real_arguments

__all__ = ["hyp1f1", "hyp2f1"]

_LIMIT = 2000  # the largest number of terms
_FAR = 80.0  # beyond this argument, asymptotic series are used


def _sum(ratio: Callable[[Array], Array], like: Array, diverges: bool = False) -> Array:
    """The sum of a series whose first term is one; ``ratio(k)`` is term k + 1 over term k.

    If the series ``diverges``, as asymptotic series do, it ends before its smallest term.
    """
    accuracy = float(np.finfo(like.dtype).eps) / 8

    def pending(term: Array, total: Array, k: Array) -> Array:
        # The derivatives by parameters, which are summed as well, converge a little later.
        return gnp.isfinite(total) & (gnp.abs(term) * (k + 1) > accuracy * gnp.abs(total))

    def unfinished(state: Any) -> Any:
        term, total, k = state
        return gnp.any(pending(term, total, k)) & (k < _LIMIT)

    def step(state: Any) -> Any:
        term, total, k = state
        following = term * ratio(k)
        if diverges:
            grows = (gnp.abs(following) > gnp.abs(term)) & (k > 4)
            following = gnp.where(grows, 0, following)
        live = pending(term, total, k)
        following = gnp.where(live, following, 0)
        return following, total + following, k + 1

    one = lax.full_like(like, 1)
    start = one, one, gnp.zeros((), like.dtype)
    total: Array = lax.while_loop(unfinished, step, start)[1]
    return total


def _by_value(raw: Callable[..., Array], place: int) -> Callable[..., Array]:
    """The contribution of the argument at ``place`` to a tangent, linear in the tangent ``t``."""

    def contribution(t: Array, out: Array, *primals: Array) -> Array:
        def alone(x: Array) -> Array:
            return raw(*primals[:place], x, *primals[place + 1 :])

        x = primals[place]
        return t * jvp(alone, (x,), (lax.full_like(x, 1),))[1]

    return contribution


def _is_pole(x: Array) -> Array:
    """Whether the gamma function has a pole at a number."""
    return (x <= 0) & (x == gnp.floor(x))


def _never_defined(c: Array, *numerators: Array) -> Array:
    """Whether ``c`` gives a term of the series a pole before a numerator parameter ends it."""
    ends = gnp.zeros(c.shape, bool)
    for a in numerators:
        ends |= _is_pole(a) & (a > c)
    return _is_pole(c) & ~ends


class _Gamma(NamedTuple):
    """Values of the gamma function: logarithms of magnitudes, signs, and a mask of poles."""

    log: Array
    sign: Array
    pole: Array


def _gammas(*xs: Array) -> list[_Gamma]:
    """The gamma function of several arrays by one op, since each such op takes long to compile."""
    stacked = gnp.stack(xs)
    pole = _is_pole(stacked)
    safe = gnp.where(pole, 1, stacked)
    log, sign = lax.lgamma(safe), gammasgn(safe)
    return [_Gamma(log[i], sign[i], pole[i]) for i in range(len(xs))]


def _quotient(above: Sequence[_Gamma], below: Sequence[_Gamma]) -> Array:
    """A quotient of products of gamma functions; zero where a denominator has a pole."""
    log, sign = lax.full_like(above[0].log, 0), lax.full_like(above[0].log, 1)
    zero = infinite = gnp.zeros(log.shape, bool)
    for value in above:
        log, sign, infinite = log + value.log, sign * value.sign, infinite | value.pole
    for value in below:
        log, sign, zero = log - value.log, sign * value.sign, zero | value.pole
    return gnp.where(zero, 0, gnp.where(infinite, np.inf, sign * lax.exp(gnp.where(zero, 0, log))))


# ------------------------------------------------------------------------------------------- 1F1


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function 1F1(a; b; x).

    Args:
      a, b, x: real arrays or scalars.
    Returns:
      An array of the broadcast shape; infinite where ``b`` is zero or a negative integer, unless
      the series ends first.
    Raises:
      ValueError: an argument is complex.

    Example:
      >>> print(hyp1f1(1.0, 1.0, 1.0).round(4))
      2.7183
    """
    return _hyp1f1(*real_arguments("hyp1f1", a, b, x))


def _confluent(a: Array, b: Array, x: Array) -> Array:
    far = gnp.abs(x) > _FAR
    near = gnp.where(far, 1, x)
    # For a negative argument, terms cancel unless the sum is finite: use Kummer's transformation.
    turned = (near < 0) & ~_is_pole(a)
    first, z = gnp.where(turned, b - a, a), gnp.where(turned, -near, near)
    total = _sum(lambda k: (first + k) / (b + k) * z / (k + 1), z)
    series = gnp.where(turned, lax.exp(gnp.where(turned, near, 0)), 1) * total

    up = gnp.where(far & (x > 0), x, 2 * _FAR)
    grown = _sum(lambda k: (b - a + k) * (1 - a + k) / ((k + 1) * up), up, diverges=True)
    of_b, of_a, of_rest = _gammas(b, a, b - a)
    growth = _quotient([of_b], [of_a]) * lax.exp(up + (a - b) * lax.log(up)) * grown
    down = gnp.where(far & (x < 0), -x, 2 * _FAR)
    fallen = _sum(lambda k: (a + k) * (a - b + 1 + k) / ((k + 1) * down), down, diverges=True)
    decay = _quotient([of_b], [of_rest]) * lax.exp(-a * lax.log(down)) * fallen
    return gnp.where(far, gnp.where(x > 0, growth, decay), series)


def _confluent_at_poles(a: Array, b: Array, x: Array) -> Array:
    bad = _never_defined(b, a)
    value = _confluent(a, gnp.where(bad, 1, b), x)
    value = gnp.where(a == b, lax.exp(x), value)
    return gnp.where(gnp.equal(a, 0), 1, gnp.where(bad, np.inf, value))


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
      ``x > 1``, unless the series ends first.
    Raises:
      ValueError: an argument is complex.

    Example:
      >>> print(hyp2f1(1.0, 1.0, 2.0, 0.5).round(4))
      1.3863
    """
    return _hyp2f1(*real_arguments("hyp2f1", a, b, c, x))


def _series(a: Array, b: Array, c: Array, z: Array) -> Array:
    return _sum(lambda k: (a + k) * (b + k) / ((c + k) * (k + 1)) * z, z)


def _gauss(a: Array, b: Array, c: Array, x: Array) -> Array:
    """The function for x < 1, if c is not a pole."""
    finite = _is_pole(a) | _is_pole(b)
    # Pfaff's transformation of negative arguments to [0, 1).
    turned = (x < 0) & ~finite
    base = gnp.where(turned, 1 - x, 1)
    second = gnp.where(turned, c - b, b)
    z = gnp.where(turned, x / (x - 1), x)
    close = (z > 0.9) & ~(finite | _is_pole(second))
    direct = _series(a, second, c, gnp.where(close, 0.5, z))
    near = _near_one(a, second, c, gnp.where(close, 1 - z, 0.5))
    return base ** gnp.where(turned, -a, 1) * gnp.where(close, near, direct)


def _near_one(a: Array, b: Array, c: Array, y: Array) -> Array:
    """2F1(a, b; c; 1 - y) by series in small y > 0."""
    excess = c - a - b
    whole = gnp.round(excess)
    accuracy = 50 * float(np.finfo(y.dtype).eps)
    is_whole = gnp.abs(excess - whole) < accuracy * gnp.maximum(1, gnp.abs(whole))
    # DLMF 15.8.4. Near a whole excess, each of the two series has a pole, but their sum is finite.
    apart = gnp.where(is_whole, 0.5, excess)
    d = a + b + apart
    # Euler's transformation makes a whole excess positive.
    negative = whole < 0
    m = gnp.where(is_whole, gnp.abs(whole), 1)
    a1, b1 = (gnp.where(negative, c - v, v) for v in (a, b))
    values = _gammas(
        *(d, apart, -apart, d - a, d - b, a, b),
        *(a1 + b1 + m, gnp.maximum(m, 1), m + 1, a1 + m, b1 + m, a1, b1),
    )
    of_d, of_apart, of_minus, of_d_a, of_d_b, of_a, of_b = values[:7]
    first = _quotient([of_d, of_apart], [of_d_a, of_d_b])
    second = _quotient([of_d, of_minus], [of_a, of_b]) * y**apart
    parted = first * _series(a, b, 1 - apart, y)
    parted = parted + second * _series(d - a, d - b, 1 + apart, y)
    joined = _integer_excess(a1, b1, m, y, values[7:])
    joined = gnp.where(negative, y ** gnp.where(is_whole, whole, 1), 1) * joined
    return gnp.where(is_whole, joined, parted)


def _integer_excess(a: Array, b: Array, m: Array, y: Array, values: Sequence[_Gamma]) -> Array:
    """2F1(a, b; a + b + m; 1 - y) for whole m >= 0: DLMF 15.8.10.

    ``values``: the gamma function of a + b + m, m (or 1), m + 1, a + m, b + m, a, b.
    """
    of_c, of_m, of_next, of_a_m, of_b_m, of_a, of_b = values
    zero = lax.full_like(y, 0)

    def finite(state: Any) -> Any:
        term, total, k = state
        live = k < m
        total = total + gnp.where(live, term, 0)
        ratio = (a + k) * (b + k) / ((k + 1) * gnp.where(k + 1 == m, 1, k + 1 - m)) * y
        return gnp.where(live, term * ratio, 0), total, k + 1

    start: Any = (lax.full_like(y, 1), zero, gnp.zeros((), y.dtype))
    head = lax.while_loop(lambda s: gnp.any(s[2] < m) & (s[2] < _LIMIT), finite, start)[1]
    head = gnp.where(m > 0, _quotient([of_m, of_c], [of_a_m, of_b_m]) * head, 0)

    def tail(state: Any) -> Any:
        weight, psi, total, k, _ = state
        term = weight * (log_y + psi)
        ratio = (a + m + k) * (b + m + k) / ((k + 1) * (k + m + 1)) * y
        psi = psi - 1 / (k + 1) - 1 / (k + m + 1) + 1 / (a + m + k) + 1 / (b + m + k)
        return weight * ratio, psi, total + term, k + 1, term

    log_y = lax.log(y)
    accuracy = float(np.finfo(y.dtype).eps) / 8
    slopes = lax.digamma(gnp.stack([zero + 1, m + 1, a + m, b + m]))
    psi = -slopes[0] - slopes[1] + slopes[2] + slopes[3]
    start = lax.exp(-of_next.log), psi, zero, gnp.zeros((), y.dtype), lax.full_like(y, 1)

    def unfinished(state: Any) -> Any:
        _, _, total, k, term = state
        pending = gnp.isfinite(total) & (gnp.abs(term) * (k + 1) > accuracy * gnp.abs(total))
        return (gnp.any(pending) | (k < 2)) & (k < _LIMIT)

    total = lax.while_loop(unfinished, tail, start)[2]
    sign = gnp.where(gnp.equal(m % 2, 0), 1, -1)
    return head - sign * y**m * _quotient([of_c], [of_a, of_b]) * total


def _gauss_everywhere(a: Array, b: Array, c: Array, x: Array) -> Array:
    finite = _is_pole(a) | _is_pole(b)
    excess = c - a - b
    bad = _never_defined(c, a, b)
    regular = gnp.where(_is_pole(c), 1, c)
    above_one = gnp.where(excess > 0, excess, 1)
    of_c, of_excess, *below = _gammas(regular, above_one, c - a, c - b)
    at_one = _quotient([of_c, of_excess], below)
    inside = (x < 1) | finite
    value = _gauss(a, b, gnp.where(bad, 1, c), gnp.where(inside, x, 0.5))
    one = gnp.equal(x, 1) & ~finite
    value = gnp.where(one, gnp.where(excess > 0, at_one, np.inf), value)
    value = gnp.where((x > 1) & ~finite, np.inf, value)
    value = gnp.where(bad, np.inf, value)
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
