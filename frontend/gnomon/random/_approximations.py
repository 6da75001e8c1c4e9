"""Approximate gamma and Poisson distributed numbers: functions of normal numbers, without loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.array import Array
from gnomon.random._distributions import exponential
from gnomon.random._key_array import KeyArray
from gnomon.random._samplers import keys_from, standard_normal

__all__ = ["approximate_loggamma", "approximate_poisson", "check_method"]

_METHODS = ("exact", "approximate")


def check_method(function: str, method: Any) -> None:
    if method not in _METHODS:
        raise ValueError(
            f"random.{function}: method must be 'exact' or 'approximate', got {method!r}"
        )


# ------------------------------------------------------------------------------------------- gamma

# A row for each power of the normal number over sqrt(nu): coefficients of powers of 1 / nu. The
# first is 1.0000886 in the source, which scales all numbers with many degrees of freedom.
_CHI_SQUARE_QUANTILES = (
    (1.0, -0.2237368, -0.01513904),
    (0.4713941, 0.02607083, -0.008986007),
    (0.0001348028, 0.01128186, 0.02277679),
    (-0.008553069, -0.01153761, -0.01323293),
    (0.00312558, 0.005169654, -0.006950356),
    (-0.0008426812, 0.00253001, 0.001060438),
    (0.00009780499, -0.001450117, 0.001565326),
)

# The number that is added to the parameter, since the quantiles are inaccurate for small ones.
_RAISED_BY = 4


def approximate_loggamma(key: KeyArray, a: Array) -> Array:
    """Logarithms of approximately gamma distributed numbers, of the shape and dtype of ``a``.

    The cube root of a chi-square quantile is a polynomial of the normal quantile: R. B. Goldstein,
    Algorithm 451, Chi-Square Quantiles (1973). It draws a number G for the parameter a + 4. The
    logarithm for a is ``log(G) + sum(log(U[k]) / (a + k) for k in range(4))`` with uniform numbers
    U: A. Stuart, Gamma-Distributed Products of Independent Random Variables (1962).
    """
    normal_key, uniform_key = keys_from(key, 2)
    raised = a + _RAISED_BY
    nu = 2 * raised
    x = standard_normal(normal_key, a.shape, a.dtype)
    inverse = 1 / nu
    root = lax.polynomial(
        x * lax.rsqrt(nu), [lax.polynomial(inverse, row) for row in _CHI_SQUARE_QUANTILES]
    )
    root = gnp.maximum(root, np.finfo(a.dtype).tiny)
    drawn = lax.log(raised) + 3 * lax.log(root)
    logarithms = exponential(uniform_key, (_RAISED_BY, *a.shape), a.dtype)
    steps = lax.broadcasted_iota(a.dtype, logarithms.shape, 0)
    return drawn + gnp.sum(-logarithms / (lax.expand_dims(a, (0,)) + steps), axis=0)


# ----------------------------------------------------------------------------------------- Poisson

# Numbers with lower rates are at most 19, and found by adding up the probabilities.
_LOW_RATE = 7.0
_TERMS = 20


def approximate_poisson(key: KeyArray, rate: Array) -> Array:
    """Approximately Poisson distributed numbers of the shape and floating dtype of ``rate``."""
    z = standard_normal(key, rate.shape, rate.dtype)
    return gnp.where(rate < _LOW_RATE, _by_probabilities(z, rate), _by_normal_quantile(z, rate))


def _by_probabilities(z: Array, rate: Array) -> Array:
    """The number of partial sums of the probabilities that are less than a uniform number."""
    uniform = 0.5 * lax.erfc(z * -math.sqrt(0.5))
    term = total = lax.exp(-rate)
    count = lax.convert_element_type(total < uniform, rate.dtype)
    for k in range(1, _TERMS - 1):
        term = term * (rate / k)
        total = total + term
        count = count + lax.convert_element_type(total < uniform, rate.dtype)
    return count


def _by_normal_quantile(z: Array, rate: Array) -> Array:
    """The least number whose approximate normal quantile is not less than ``z``.

    D. B. Peizer, J. W. Pratt, A Normal Approximation for Binomial, F, Beta, and other Common,
    Related Tail Probabilities (1968). The inverse of the quantile is first estimated by a
    Cornish-Fisher expansion, whose error is less than one.
    """
    s = lax.sqrt(rate)
    square = lax.square(z)
    estimate = rate + s * z - 2 / 3 + square / 6 + z * (1 - square) / (72 * s)
    middle = lax.ceil(estimate + 0.6)

    def reaches(count: Array) -> Array:
        quantile = _normal_quantile(gnp.maximum(count, 0), rate)
        reached = (count >= 0) & (quantile >= z)
        return lax.convert_element_type(reached, rate.dtype)

    return gnp.maximum(middle + 1 - reaches(middle) - reaches(middle - 1), 0)


def _normal_quantile(count: Array, rate: Array) -> Array:
    t = _peizer_pratt((count + 0.5) / rate)
    return (count - rate + 2 / 3 + 0.02 / (count + 1)) * lax.sqrt((1 + t) / rate)


def _peizer_pratt(y: Array) -> Array:
    """``(1 - y² + 2 y log y) / (1 - y)²``, by a series in y - 1 next to one."""
    d = y - 1
    is_near = gnp.abs(d) < 0.25
    series = gnp.zeros_like(d)
    for k in range(9, 0, -1):
        series = d * (2 * (-1) ** k / ((k + 1) * (k + 2)) + series)
    far = gnp.where(is_near, 2, y)
    distance = gnp.where(is_near, 1, d)
    direct = (1 - lax.square(far) + 2 * far * lax.log(far)) / lax.square(distance)
    return gnp.where(is_near, series, direct)
