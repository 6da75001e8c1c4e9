"""Exponential, sine, cosine and Fresnel integrals, the dilogarithm, and Bessel functions.

They are computed by power series near zero, and elsewhere by continued fractions that are evaluated
from their end. NIST Digital Library of Mathematical Functions, chapters 6, 7, 8 and 25.
"""

from __future__ import annotations

import math
from operator import index
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.dtypes import to_complex_dtype
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon.numpy._arguments import strongly_typed
from gnomon.scipy._gamma_functions import real_arguments

_EULER = 0.5772156649015329


def _terms(x: Array, short: int, long: int) -> int:
    return long if x.dtype == np.float64 else short


def _polynomial(x: Array, coefficients: list[float]) -> Array:
    """The value of a polynomial, whose coefficients begin with that of the lowest power."""
    total = lax.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


# ------------------------------------------------------------------------------------- exponential


def _expn_fraction(n: Array, x: Array) -> Array:
    """exp(x) E_n(x) for x >= 1."""
    tail = lax.full_like(x, 0)
    for k in range(_terms(x, 26, 84), 0, -1):
        tail = k * (n + k - 1) / (x + n + 2 * k - tail)
    return 1 / (x + n - tail)


def _expn_series(n: Array, x: Array) -> Array:
    """E_n(x) for x in (0, 1] and whole n >= 1."""
    last = n - 1
    odd = gnp.equal(lax.rem(last, lax.full_like(n, 2)), 1)
    power = lax.exp(last * lax.log(x) - lax.lgamma(n))
    total = gnp.where(odd, -power, power) * (lax.digamma(n) - lax.log(x))
    factor = lax.full_like(x, 1)
    for m in range(_terms(x, 13, 21)):
        if m:
            factor = -factor * x / m
        divisor = m - last
        is_last = gnp.equal(divisor, 0)
        total = total - gnp.where(is_last, 0, factor / gnp.where(is_last, 1, divisor))
    return total


@custom_jvp
def _expn(n: Array, x: Array) -> Array:
    near = (x > 0) & (x <= 1) & (n >= 1)
    small_n, small_x = gnp.where(near, n, 1), gnp.where(near, x, 0.5)
    large = gnp.maximum(x, 1)
    value = gnp.where(near, _expn_series(small_n, small_x), _expn_fraction(n, large) * lax.exp(-x))
    value = gnp.where(gnp.equal(n, 0), lax.exp(-x) / x, value)
    at_zero = gnp.where(n > 1, 1 / gnp.where(n > 1, n - 1, 1), np.inf)
    value = gnp.where(gnp.equal(x, 0), at_zero, value)
    # The series is that of whole orders.
    is_fraction = gnp.not_equal(n, gnp.floor(n)) & (x > 0) & (x <= 1)
    lost = (x < 0) | (n < 0) | gnp.isnan(x) | is_fraction
    return gnp.where(lost, lax.full_like(x, np.nan), gnp.where(gnp.equal(x, np.inf), 0, value))


@_expn.defjvp
def _expn_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (n, x), (_, t) = primals, tangents
    value = _expn(n, x)
    is_zero = gnp.equal(n, 0)
    # Order -1 by the recurrence between neighbouring orders.
    below_zero = (lax.exp(-x) + value) / x
    return value, -t * gnp.where(is_zero, below_zero, _expn(gnp.where(is_zero, 0, n - 1), x))


@strongly_typed
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The generalized exponential integral E_n(x), differentiable in x.

    Args:
      n: whole numbers, not negative. Between them the result is nan for x in (0, 1].
      x: real numbers, not negative.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.expn(2, gnp.array([0.0, 1.0])).round(4)
      Array([1.    , 0.1485], dtype=float32)
    """
    result: Array = _expn(*real_arguments("expn", n, x))
    return result


@strongly_typed
def exp1(x: ArrayLike) -> Array:
    """The exponential integral E_1(x): the integral of ``exp(-t) / t`` from x to infinity.

    Args:
      x: positive numbers, an array or scalar; inf at 0.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.exp1(gnp.array([0.0, 1.0])).round(4)
      Array([   inf, 0.2194], dtype=float32)

    See also:
      `expn`, `expi`
    """
    (x,) = real_arguments("exp1", x)
    result: Array = _expn(lax.full_like(x, 1), x)
    return result


@custom_jvp
def _expi(x: Array) -> Array:
    inner = gnp.clip(x, 1e-30, 40)

    def add(k: Any, state: Any) -> Any:
        term, total = state
        number = lax.convert_element_type(k, x.dtype)
        term = term * inner / number
        return term, total + term / number

    one, zero = lax.full_like(x, 1), lax.full_like(x, 0)
    _, series = lax.fori_loop(1, 121, add, (one, zero))
    near = _EULER + lax.log(inner) + series
    outer = gnp.maximum(x, 40)
    factorials = [float(math.factorial(k)) for k in range(20)]
    far = lax.exp(outer) / outer * _polynomial(1 / outer, factorials)
    negative = -_expn(one, gnp.where(x < 0, -x, 1))
    value = gnp.where(x < 0, negative, gnp.where(x < 40, near, far))
    value = gnp.where(gnp.equal(x, np.inf), np.inf, value)
    return gnp.where(gnp.equal(x, 0), -np.inf, gnp.where(gnp.isnan(x), x, value))


_expi.defjvps(lambda t, out, x: t * lax.exp(x) / x)


def expi(x: ArrayLike) -> Array:
    """The exponential integral Ei(x): the integral of ``exp(t) / t`` from -infinity to x.

    Args:
      x: an array or scalar of real numbers; -inf at 0.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.expi(gnp.array([-1.0, 0.0, 1.0])).round(4)
      Array([-0.2194,    -inf,  1.8951], dtype=float32)

    See also:
      `exp1`
    """
    (x,) = real_arguments("expi", x)
    result: Array = _expi(x)
    return result


# --------------------------------------------------------------------------------- sine and cosine


def _complex_numbers(real: Array, imaginary: Array) -> Array:
    wide = to_complex_dtype(real.dtype)
    part = np.dtype(np.float64 if wide == np.complex128 else np.float32)
    parts = (lax.convert_element_type(v, part) for v in (real, imaginary))
    return lax.complex(*parts)


@custom_jvp
def _sici(x: Array) -> tuple[Array, Array]:
    near, far = gnp.clip(gnp.abs(x), 1e-30, 4), gnp.maximum(gnp.abs(x), 4)
    square = near * near
    count = _terms(x, 12, 20)
    sines = [(-1) ** k / ((2 * k + 1) * math.factorial(2 * k + 1)) for k in range(count)]
    cosines = [0.0] + [(-1) ** k / (2 * k * math.factorial(2 * k)) for k in range(1, count)]
    si = near * _polynomial(square, sines)
    ci = _EULER + lax.log(near) + _polynomial(square, cosines)
    z = _complex_numbers(lax.full_like(x, 0), gnp.minimum(far, 1e30))
    tail = lax.full_like(z, 0)
    for k in range(_terms(x, 20, 70), 0, -1):
        tail = k * k / (z + (2 * k + 1) - tail)
    e1 = lax.exp(-z) / (z + 1 - tail)
    far_si, far_ci = (gnp.astype(part, x.dtype) for part in (lax.imag(e1), -lax.real(e1)))
    is_far = gnp.abs(x) > 4
    si, ci = gnp.where(is_far, math.pi / 2 + far_si, si), gnp.where(is_far, far_ci, ci)
    infinite = gnp.isinf(x)
    # The real part has a limit at -inf, but the complex function has none.
    ci = gnp.where(infinite, gnp.where(x < 0, np.nan, 0), ci)
    si = gnp.where(infinite, math.pi / 2, si)
    si = gnp.where(gnp.equal(x, 0), x, gnp.where(x < 0, -si, si))
    ci = gnp.where(gnp.equal(x, 0), -np.inf, ci)
    lost = gnp.isnan(x)
    return gnp.where(lost, x, si), gnp.where(lost, x, ci)


@_sici.defjvp
def _sici_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    slopes = (gnp.sinc(x / math.pi), lax.cos(x) / x)
    return _sici(x), tuple(t * slope for slope in slopes)


def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The sine integral Si(x) and the cosine integral Ci(x).

    Args:
      x: an array or scalar of real numbers; for negative ones, the real part of Ci is returned.
    Returns:
      The pair ``(Si, Ci)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> si, ci = special.sici(gnp.array([1.0, 2.0]))
      >>> si.round(4), ci.round(4)
      (Array([0.9461, 1.6054], dtype=float32), Array([0.3374, 0.423 ], dtype=float32))
    """
    (x,) = real_arguments("sici", x)
    si, ci = _sici(x)
    return si, ci


# ----------------------------------------------------------------------------------------- Fresnel


@custom_jvp
def _fresnel(x: Array) -> tuple[Array, Array]:
    magnitude = gnp.abs(x)
    near, far = gnp.minimum(magnitude, 1.6), gnp.maximum(magnitude, 1.6)
    quarter, half = near**4, math.pi / 2
    count = _terms(x, 9, 16)
    cosines, sines = (
        [
            (-1) ** k
            * half ** (2 * k + odd)
            / (math.factorial(2 * k + odd) * (4 * k + 1 + 2 * odd))
            for k in range(count)
        ]
        for odd in (0, 1)
    )
    c, s = near * _polynomial(quarter, cosines), near**3 * _polynomial(quarter, sines)
    phase = math.pi * far * far
    z = _complex_numbers(lax.full_like(x, 1), -phase)
    tail = lax.full_like(z, 0)
    for k in range(_terms(x, 24, 80), 0, -1):
        tail = (2 * k - 1) * (2 * k) / (z + 4 * k - tail)
    h = _complex_numbers(far, -far) / (z - tail)
    turned = _complex_numbers(lax.cos(phase / 2), lax.sin(phase / 2))
    cs = (0.5 + 0.5j) * (1 - turned * h)
    is_far = magnitude > 1.6
    c = gnp.where(is_far, gnp.astype(lax.real(cs), x.dtype), c)
    s = gnp.where(is_far, gnp.astype(lax.imag(cs), x.dtype), s)
    c, s = (gnp.where(magnitude > 1e4, 0.5, v) for v in (c, s))
    return gnp.where(x < 0, -s, s), gnp.where(x < 0, -c, c)


@_fresnel.defjvp
def _fresnel_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    angle = math.pi / 2 * x * x
    return _fresnel(x), (t * lax.sin(angle), t * lax.cos(angle))


def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """The Fresnel integrals of ``sin(pi t² / 2)`` and ``cos(pi t² / 2)`` from 0 to x.

    Args:
      x: an array or scalar of real numbers.
    Returns:
      The pair ``(S, C)``: the integral of the sine comes first.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> s, c = special.fresnel(gnp.array([0.0, 1.0]))
      >>> s.round(4), c.round(4)
      (Array([0.    , 0.4383], dtype=float32), Array([0.    , 0.7799], dtype=float32))
    """
    (x,) = real_arguments("fresnel", x)
    s, c = _fresnel(x)
    return s, c


# ----------------------------------------------------------------------------------------- Spence

# B(k) / (k + 1)!, of the dilogarithm as a series of -log(1 - z).
_DEBYE = [1.0, -1 / 4, 1 / 36, 0.0, -1 / 3600, 0.0, 1 / 211680, 0.0, -1 / 10886400, 0.0]
_DEBYE += [1 / 526901760, 0.0, -4.064761645144226e-11, 0.0, 8.921691020456453e-13, 0.0]
_DEBYE += [-1.9939295860721074e-14, 0.0, 4.518980029619919e-16]


@custom_jvp
def _spence(x: Array) -> Array:
    # Move the argument into [1/2, 2] by inversion and by reflection.
    is_small, is_large = x < 0.5, x > 2
    inner = gnp.where(is_small, 1 - x, gnp.where(is_large, 1 / x, x))
    inner = gnp.clip(inner, 0.5, 2)
    inner = gnp.where(is_large & (x > 2), 1 / gnp.maximum(x, 1), inner)
    # An inverse below 1/2 is reflected as well.
    again = inner < 0.5
    reflected = gnp.where(again, 1 - inner, inner)
    u = -lax.log(reflected)
    value = u * _polynomial(u, _DEBYE)
    value = gnp.where(again, _reflection(inner) - value, value)
    value = gnp.where(is_small, _reflection(x) - value, value)
    logarithm = lax.log(gnp.where(is_large, x, 1))
    value = gnp.where(is_large, -0.5 * logarithm * logarithm - value, value)
    value = gnp.where(gnp.equal(x, np.inf), -np.inf, value)
    return gnp.where((x < 0) | gnp.isnan(x), lax.full_like(x, np.nan), value)


def _reflection(x: Array) -> Array:
    is_inside = (x > 0) & (x < 1)
    safe = gnp.where(is_inside, x, 0.5)
    product = gnp.where(is_inside, lax.log(safe) * lax.log1p(-safe), 0)
    return math.pi**2 / 6 - product


@_spence.defjvp
def _spence_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    is_one = gnp.equal(x, 1)
    slope = gnp.where(is_one, -1, lax.log(x) / gnp.where(is_one, 1, 1 - x))
    return _spence(x), t * slope


@strongly_typed
def spence(x: ArrayLike) -> Array:
    """Spence's function, the dilogarithm of ``1 - x``.

    It is the integral of ``log(t) / (1 - t)`` from 1 to x.

    Args:
      x: an array or scalar of real numbers; nan for negative ones.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.spence(gnp.array([0.0, 2.0])).round(4)
      Array([ 1.6449, -0.8225], dtype=float32)
    """
    (x,) = real_arguments("spence", x)
    result: Array = _spence(x)
    return result


# ------------------------------------------------------------------------------------------ Bessel


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Bessel functions of the first kind of orders 0, ..., v.

    They are computed by Miller's downward recurrence from the order ``n_iter``, which must exceed
    ``v`` and abs(z).

    Args:
      z: a real array or scalar.
      v: a static integer, not negative: the largest order.
      n_iter: the order at which the recurrence starts.
    Returns:
      An array of shape ``(v + 1, *z.shape)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.bessel_jn(gnp.array([0.0, 1.0]), v=1).round(4)
      Array([[1.    , 0.7652],
             [0.    , 0.4401]], dtype=float32)
    """
    order, start = index(v), index(n_iter)
    (z,) = real_arguments("bessel_jn", z)
    is_zero = gnp.equal(z, 0)
    inverse = 2 / gnp.where(is_zero, 1, z)
    limit = 1e10

    def step(state: tuple[Array, Array, Array], k_and_weight: Array) -> Any:
        above, current, total = state
        k, weight = k_and_weight
        below = k * inverse * current - above
        scale = gnp.where(gnp.abs(below) > limit, 1 / limit, lax.full_like(z, 1))
        after = current * scale, below * scale, (total + weight * current) * scale
        return after, (current, scale)

    orders = np.arange(max(start, order), -1, -1)
    # The terms of 1 = J_0 + 2 J_2 + 2 J_4 + ..., by which the values are normalized.
    weights = np.where(orders % 2, 0, np.where(orders, 2, 1))
    steps = gnp.astype(np.stack([orders, weights], axis=-1), z.dtype)
    zero = lax.full_like(z, 0)
    state, _ = lax.scan(step, (zero, lax.full_like(z, 1e-16), zero), steps[: -order - 1])
    (_, _, total), (found, scales) = lax.scan(step, state, steps[-order - 1 :])
    values = (found * lax.cumprod(scales, axis=0, reverse=True) / total[None])[::-1]
    at_zero = gnp.reshape(gnp.arange(order + 1) < 1, (order + 1,) + (1,) * z.ndim)
    return gnp.where(is_zero, gnp.astype(at_zero, z.dtype), values)
