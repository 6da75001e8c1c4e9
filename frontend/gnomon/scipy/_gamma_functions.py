"""The gamma function, its integrals, and functions made of them: factorials, beta functions."""

from __future__ import annotations

import math
from fractions import Fraction
from operator import index
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon.dialects.types import is_complex
from gnomon.numpy._arguments import promoted, strongly_typed
from gnomon.numpy._dispatch import INEXACT_KIND, promoted_operands


def real_arguments(name: str, *xs: Any) -> list[Array]:
    """Convert arguments to real arrays of one dtype and shape.

    Raises:
      ValueError: an argument is complex.
    """
    arrays = promoted_operands(name, INEXACT_KIND, *xs)
    if is_complex(arrays[0].dtype):
        raise ValueError(f"{name} does not support complex-valued inputs, got {arrays[0].aval}")
    return arrays


def gammaln(x: ArrayLike) -> Array:
    """The logarithm of the absolute value of the gamma function.

    Args:
      x: a real array or scalar.

    Example:
      >>> gammaln(3.0)
      Array(0.6931472, dtype=float32, weak_type=True)
    """
    (x,) = promoted("gammaln", x, inexact=True)
    return lax.lgamma(x)


@strongly_typed
def gammasgn(x: ArrayLike) -> Array:
    """The sign of the gamma function.

    Args:
      x: an array or scalar of real numbers.
    Returns:
      1 or -1; nan at negative integers, and the sign of the zero at zeros.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.gammasgn(gnp.array([2.5, -0.5, -1.0]))
      Array([ 1., -1., nan], dtype=float32)

    See also:
      `gammaln`, the logarithm of the absolute value
    """
    (x,) = real_arguments("gammasgn", x)
    whole = lax.floor(x)
    below = x < 0
    is_odd = gnp.not_equal(lax.rem(whole, lax.full_like(x, 2)), 0)
    negative = (below & is_odd) | (gnp.equal(x, 0) & gnp.signbit(x))
    undefined = (below & gnp.equal(x, whole)) | gnp.isnan(x)
    sign = gnp.where(negative, lax.full_like(x, -1), lax.full_like(x, 1))
    return gnp.where(undefined, lax.full_like(x, np.nan), sign)


def gamma(x: Any) -> Array:
    """The gamma function: infinite at zeros, nan at negative integers.

    Example:
      >>> gamma(1.0)
      Array(1., dtype=float32)
    """
    (x,) = real_arguments("gamma", x)
    value = gammasgn(x) * lax.exp(lax.lgamma(x))
    # Add the nan, so that the derivative is nan, too.
    return value + gnp.where(gnp.equal(x, -np.inf), lax.full_like(x, np.nan), 0)


def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """The logarithm of the absolute value of the beta function.

    Args:
      a, b: arrays or scalars of real numbers that broadcast together.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.betaln(gnp.array([1.0, 200.0]), 3.0).round(4)
      Array([ -1.0986, -15.2167], dtype=float32)

    See also:
      `beta`
    """
    a, b = real_arguments("betaln", a, b)
    small, large = gnp.minimum(a, b), gnp.maximum(a, b)
    # Limits for which the sum below is the difference of infinities.
    vanishes = (small > 0) & gnp.isinf(large)
    is_pole = gnp.equal(small, 0) & gnp.equal(large, 0)
    a, b = (gnp.where(vanishes | is_pole, 1, v) for v in (a, b))
    naive = lax.lgamma(a) + lax.lgamma(b) - lax.lgamma(a + b)
    naive = gnp.where(vanishes, -np.inf, gnp.where(is_pole, np.inf, naive))
    # The logarithms for large arguments cancel, so combine them by Stirling's formula.
    is_large = (large >= 10) & (small > 0) & (small < large) & gnp.isfinite(large)
    p, q = gnp.where(is_large, small, 1.0), gnp.where(is_large, large, 20.0)
    return gnp.where(is_large, lax.lgamma(p) - log_gamma_ratio(q, p), naive)


def log_gamma_ratio(q: Array, p: Array) -> Array:
    """log(gamma(q + p) / gamma(q)) for q >= 10 and p >= 0."""
    total = p + q
    rests = _stirling_rest(total) - _stirling_rest(q)
    return p * lax.log(total) - p + (q - 0.5) * lax.log1p(p / q) + rests


def _stirling_rest(x: Array) -> Array:
    """The difference of lgamma and Stirling's formula, for x >= 10."""
    inverse = 1 / (x * x)
    total = lax.full_like(x, 0)
    for term in (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        total = total * inverse + term
    return total / x


def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function ``gamma(a) gamma(b) / gamma(a + b)``.

    Args:
      a, b: arrays or scalars of real numbers that broadcast together.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.beta(gnp.array([1.0, 2.0]), 3.0).round(4)
      Array([0.3333, 0.0833], dtype=float32)

    See also:
      `betaln`, which does not underflow
    """
    a, b = real_arguments("beta", a, b)
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * lax.exp(betaln(a, b))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function.

    Args:
      a, b: the positive parameters.
      x: the upper limit of integration, in [0, 1]; all three broadcast together.
    Returns:
      An array of numbers in [0, 1].

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.betainc(2.0, 3.0, gnp.array([0.0, 0.5, 1.0])).round(4)
      Array([0.    , 0.6875, 1.    ], dtype=float32)
    """
    return lax.betainc(*real_arguments("betainc", a, b, x))


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function.

    Args:
      a: the positive parameter, an array or scalar.
      x: the upper limit of integration, not negative; broadcasts with ``a``.
    Returns:
      An array of numbers in [0, 1].

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.gammainc(2.0, gnp.array([0.0, 1.0, 10.0])).round(4)
      Array([0.    , 0.2642, 0.9995], dtype=float32)

    See also:
      `gammaincc`
    """
    return lax.igamma(*real_arguments("gammainc", a, x))


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function, ``1 - gammainc(a, x)``.

    Args:
      a: the positive parameter, an array or scalar.
      x: the lower limit of integration, not negative; broadcasts with ``a``.
    Returns:
      An array of numbers in [0, 1], accurate also where they are tiny.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.gammaincc(2.0, gnp.array([0.0, 1.0, 10.0])).round(4)
      Array([1.000e+00, 7.358e-01, 5.000e-04], dtype=float32)

    See also:
      `gammainc`
    """
    return lax.igammac(*real_arguments("gammaincc", a, x))


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """The factorial of real numbers, gamma(n + 1); 0 for negative ones.

    Args:
      n: a real array or scalar.
      exact: must be False; exact integers are not supported.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.factorial(gnp.array([0, 3, 5])).round(3)
      Array([  1.,   6., 120.], dtype=float32)
    """
    if exact:
        raise NotImplementedError(
            "factorial: exact=True is not supported, because arrays cannot hold arbitrarily large "
            "integers"
        )
    (n,) = real_arguments("factorial", n)
    return gnp.where(n < 0, 0, lax.exp(lax.lgamma(n + 1)))


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """The number of ways to choose k of N things.

    Args:
      N, k: real arrays or scalars; the result is 0 where N or k is negative or k > N.
      repetition: whether things may be chosen several times.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.comb(5, gnp.array([0, 2, 6]))
      Array([ 1., 10.,  0.], dtype=float32)
      >>> special.comb(5, 2, repetition=True).round(3)
      Array(15., dtype=float32, weak_type=True)
    """
    total, chosen = real_arguments("comb", N, k)
    if repetition:
        empty = gnp.equal(chosen, 0) & (total >= 0)
        return gnp.where(empty, 1.0, comb(total + chosen - 1, chosen))
    possible = (chosen <= total) & (total >= 0) & (chosen >= 0)
    n, m = gnp.where(possible, total, 0.0), gnp.where(possible, chosen, 0.0)
    value = lax.exp(lax.lgamma(n + 1) - lax.lgamma(m + 1) - lax.lgamma(n + 1 - m))
    return gnp.where(possible, value, 0.0)


def multigammaln(a: ArrayLike, d: int) -> Array:
    """The logarithm of the multivariate gamma function of dimension d.

    Args:
      a: a real array or scalar, greater than (d - 1) / 2.
      d: a static integer.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.multigammaln(gnp.array([2.0, 3.0]), d=2).round(4)
      Array([0.4516, 1.5502], dtype=float32)
    """
    d = index(d)
    (a,) = real_arguments("multigammaln", a)
    constant = d * (d - 1) / 4 * math.log(math.pi)
    halves = gnp.arange(d, dtype=a.dtype) / 2
    terms = lax.lgamma(gnp.expand_dims(a, -1) - lax.broadcast_to_rank(halves, a.ndim + 1))
    return gnp.sum(terms, axis=-1) + constant


@custom_jvp
def _poch(z: Array, m: Array) -> Array:
    # gamma of large arguments overflows, although the quotient may be small.
    start, step = gnp.minimum(z, z + m), gnp.abs(m)
    is_large = (start >= 10) & gnp.isfinite(z + m)
    logarithm = log_gamma_ratio(gnp.where(is_large, start, 10), gnp.where(is_large, step, 0))
    ratio = lax.exp(gnp.where(m < 0, -logarithm, logarithm))
    value = gnp.where(is_large, ratio, gamma(z + m) / gamma(z))
    return gnp.where(gnp.equal(m, 0), lax.full_like(z, 1), value)


_poch.defjvps(
    lambda t, out, z, m: (lax.digamma(z + m) - lax.digamma(z)) * _poch(z, m) * t,
    lambda t, out, z, m: lax.digamma(z + m) * _poch(z, m) * t,
)


@strongly_typed
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """The Pochhammer symbol ``gamma(z + m) / gamma(z)``, the rising factorial.

    Args:
      z, m: arrays or scalars of real numbers that broadcast together.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.poch(gnp.array([1.0, 2.0]), 3.0).round(4)
      Array([ 6., 24.], dtype=float32)
    """
    result: Array = _poch(*real_arguments("poch", z, m))
    return result


def bernoulli(n: int) -> Array:
    """The first n + 1 Bernoulli numbers B(0), ..., B(n), with B(1) = -1/2.

    Args:
      n: a static integer, not negative.

    Example:
      >>> bernoulli(2)
      Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    count = index(n)
    if count < 0:
        raise ValueError(f"bernoulli: n must be a non-negative integer, got {n}")
    numbers = [Fraction(1)]
    for m in range(1, count + 1):
        if m > 1 and m % 2:
            numbers.append(Fraction(0))
            continue
        terms = (math.comb(m + 1, k) * b for k, b in enumerate(numbers) if b)
        numbers.append(-sum(terms, Fraction(0)) / (m + 1))
    dtype = _dtypes.default_float_dtype()
    values = [_as_float(b) for b in numbers]
    with np.errstate(over="ignore"):
        return gnp.array(np.array(values).astype(dtype))


def _as_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)
