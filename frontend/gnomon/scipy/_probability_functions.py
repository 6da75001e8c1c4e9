"""Entropies, the normal distribution's functions, and the Box-Cox transformations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon.dialects.types import is_complex
from gnomon.numpy._arguments import as_array, promoted, strongly_typed
from gnomon.numpy._arithmetic import rounding_of_multiple
from gnomon.numpy._dispatch import INEXACT_KIND, promoted_operands
from gnomon.scipy._error_functions import wofz
from gnomon.scipy._gamma_functions import real_arguments

_HALF_LOG_2PI = math.log(2 * math.pi) / 2
_SQRT_HALF = np.longdouble("0.70710678118654752440084436210484903928")
# With this number of terms, the series in the lower tail is exact to the last digit.
_SERIES_TERMS = 8

# ------------------------------------------------------------------------------------------ entropy


def _vanishes(x: Array, y: Array) -> Array:
    """Whether a product with x is zero for every y that is not nan."""
    return gnp.equal(x, 0) & gnp.equal(y, y)


@custom_jvp
def _xlogy(x: Array, y: Array) -> Array:
    return gnp.where(_vanishes(x, y), lax.full_like(x, 0), x * lax.log(y))


_xlogy.defjvps(lambda t, out, x, y: t * lax.log(y), lambda t, out, x, y: t * x / y)


@custom_jvp
def _xlog1py(x: Array, y: Array) -> Array:
    return gnp.where(_vanishes(x, y), lax.full_like(x, 0), x * lax.log1p(y))


_xlog1py.defjvps(lambda t, out, x, y: t * lax.log1p(y), lambda t, out, x, y: t * x / (1 + y))


@custom_jvp
def _xlogx(x: Array) -> Array:
    return _xlogy(x, x)


# At 0, this derivative is infinite; the sum of the two derivatives of xlogy would be nan.
_xlogx.defjvps(lambda t, out, x: t * (lax.log(x) + 1))


def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """The product ``x log(y)``, and 0 where ``x`` is 0, elementwise.

    Args:
      x, y: arrays or scalars that broadcast together; nan stays nan.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.xlogy(gnp.array([0.0, 2.0]), gnp.array([0.0, 3.0])).round(4)
      Array([0.    , 2.1972], dtype=float32)
      >>> 0.0 * gnp.log(0.0)
      Array(nan, dtype=float32, weak_type=True)
    """
    result: Array = _xlogy(*promoted_operands("xlogy", INEXACT_KIND, x, y))
    return result


def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """The product ``x log(1 + y)``, and 0 where ``x`` is 0, elementwise.

    Args:
      x, y: arrays or scalars that broadcast together; nan stays nan.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.xlog1py(gnp.array([0.0, 2.0]), gnp.array([-1.0, 1.0])).round(4)
      Array([0.    , 1.3863], dtype=float32)
    """
    result: Array = _xlog1py(*promoted_operands("xlog1py", INEXACT_KIND, x, y))
    return result


def entr(x: ArrayLike) -> Array:
    """The entropy ``-x log(x)``, elementwise.

    Args:
      x: an array or scalar of real numbers.
    Returns:
      An array of the shape of ``x``; 0 at 0 and -inf below.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.entr(gnp.array([0.5, -1.0])).round(4)
      Array([0.3466,   -inf], dtype=float32)

    See also:
      `rel_entr`
    """
    (x,) = real_arguments("entr", x)
    negative = x < 0
    value = -_xlogx(gnp.where(negative, 1, x))
    return gnp.where(negative, lax.full_like(x, -np.inf), value)


@custom_jvp
def _relative_entropy(p: Array, q: Array) -> Array:
    # The difference of two products would be nan if p is infinite.
    return p * (lax.log(p) - lax.log(q))


_relative_entropy.defjvps(
    lambda t, out, p, q: t * (lax.log(p) - lax.log(q) + 1), lambda t, out, p, q: -t * (p / q)
)


def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """The terms ``p log(p / q)`` of the relative entropy, elementwise.

    Args:
      p, q: arrays or scalars of real numbers that broadcast together.
    Returns:
      An array; 0 if ``p`` is 0, inf if ``p`` or ``q`` is negative.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.rel_entr(gnp.array([0.5, 0.0]), gnp.array([0.25, 0.75])).round(4)
      Array([0.3466, 0.    ], dtype=float32)

    See also:
      `kl_div`, `entr`
    """
    p, q = real_arguments("rel_entr", p, q)
    positive = (p > 0) & (q > 0)
    safe_p, safe_q = gnp.where(positive, p, 1), gnp.where(positive, q, 1)
    value = _relative_entropy(safe_p, safe_q)
    at_zero = gnp.equal(p, 0) & (q >= 0)
    value = gnp.where(positive, value, gnp.where(at_zero, 0.0, np.inf))
    return gnp.where(gnp.isnan(p) | gnp.isnan(q), lax.full_like(p, np.nan), value)


def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """The terms ``p log(p / q) - p + q`` of the Kullback-Leibler divergence, elementwise.

    Args:
      p, q: arrays or scalars of numbers that are not negative; they broadcast together.
    Returns:
      An array; ``q`` where ``p`` is 0, and inf where only ``q`` is 0.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.kl_div(gnp.array([0.5, 0.0]), gnp.array([0.25, 0.75])).round(4)
      Array([0.0966, 0.75  ], dtype=float32)

    See also:
      `rel_entr`, without the linear terms
    """
    p, q = real_arguments("kl_div", p, q)
    return rel_entr(p, q) - p + q


# ----------------------------------------------------------------------------------- normal numbers


@strongly_typed
def erfcx(x: ArrayLike) -> Array:
    """The scaled complementary error function exp(x²) erfc(x), without overflow for large x.

    Args:
      x: a real or complex array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.erfcx(gnp.array([0.0, 30.0])).round(4)
      Array([1.    , 0.0188], dtype=float32)
      >>> gnp.exp(30.0**2) * special.erfc(30.0)
      Array(nan, dtype=float32, weak_type=True)
    """
    given = as_array("erfcx", x)
    if is_complex(given.dtype):
        # Multiply the parts by i separately: a complex product would make nan of infinities.
        return wofz(lax.complex(-lax.imag(given), lax.real(given)))
    (x,) = real_arguments("erfcx", given)
    result: Array = _erfcx(x)
    return result


@custom_jvp
def _erfcx(x: Array) -> Array:
    near = gnp.clip(x, -30, 3)
    direct = lax.exp(near * near) * lax.erfc(near)
    # Evaluate Laplace's continued fraction from its end.
    far = gnp.maximum(x, 2)
    tail = lax.full_like(x, 0)
    for k in range(50 if x.dtype == np.float64 else 24, 0, -1):
        tail = k / 2 / (far + tail)
    return gnp.where(x < 3, direct, 1 / math.sqrt(math.pi) / (far + tail))


_erfcx.defjvps(lambda t, out, x: t * (2 * x * out - 2 / math.sqrt(math.pi)))


@strongly_typed
def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral: ``exp(-x²)`` times the integral of ``exp(t²)`` from 0 to x.

    G. B. Rybicki, Dawson's Integral and the Sampling Theorem (1989).

    Args:
      x: an array or scalar of real numbers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.dawsn(gnp.array([0.0, 1.0])).round(4)
      Array([0.    , 0.5381], dtype=float32)
    """
    (x,) = real_arguments("dawsn", x)
    result: Array = _dawsn(x)
    return result


@custom_jvp
def _dawsn(x: Array) -> Array:
    step, reach = (0.25, 27) if x.dtype == np.float64 else (0.4, 11)
    magnitude = gnp.abs(x)
    finite = gnp.minimum(magnitude, 1e6)
    even = 2 * lax.round(finite / (2 * step), lax.RoundingMethod.TO_NEAREST_EVEN)
    rest = finite - even * step
    total = lax.full_like(x, 0)
    for n in range(-reach, reach + 1, 2):
        total = total + lax.exp(-((rest - n * step) ** 2)) / (even + n)
    far = total / math.sqrt(math.pi)
    square = x * x
    series = lax.full_like(x, 1)
    for k in range(12, 0, -1):
        series = 1 - 2 * square / (2 * k + 1) * series
    near = x * series
    large = 0.5 / gnp.maximum(magnitude, 1)
    far = gnp.where(magnitude > 1e5, large, far)
    return gnp.where(magnitude < 0.5, near, gnp.where(x < 0, -far, far))


_dawsn.defjvps(lambda t, out, x: t * (1 - 2 * x * out))


@strongly_typed
def ndtr(x: ArrayLike) -> Array:
    """The distribution function of the standard normal distribution.

    Args:
      x: an array or scalar of float32 or float64.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.ndtr(gnp.array([-1.96, 0.0, 1.96])).round(4)
      Array([0.025, 0.5  , 0.975], dtype=float32)

    See also:
      `log_ndtr`, `ndtri`
    """
    (x,) = promoted("ndtr", x, inexact=True)
    if x.dtype not in _WITH_SPLIT_PRODUCTS:
        return lax.erfc(x * -math.sqrt(0.5)) * 0.5
    result: Array = _ndtr(x)
    return result


# Corrections of the smallest normal numbers, multiplied by this, are normal numbers too.
_UP = 2.0**30
_WITH_SPLIT_PRODUCTS = (np.dtype(np.float32), np.dtype(np.float64))


def _ndtr_and_correction(x: Array) -> tuple[Array, Array]:
    """The distribution function at the rounded ``x / sqrt(2)``, and a relative correction.

    In the tail, where ``x`` is negative, a unit in the last place of the argument of erfc counts
    ``x**2`` times in the result.
    """
    multiple = x * float(_SQRT_HALF)
    lost = rounding_of_multiple(x, _SQRT_HALF, multiple)
    # The logarithmic derivative of erfc is -(z + sqrt(z² + c)), where c is between 4 / pi and 2.
    z = gnp.maximum(-multiple, 0)
    slope = z + lax.sqrt(z * z + 1.5)
    return 0.5 * lax.erfc(-multiple), gnp.where(x < 0, lost * slope, 0)


def _bounded(x: Array) -> Array:
    """``x`` without the numbers at which both tails are zero, infinity among them."""
    return gnp.clip(x, -40, 40)


@custom_jvp
def _density(x: Array) -> Array:
    x = _bounded(x)
    # The square of the high part is exact.
    high = lax.reduce_precision(x, 11, 11 if x.dtype == np.float32 else 25)
    main = math.sqrt(0.5 / math.pi) * _UP * lax.exp(-0.5 * high * high)
    return (main + main * lax.expm1(-0.5 * (x - high) * (x + high))) / _UP


_density.defjvps(lambda t, out, x: -t * _bounded(x) * out)


@custom_jvp
def _ndtr(x: Array) -> Array:
    value, correction = _ndtr_and_correction(_bounded(x))
    value = value * _UP
    return (value + value * correction) / _UP


_ndtr.defjvps(lambda t, out, x: t * _density(x))


@strongly_typed
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """The logarithm of the normal distribution function, without loss in either tail.

    Args:
      x: a real array or scalar of float32 or float64.
      series_order: the number of terms of the asymptotic series in the lower tail, from 0 to 30;
        at least eight are used.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.log_ndtr(gnp.array([-40.0, 0.0])).round(4)
      Array([-8.046084e+02, -6.931000e-01], dtype=float32)
      >>> gnp.log(special.ndtr(-40.0))
      Array(-inf, dtype=float32)
    """
    if not 0 <= series_order <= 30:
        raise ValueError(f"log_ndtr: series_order must be from 0 to 30, got {series_order}")
    (x,) = real_arguments("log_ndtr", x)
    if x.dtype not in _WITH_SPLIT_PRODUCTS:
        raise TypeError(f"log_ndtr takes float32 and float64, got {x.dtype.name}")
    result: Array = _log_ndtr(x, series_order)
    return result


def _start_of_tail(x: Array) -> float:
    """The number below which the asymptotic series is used."""
    return -20.0 if x.dtype == np.float64 else -10.0


def _tail_series(x: Array, series_order: int = 0) -> tuple[Array, Array]:
    """A series ``s`` and ``r = 1 + s / x²``, where the distribution function is ``-r phi(x) / x``.

    The values are those at the start of the tail for ``x`` above it.
    """
    tail = gnp.clip(x, -1e15 if x.dtype == np.float32 else -1e150, _start_of_tail(x))
    square = tail * tail
    total = term = lax.full_like(x, -1)
    for k in range(2, max(series_order, _SERIES_TERMS) + 1):
        term = -term * (2 * k - 1) / square
        total = total + term
    return total, 1 + total / square


def _log_ndtr_below_zero(x: Array, series_order: int = 0) -> Array:
    start = _start_of_tail(x)
    value, correction = _ndtr_and_correction(gnp.clip(x, start, 0))
    middle = lax.log(value) + correction
    tail = gnp.minimum(x, start)
    _, ratio = _tail_series(x, series_order)
    rest = lax.log(-tail) + _HALF_LOG_2PI - lax.log(ratio)
    # The square may overflow where its half does not.
    return gnp.where(x > start, middle, -(0.5 * tail) * tail - rest)


def _log_ndtr_of(x: Array, series_order: int) -> Array:
    value, correction = _ndtr_and_correction(-gnp.clip(x, 0, 40))
    upper = (lax.log1p(-value) * _UP - value * _UP * correction / (1 - value)) / _UP
    lower = _log_ndtr_below_zero(gnp.minimum(x, 0), series_order)
    return gnp.where(x > 0, upper, lower)


# The order is not an array and is not differentiated.
_log_ndtr = custom_jvp(_log_ndtr_of, nondiff_argnums=(1,))


@_log_ndtr.defjvp
def _log_ndtr_jvp(series_order: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    return _log_ndtr(x, series_order), t * _hazard(x)


@custom_jvp
def _hazard(x: Array) -> Array:
    """The quotient of the density and the distribution function."""
    start = _start_of_tail(x)
    middle = gnp.maximum(x, start)
    _, ratio = _tail_series(x)
    return gnp.where(x > start, _density(middle) / _ndtr(middle), -x / ratio)


@_hazard.defjvp
def _hazard_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    out = _hazard(x)
    series, ratio = _tail_series(x)
    is_middle = x > _start_of_tail(x)
    # In the tail, the sum of x and the quotient cancels.
    inner = gnp.where(is_middle, _bounded(x), 0)
    slope = -out * (inner + out)
    return out, t * gnp.where(is_middle, slope, series / (ratio * ratio))


@strongly_typed
def ndtri(p: ArrayLike) -> Array:
    """The inverse of the normal distribution function `ndtr`; nan outside of [0, 1].

    Args:
      p: a real array or scalar of float32 or float64.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.ndtri(gnp.array([0.0, 0.5, 0.975])).round(4)
      Array([-inf, 0.  , 1.96], dtype=float32)
    """
    (p,) = real_arguments("ndtri", p)
    if p.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise TypeError(f"ndtri takes float32 and float64, got {p.dtype.name}")
    result: Array = _ndtri(p)
    return result


@custom_jvp
def _ndtri(p: Array) -> Array:
    lower = gnp.minimum(p, 1 - p)
    # This form of the odd function gives 0.0 at one half, and not -0.0.
    center = math.sqrt(2) * lax.erf_inv(2 * lower - 1)
    # In the tails, Newton's method on the logarithm of the distribution function.
    logarithm = _log_of_tail(lower)
    y = lax.sqrt(-2 * logarithm)
    x = -(y - (lax.log(y) + _HALF_LOG_2PI) / y)
    for _ in range(5):
        reached = _log_ndtr_below_zero(x)
        slope = lax.exp(-0.5 * x * x - _HALF_LOG_2PI - reached)
        x = x - (reached - logarithm) / slope
    value = gnp.where(lower < 0.1, x, center)
    value = gnp.where(p > 0.5, -value, value)
    value = gnp.where(gnp.equal(p, 0), -np.inf, gnp.where(gnp.equal(p, 1), np.inf, value))
    return gnp.where((p < 0) | (p > 1) | gnp.isnan(p), lax.full_like(p, np.nan), value)


_ndtri.defjvps(lambda t, out, p: t * lax.exp(0.5 * out * out + _HALF_LOG_2PI))


@strongly_typed
def erfcinv(y: ArrayLike) -> Array:
    """The inverse of the complementary error function; nan outside of [0, 2].

    Args:
      y: a real array or scalar. Narrow floating point dtypes are computed in float32.
    Returns:
      An array of the shape of ``y``: inf at 0, 0 at 1, and -inf at 2.
    Raises:
      ValueError: ``y`` is complex.

    Example:
      >>> import gnomon.numpy as gnp
      >>> erfcinv(gnp.array([0.0, 0.5, 1.0, 2.0]))
      Array([       inf, 0.47693628, 0.        ,       -inf], dtype=float32)
    """
    (y,) = real_arguments("erfcinv", y)
    if y.dtype in _WITH_SPLIT_PRODUCTS:
        result: Array = _erfcinv(y)
        return result
    return lax.convert_element_type(
        _erfcinv(lax.convert_element_type(y, np.dtype(np.float32))), y.dtype
    )


@custom_jvp
def _erfcinv(y: Array) -> Array:
    tail = gnp.where(y > 1, 2 - y, y)
    # The difference is exact where the central form is used.
    center = lax.erf_inv(gnp.where(tail < 0.1, 0, 1 - y))
    value = _inverse_of_tail(tail)
    value = gnp.where(tail < 0.1, gnp.where(y > 1, -value, value), center)
    value = gnp.where(gnp.equal(y, 0), np.inf, gnp.where(gnp.equal(y, 2), -np.inf, value))
    return gnp.where((y < 0) | (y > 2) | gnp.isnan(y), lax.full_like(y, np.nan), value)


def _log_of_tail(tail: Array) -> Array:
    """The logarithm of numbers from the smallest subnormal one to 0.1."""
    info = np.finfo(tail.dtype)
    tiny, places = float(info.tiny), info.nmant + 1
    # Compiled arithmetic may flush subnormal numbers to zero, which is clipped here.
    is_small = tail < tiny
    least = float(info.smallest_subnormal) * 2.0**places
    scaled = gnp.clip(gnp.where(is_small, tail, 0) * 2.0**places, least, 1)
    logarithm = lax.log(gnp.where(is_small, scaled, gnp.clip(tail, tiny, 0.1)))
    return logarithm - gnp.where(is_small, places * math.log(2), 0)


def _inverse_of_tail(tail: Array) -> Array:
    """The z with erfc(z) = tail, by Newton's method on the logarithm of erfc(z) for tail < 0.1."""
    logarithm = _log_of_tail(tail)
    z = lax.sqrt(-logarithm)
    z = z - (lax.log(z) + 0.5 * math.log(math.pi)) / (2 * z)
    for _ in range(3):
        # erfc(z) is exp(-z²) erfcx(z), of which the first factor may be subnormal.
        scaled = erfcx(z)
        slope = 2 / math.sqrt(math.pi) / scaled
        z = z + (lax.log(scaled) - z * z - logarithm) / slope
    return z


@_erfcinv.defjvp
def _erfcinv_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (y,), (t,) = primals, tangents
    z = _erfcinv(y)
    # The derivative is -sqrt(pi) / 2 exp(z²), where exp(-z²) is erfc(z) / erfcx(z). In the tails,
    # an error of z would count many times in the exponential.
    tail = gnp.where(y > 1, 2 - y, y)
    far = gnp.abs(z) > 1
    square = gnp.where(far, 0, z)
    central = lax.exp(square * square)
    ratio = erfcx(gnp.where(far, gnp.abs(z), 1)) / gnp.where(far, tail, 1)
    return z, t * (-0.5 * math.sqrt(math.pi) * gnp.where(far, ratio, central))


# ------------------------------------------------------------------------------------------ Box-Cox


def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """The Box-Cox transformation ``(x**lmbda - 1) / lmbda``, and ``log(x)`` where lmbda is 0.

    Args:
      x: positive numbers, an array or scalar.
      lmbda: the power, which broadcasts with ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.boxcox(gnp.array([1.0, 4.0]), 0.5)
      Array([0., 2.], dtype=float32)
      >>> special.boxcox(gnp.array([1.0, 4.0]), 0.0).round(4)
      Array([0.    , 1.3863], dtype=float32)
    """
    x, power = real_arguments("boxcox", x, lmbda)
    return _expm1_over(power, lax.log(x))


def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """The Box-Cox transformation of ``1 + x``, accurate for small ``x``.

    Args:
      x: numbers above -1, an array or scalar.
      lmbda: the power, which broadcasts with ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.boxcox1p(gnp.array([0.0, 3.0]), 0.5)
      Array([0., 2.], dtype=float32)
    """
    x, power = real_arguments("boxcox1p", x, lmbda)
    return _expm1_over(power, lax.log1p(x))


def _expm1_over(power: Array, logarithm: Array) -> Array:
    # At power 0 the value is the logarithm, even where that is infinite.
    product = gnp.where(gnp.equal(power, 0) & gnp.isinf(logarithm), 0, power * logarithm)
    # The first terms of the series; the quotient would lose digits where the product is subnormal.
    is_small = gnp.abs(product) < float(np.finfo(product.dtype).eps)
    safe = gnp.where(is_small, 1, power)
    start = logarithm * (1 + product / 2)
    return gnp.where(is_small, start, lax.expm1(safe * logarithm) / safe)
