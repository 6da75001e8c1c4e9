"""Elementwise rounding, and parts of numbers: sign bit, exponent, real and imaginary part."""

from __future__ import annotations

import operator

import ml_dtypes
import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind, with_weak_type
from gnomon.dialects.combinators import highest
from gnomon.dialects.emit import ops
from gnomon.dialects.types import BOOL, UNSIGNED, is_complex, is_integer
from gnomon.lax import RoundingMethod
from gnomon.lax._creation import converted
from gnomon.lax._operands import FLOAT, FLOAT_OR_COMPLEX, INTEGERS, constant_like
from gnomon.numpy._arguments import as_array
from gnomon.numpy._dispatch import (
    INEXACT_KIND,
    accept,
    check_ranks,
    no_out,
    promoted_dtypes,
    promoted_operands,
    reject_complex,
    select_op,
    spread,
    zero_like,
)

_INT32 = np.dtype("int32")

# ----------------------------------------------------------------------------------------- rounding


def _integral(x: Array) -> bool:
    return x.dtype == BOOL or x.dtype in INTEGERS


def floor(x: ArrayLike, /) -> Array:
    """The largest integer that is not above ``x``, elementwise.

    Args:
      x: an array or scalar of real numbers; integers are returned unchanged.
    Returns:
      An array of the shape and dtype of ``x``; floating point numbers stay floating point.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.floor(gnp.array([1.8, -1.2]))
      Array([ 1., -2.], dtype=float32)

    See also:
      `ceil`, `trunc`, `floor_divide`
    """
    x = as_array("floor", x)
    return x if _integral(x) else lax.floor(x)


def ceil(x: ArrayLike, /) -> Array:
    """The smallest integer that is not below ``x``, elementwise.

    Args:
      x: an array or scalar of real numbers; integers are returned unchanged.
    Returns:
      An array of the shape and dtype of ``x``; floating point numbers stay floating point.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.ceil(gnp.array([1.2, -1.2]))
      Array([ 2., -1.], dtype=float32)

    See also:
      `floor`, `trunc`, `round`
    """
    x = as_array("ceil", x)
    return x if _integral(x) else lax.ceil(x)


def trunc(x: ArrayLike) -> Array:
    """``x`` rounded towards zero to an integer, elementwise.

    Args:
      x: an array or scalar of real numbers; integers are returned unchanged.
    Returns:
      An array of the shape and dtype of ``x``; floating point numbers stay floating point.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.trunc(gnp.array([1.8, -1.8]))
      Array([ 1., -1.], dtype=float32)

    See also:
      `floor`, `ceil`
    """
    x = as_array("trunc", x)
    if _integral(x):
        return x
    accept("trunc", x, FLOAT)
    return select_op(bind(ops.lt, x, zero_like(x)), lax.ceil(x), lax.floor(x))


def fix(x: ArrayLike, out: None = None) -> Array:
    """``x`` rounded towards zero to an integer, elementwise; another name of `trunc`.

    Args:
      x: an array or scalar of real numbers.
      out: must be None, because arrays are immutable.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fix(gnp.array([1.8, -1.8]))
      Array([ 1., -1.], dtype=float32)
    """
    no_out("fix", out)
    return trunc(x)


def rint(x: ArrayLike, /) -> Array:
    """The nearest integer as a floating point number, elementwise.

    Args:
      x: an array or scalar; integers and bool become floating point numbers.
    Returns:
      An array of the shape of ``x``; halves are rounded to the even neighbour.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.rint(gnp.array([0.5, 1.5, -0.7]))
      Array([ 0.,  2., -1.], dtype=float32)

    See also:
      `round`
    """
    x = as_array("rint", x)
    if _integral(x):
        return converted(x, _dtypes.default_float_dtype())
    return _round_even(x)


def _round_even(x: Array) -> Array:
    if is_complex(x.dtype):
        parts = bind(ops.real, x), bind(ops.imag, x)
        return bind(ops.complex, *(_round_even(part) for part in parts))
    return lax.round(x, RoundingMethod.TO_NEAREST_EVEN)


def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Elementwise rounding to a number of decimals; halves are rounded to the even digit.

    Args:
      a: an array or scalar.
      decimals: the number of decimals; negative numbers round to tens, hundreds, and so on.
      out: must be None, because arrays are immutable.
    Returns:
      An array of the dtype of ``a``. Halves are rounded to the even digit.
    Raises:
      NotImplementedError: ``a`` is an integer array and ``decimals`` is negative.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.round(gnp.array([0.5, 1.5, 2.5]))
      Array([0., 2., 2.], dtype=float32)
      >>> gnp.round(gnp.array([3.14159, 2.71828]), 2)
      Array([3.14, 2.72], dtype=float32)

    See also:
      `floor`, `ceil`, `rint`
    """
    no_out("round", out)
    x, decimals = as_array("round", a), operator.index(decimals)
    if _integral(x):
        if decimals < 0:
            raise NotImplementedError("round: negative decimals are not supported for integers")
        return x
    if decimals == 0:
        return _round_even(x)
    # The factor would overflow in float16 and narrower dtypes.
    wide = x if x.dtype.itemsize >= 4 else converted(x, np.dtype("float32"))
    largest = int(np.log10(float(np.finfo(wide.dtype).max)))
    if decimals > largest:
        return x
    if decimals < -largest:
        # Less than half of the unit: a zero, but not of an infinity.
        return select_op(_finite(x), bind(ops.mul, x, zero_like(x)), x)
    factor = constant_like(wide, 10.0**decimals)
    scaled = bind(ops.mul, wide, factor)
    rounded = bind(ops.div, _round_even(scaled), factor)
    # Where the product overflows, the last digit is before the decimal point.
    rounded = select_op(_finite(scaled), rounded, wide)
    return rounded if rounded.dtype == x.dtype else converted(rounded, x.dtype, x.aval.weak_type)


def _finite(x: Array) -> Array:
    if not is_complex(x.dtype):
        return bind(ops.is_finite, x)
    return bind(getattr(ops, "and"), *(_finite(bind(part, x)) for part in (ops.real, ops.imag)))


around = round


def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """The fractional and the integral part, elementwise.

    Args:
      x: an array or scalar of real numbers; integers become floating point numbers.
      out: must be None, because arrays are immutable.
    Returns:
      The pair ``(fraction, integer)``; a fraction that is not zero has the sign of ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.modf(gnp.array([3.5, -1.25]))
      (Array([ 0.5 , -0.25], dtype=float32), Array([ 3., -1.], dtype=float32))
    """
    no_out("modf", out)
    (x,) = promoted_dtypes("modf", INEXACT_KIND, x)
    accept("modf", x, FLOAT)
    whole = select_op(bind(ops.ge, x, zero_like(x)), lax.floor(x), lax.ceil(x))
    return bind(ops.sub, x, whole), whole


# ----------------------------------------------------------------------------- parts of the numbers


def fabs(x: ArrayLike, /) -> Array:
    """The absolute value as a floating point number, elementwise.

    Args:
      x: an array or scalar of real numbers; integers become floating point numbers.
    Raises:
      TypeError: ``x`` is complex; see `absolute`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fabs(gnp.array([-1, 2]))
      Array([1., 2.], dtype=float32)
    """
    (x,) = promoted_dtypes("fabs", INEXACT_KIND, x)
    accept("fabs", x, FLOAT)
    return bind(ops.abs, x)


def real(val: ArrayLike, /) -> Array:
    """The real part, elementwise.

    Args:
      val: an array or scalar; real numbers are returned unchanged.
    Returns:
      A real array of the shape of ``val``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.real(gnp.array([1 + 2j, 3.0]))
      Array([1., 3.], dtype=float32)
    """
    x = as_array("real", val)
    return bind(ops.real, x) if is_complex(x.dtype) else x


def imag(val: ArrayLike, /) -> Array:
    """The imaginary part, elementwise.

    Args:
      val: an array or scalar; the imaginary part of a real number is zero.
    Returns:
      A real array of the shape of ``val``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.imag(gnp.array([1 + 2j, 3.0]))
      Array([2., 0.], dtype=float32)
    """
    x = as_array("imag", val)
    return bind(ops.imag, x) if is_complex(x.dtype) else constant_like(x, 0)


def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate, elementwise.

    Args:
      x: an array or scalar; real numbers are returned unchanged.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.conjugate(gnp.array([1 + 2j, 3 - 4j]))
      Array([1.-2.j, 3.+4.j], dtype=complex64)
    """
    x = as_array("conjugate", x)
    return bind(ops.conj, x) if is_complex(x.dtype) else x


conj = conjugate


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The angle of complex numbers with the positive real axis, elementwise.

    Args:
      z: an array or scalar; negative real numbers have the angle pi.
      deg: return degrees instead of radians.
    Returns:
      A floating point array of the shape of ``z``, with values in [-pi, pi].

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.angle(gnp.array([1.0, 1j, -1 + 0j])).round(4)
      Array([0.    , 1.5708, 3.1416], dtype=float32)
      >>> gnp.angle(1 + 1j, deg=True)
      Array(45., dtype=float32, weak_type=True)
    """
    (x,) = promoted_dtypes("angle", INEXACT_KIND, z)
    if _integral(as_array("angle", z)):
        x = converted(x, _dtypes.default_float_dtype())
    if is_complex(x.dtype):
        re, im = bind(ops.real, x), bind(ops.imag, x)
    else:
        re, im = x, constant_like(x, 0)
        if not x.ndim:
            im = with_weak_type(im, False)
    result = bind(ops.atan2, im, re)
    return bind(ops.mul, result, constant_like(result, 180 / np.pi)) if deg else result


_UNSIGNED_OF_BITS = {bits: np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)}
# All numbers of this format are positive.
_POWERS_OF_TWO = np.dtype(ml_dtypes.float8_e8m0fnu)
_SIGNED_OF_BITS = {bits: np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)}


def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit is set, elementwise; it is for -0.0 and for negative nan.

    Args:
      x: an array or scalar of real numbers.
    Returns:
      A bool array of the shape of ``x``.
    Raises:
      ValueError: an argument is complex.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.signbit(gnp.array([-1.0, -0.0, 0.0]))
      Array([ True,  True, False], dtype=bool)

    See also:
      `copysign`, `sign`
    """
    array = as_array("signbit", x)
    if is_complex(array.dtype):
        raise ValueError(f"signbit is not well defined for complex numbers, got {array.aval}")
    if array.dtype in (BOOL, _POWERS_OF_TWO):
        return with_weak_type(lax.full_like(array, False, np.bool_), False)
    if not is_integer(array.dtype):
        bits = _SIGNED_OF_BITS[_dtypes.itemsize_bits(array.dtype)]
        array = bind(ops.bitcast_convert, array, dtype=bits)
    return with_weak_type(bind(ops.lt, array, zero_like(array)), False)


def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The magnitude of ``x1`` with the sign of ``x2``, elementwise.

    Args:
      x1, x2: arrays or scalars of real numbers that broadcast together; the sign bit of -0.0
        counts.
    Returns:
      A floating point array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.copysign(gnp.array([1.0, -2.0]), -0.0)
      Array([-1., -2.], dtype=float32)

    See also:
      `sign`, `signbit`
    """
    x, y = promoted_operands("copysign", INEXACT_KIND, x1, x2)
    accept("copysign", x, FLOAT)
    magnitude = bind(ops.abs, x)
    return select_op(signbit(y), bind(ops.neg, magnitude), magnitude)


def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Split numbers into a mantissa and a power of two, elementwise.

    Args:
      x: an array or scalar of real numbers; integers become floating point numbers.
    Returns:
      The pair ``(mantissa, exponent)`` with ``x = mantissa * 2**exponent``. The magnitude of the
      mantissa is in [0.5, 1); the exponent is int32. Zeros, infinities and nan are their own
      mantissa, with exponent 0.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.frexp(gnp.array([8.0, -0.75, 0.0]))
      (Array([ 0.5 , -0.75,  0.  ], dtype=float32), Array([4, 0, 0], dtype=int32))

    See also:
      `ldexp`
    """
    (x,) = promoted_dtypes("frexp", INEXACT_KIND, x)
    x = with_weak_type(x, False)
    reject_complex("frexp", x)
    exponent = _exponent(x)
    # Multiplication gives the mantissa the right derivative; a single factor would overflow.
    negated = bind(ops.neg, exponent)
    half = bind(ops.shift_right_arithmetic, negated, constant_like(negated, 1))
    mantissa = x
    for part in (half, bind(ops.sub, negated, half)):
        mantissa = bind(ops.mul, mantissa, _power_of_two(part, x))
    return mantissa, with_weak_type(exponent, False)


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise :math:`x_1 2^{x_2}`, rounded once.

    Args:
      x1: an array or scalar of real numbers.
      x2: an array or scalar of integers.
    Raises:
      ValueError: ``x1`` is complex, or ``x2`` does not hold integers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.ldexp(gnp.array([1.0, 0.75]), gnp.array([4, -1]))
      Array([16.   ,  0.375], dtype=float32)

    See also:
      `frexp`
    """
    x, n = as_array("ldexp", x1, 0), as_array("ldexp", x2, 1)
    if is_complex(x.dtype) or n.dtype in FLOAT_OR_COMPLEX:
        raise ValueError(f"ldexp not supported for input types {x.dtype.name}, {n.dtype.name}")
    (x,) = promoted_dtypes("ldexp", INEXACT_KIND, x)
    check_ranks("ldexp", [x, n])
    x, n = spread("ldexp", [x, n])
    info = ml_dtypes.finfo(x.dtype)
    mantissa, exponent = frexp(x)
    reach = 4 * (int(info.maxexp) - int(info.minexp) + int(info.nmant))
    if n.dtype in INTEGERS and _dtypes.itemsize_bits(n.dtype) > 8:
        n = lax.clamp(constant_like(n, 0 if n.dtype in UNSIGNED else -reach), n, _limit(n, reach))
    total = bind(ops.add, exponent, converted(n, _INT32))
    # All factors but the last keep the number normal, so only the last product rounds. They leave
    # zeros, infinities and nan as they are, with the derivative 2^n of all other numbers.
    low, high = int(info.minexp) + 1, int(info.maxexp) - 1
    result, left = mantissa, total
    for _ in range(3):
        step = lax.clamp(constant_like(left, low), left, constant_like(left, high))
        result = bind(ops.mul, result, _power_of_two(step, x))
        left = bind(ops.sub, left, step)
    return result


def _limit(n: Array, reach: int) -> Array:
    return constant_like(n, min(reach, int(_dtypes.iinfo(n.dtype).max)))


def _is_special(x: Array) -> Array:
    """Zero, infinite or nan."""
    finite = bind(ops.is_finite, x)
    return bind(
        getattr(ops, "or"), bind(getattr(ops, "not"), finite), bind(ops.eq, x, zero_like(x))
    )


def _exponent(x: Array) -> Array:
    """The exponent of `frexp`."""
    info = ml_dtypes.finfo(x.dtype)
    mantissa_bits, bias = int(info.nmant), 1 - int(info.minexp)
    bits = _UNSIGNED_OF_BITS[_dtypes.itemsize_bits(x.dtype)]
    subnormal = bind(ops.lt, bind(ops.abs, x), constant_like(x, info.tiny))
    scaled = bind(ops.mul, x, constant_like(x, 2.0**mantissa_bits))
    raw = bind(ops.bitcast_convert, select_op(subnormal, scaled, x), dtype=bits)
    raw = bind(ops.shift_right_logical, raw, constant_like(raw, mantissa_bits))
    mask = (1 << _dtypes.itemsize_bits(x.dtype) - 1 - mantissa_bits) - 1
    raw = bind(getattr(ops, "and"), raw, constant_like(raw, mask))
    biased = converted(raw, _INT32)
    shift = select_op(
        subnormal, constant_like(biased, bias - 1 + mantissa_bits), constant_like(biased, bias - 1)
    )
    exponent = bind(ops.sub, biased, shift)
    return select_op(_is_special(x), zero_like(exponent), exponent)


def _power_of_two(exponent: Array, like: Array) -> Array:
    """2 to int32 exponents of normal numbers, made of bits: exact, with a derivative of zero."""
    info = ml_dtypes.finfo(like.dtype)
    bits = _UNSIGNED_OF_BITS[_dtypes.itemsize_bits(like.dtype)]
    low, high = int(info.minexp), int(info.maxexp) - 1
    exponent = lax.clamp(constant_like(exponent, low), exponent, constant_like(exponent, high))
    biased = bind(ops.add, exponent, constant_like(exponent, 1 - low))
    raw = converted(biased, bits)
    raw = bind(ops.shift_left, raw, constant_like(raw, int(info.nmant)))
    power_of_two = bind(ops.bitcast_convert, raw, dtype=like.dtype)
    return with_weak_type(power_of_two, like.aval.weak_type)


def spacing(x: ArrayLike, /) -> Array:
    """The distance to the next number of larger magnitude, elementwise.

    For float16, as in NumPy, it is the distance to the next number towards positive infinity.

    Args:
      x: an array or scalar of real numbers; integers become floating point numbers.
    Returns:
      A floating point array of the shape of ``x``, with the sign of ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.spacing(gnp.array([1.0, 1000.0]))
      Array([1.1920929e-07, 6.1035156e-05], dtype=float32)

    See also:
      `nextafter`, `finfo`
    """
    (x,) = promoted_dtypes("spacing", INEXACT_KIND, x)
    if is_complex(x.dtype):
        raise ValueError(f"spacing is not defined for complex numbers, got {x.aval}")
    # Formats without infinities have their largest number at the end, and nan beyond it.
    end = constant_like(x, highest(x.dtype))
    away = end if x.dtype == np.dtype("float16") else copysign(end, x)
    distance = bind(ops.sub, bind(ops.nextafter, x, away), x)
    if not np.isinf(highest(x.dtype)):
        at_end = bind(ops.eq, x, away)
        distance = select_op(at_end, constant_like(x, np.nan), distance)
    return with_weak_type(distance, False)


__all__ = [
    "angle",
    "around",
    "ceil",
    "conj",
    "conjugate",
    "copysign",
    "fabs",
    "fix",
    "floor",
    "frexp",
    "imag",
    "ldexp",
    "modf",
    "real",
    "rint",
    "round",
    "signbit",
    "spacing",
    "trunc",
]
