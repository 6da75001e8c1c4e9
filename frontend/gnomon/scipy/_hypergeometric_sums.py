"""Sums of hypergeometric terms with estimates of their errors, and recurrences.

A function is computed in several ways at once, and the one with the smallest estimate is used. The
ways are rows of the same loop, because each loop takes long to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.array import Array
from gnomon.scipy._gamma_functions import gammasgn

__all__ = [
    "LIMIT",
    "Estimate",
    "Gamma",
    "Series",
    "accuracy",
    "best",
    "descend",
    "difference",
    "gammas",
    "is_pole",
    "quotient",
    "sum_series",
]

LIMIT = 2000  # the largest number of terms, or of steps of a recurrence


class Estimate(NamedTuple):
    """Values, and estimates of their relative errors; an unusable value may have any error."""

    value: Array
    error: Array


class Series(NamedTuple):
    """A series: term k + 1 over term k is ``z (p + k) (q + k) / ((r + k) (k + 1))``.

    Attributes:
      p, q, r: the parameters; None leaves the factor out.
      z: the argument.
      first: the first term; None for 1.
      diverges: whether the series is asymptotic, and ends before its smallest term.
    """

    p: Array
    q: Array | None
    r: Array | None
    z: Array
    first: Array | None = None
    diverges: bool = False


def accuracy(x: Array) -> float:
    """The unit of rounding of the dtype."""
    return float(np.finfo(x.dtype).eps)


def is_pole(x: Array) -> Array:
    """Whether the gamma function has a pole at a number."""
    return (x <= 0) & (x == gnp.floor(x))


def sum_series(series: Sequence[Series]) -> list[Estimate]:
    """Sum several series by one loop, which ends when the terms of all have become small."""
    like = series[0].z
    one, zero = lax.full_like(like, 1), lax.full_like(like, 0)

    def parameter(x: Array | None) -> tuple[Array, Array]:
        return (one, zero) if x is None else (x, one)

    def stack(pairs: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
        return gnp.stack([a for a, _ in pairs]), gnp.stack([b for _, b in pairs])

    p, p_step = stack([parameter(s.p) for s in series])
    q, q_step = stack([parameter(s.q) for s in series])
    r, r_step = stack([parameter(s.r) for s in series])
    z = gnp.stack([s.z for s in series])
    first = gnp.stack([one if s.first is None else s.first for s in series])
    asymptotic = gnp.stack([lax.full_like(like, s.diverges, np.bool_) for s in series])
    # After a factor close to zero, terms may grow again.
    signs = gnp.maximum(gnp.maximum(-p, -q), -r)
    turns = lax.stop_gradient(gnp.where(asymptotic | (signs > LIMIT / 2), 0, signs))
    small = accuracy(like) / 8

    def pending(term: Array, total: Array, k: Array) -> Array:
        # The derivatives by parameters, which are summed as well, converge a little later.
        large = gnp.abs(term) * (k + 1) > small * gnp.abs(total)
        return gnp.isfinite(total) & gnp.not_equal(term, 0) & (large | (k <= turns))

    def unfinished(state: Any) -> Any:
        term, total, _, _, k = state
        return gnp.any(pending(term, total, k)) & (k < LIMIT)

    def step(state: Any) -> Any:
        term, total, size, last, k = state
        ratio = (p + p_step * k) * (q + q_step * k) / ((r + r_step * k) * (k + 1)) * z
        live = pending(term, total, k)
        following = gnp.where(live, term * gnp.where(live, ratio, 0), 0)
        grows = asymptotic & (gnp.abs(following) > gnp.abs(term)) & (k > 4)
        following = gnp.where(grows, 0, following)
        magnitude = lax.stop_gradient(gnp.abs(following))
        last = gnp.where(live & ~grows, magnitude, last)
        return following, total + following, size + magnitude, last, k + 1

    size = lax.stop_gradient(gnp.abs(first))
    start = first, first, size, size, gnp.zeros((), like.dtype)
    term, total, size, last, k = lax.while_loop(unfinished, step, start)
    left = gnp.where(asymptotic, last, gnp.where(pending(term, total, k), np.inf, 0))
    error = (2 * accuracy(like) * size + left) / gnp.abs(total)
    error = lax.stop_gradient(error)
    return [Estimate(total[i], error[i]) for i in range(len(series))]


def descend(
    start: Estimate,
    before: Estimate,
    steps: Array,
    terms: Callable[[Array, Array, Array], tuple[Array, Array]],
) -> tuple[Estimate, Estimate]:
    """Follow a three-term recurrence towards smaller parameters.

    Args:
      start: the function at the first parameter.
      before: the function at the first parameter minus one.
      steps: the number of steps from the first parameter to the result, at least 1.
      terms: maps k and the functions at the first parameter minus k and minus k + 1 to two terms,
        whose sum is the function at the first parameter minus k + 1.

    Errors of the size of each term, with signs that have no pattern, follow the same recurrence, to
    find what becomes of them.

    Returns:
      The function with two estimates of its error: relative to the function, and to the larger one
      of its last two values, since next to a zero of the function no recurrence has all digits.
    """
    unit = accuracy(start.value)

    def unfinished(state: Any) -> Any:
        return gnp.any(state[0] < steps) & (state[0] < LIMIT)

    def step(state: Any) -> Any:
        k, older, newer, older_error, newer_error = state
        live = k < steps
        x, y = terms(k, older, newer)
        u, v = terms(k, older_error, newer_error)
        sizes = gnp.abs(x) + gnp.abs(y)
        error = lax.stop_gradient(u + v + gnp.where(gnp.equal(k % 5 % 2, 0), sizes, -sizes))
        return (
            k + 1,
            gnp.where(live, newer, older),
            gnp.where(live, x + y, newer),
            gnp.where(live, newer_error, older_error),
            gnp.where(live, error, newer_error),
        )

    # The errors of the sums, in units.
    errors = [
        lax.stop_gradient(gnp.where(gnp.equal(e.value, 0), 0, e.value * (1 + e.error / unit)))
        for e in (start, before)
    ]
    first = gnp.ones((), start.value.dtype), start.value, before.value, errors[0], -errors[1]
    _, older, newer, *errors = lax.while_loop(unfinished, step, first)
    lost = gnp.abs(errors[0]) + gnp.abs(errors[1])
    unusable = gnp.where((steps < 1) | (steps > LIMIT), np.inf, 0)

    def estimate(size: Array) -> Estimate:
        error = 4 * unit * (1 + lost / lax.stop_gradient(size)) + unusable
        return Estimate(newer, error)

    return estimate(gnp.abs(newer)), estimate(gnp.maximum(gnp.abs(older), gnp.abs(newer)))


def difference(x: Array, y: Array) -> tuple[Array, Array]:
    """``x - y``, and how its rounding changes factors of the terms of a series with it."""
    result = x - y
    back = x - result
    rounding = gnp.abs((x - (result + back)) + (back - y))
    distance = gnp.where(result > 0.5, result, gnp.abs(result - gnp.round(result)))
    lost = gnp.where(gnp.equal(rounding, 0), 0, rounding / distance)
    return result, lax.stop_gradient(lost)


def best(estimates: Sequence[Estimate], near_zeros: Estimate) -> Array:
    """The values with the smallest errors.

    Where half of the digits are lost, it is the value of ``near_zeros``, or nan if the error of
    that is large, too.
    """
    value, error = _usable(estimates[0])
    for estimate in estimates[1:]:
        other, its_error = _usable(estimate)
        better = its_error < error
        value, error = gnp.where(better, other, value), gnp.where(better, its_error, error)
    bound = accuracy(value) ** 0.5
    other, its_error = _usable(near_zeros)
    return gnp.where(error < bound, value, gnp.where(its_error < bound, other, np.nan))


def _usable(estimate: Estimate) -> Estimate:
    good = gnp.isfinite(estimate.value) & (estimate.error < np.inf)
    return Estimate(gnp.where(good, estimate.value, 0), gnp.where(good, estimate.error, np.inf))


# ---------------------------------------------------------------------------------- gamma functions


class Gamma(NamedTuple):
    """Values of the gamma function: logarithms of magnitudes, signs, and a mask of poles."""

    log: Array
    sign: Array
    pole: Array


def gammas(*xs: Array) -> list[Gamma]:
    """The gamma function of several arrays by one op, since each such op takes long to compile."""
    stacked = gnp.stack(xs)
    pole = is_pole(stacked)
    safe = gnp.where(pole, 1, stacked)
    log, sign = lax.lgamma(safe), gammasgn(safe)
    return [Gamma(log[i], sign[i], pole[i]) for i in range(len(xs))]


def quotient(above: Sequence[Gamma], below: Sequence[Gamma], log: Array | float = 0.0) -> Estimate:
    """A quotient of products of gamma functions, times ``exp(log)``.

    It is zero where a denominator has a pole.
    """
    like = above[0].log
    exponent = size = lax.full_like(like, 0) + log
    size = gnp.abs(size)
    sign, zero = lax.full_like(like, 1), gnp.zeros(like.shape, bool)
    infinite = zero
    for value in above:
        exponent, sign, infinite = exponent + value.log, sign * value.sign, infinite | value.pole
        size = size + gnp.abs(value.log)
    for value in below:
        exponent, sign, zero = exponent - value.log, sign * value.sign, zero | value.pole
        size = size + gnp.abs(value.log)
    result = gnp.where(infinite, np.inf, sign * lax.exp(gnp.where(zero, 0, exponent)))
    error = lax.stop_gradient(2 * accuracy(like) * (1 + size))
    return Estimate(gnp.where(zero, 0, result), error)
