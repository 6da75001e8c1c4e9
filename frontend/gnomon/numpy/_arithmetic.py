"""Elementwise arithmetic of more than one op: division with rounding, powers, parts of numbers."""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np

from gnomon import _dtypes, lax
from gnomon._array import Array, ConcreteArray
from gnomon._tracing import bind, is_tracer
from gnomon.dialects.emit import ops
from gnomon.dialects.types import BOOL, UNSIGNED, is_complex, is_integer
from gnomon.lax import RoundingMethod
from gnomon.lax._creation import converted
from gnomon.lax._operands import (
    FLOAT,
    FLOAT_OR_COMPLEX,
    INTEGERS,
    constant_like,
    with_weak_type,
)
from gnomon.numpy._arguments import as_array
from gnomon.numpy._dispatch import (
    ANY_KIND,
    INEXACT_KIND,
    NUMERIC_KIND,
    accept,
    promoted_dtypes,
    promoted_operands,
    spread,
)
from gnomon.numpy._ufuncs import absolute, logical_and, maximum, minimum

_INT32 = np.dtype("int32")


def _select(condition: Array, on_true: Array, on_false: Array) -> Array:
    weak = on_true.aval.weak_type and on_false.aval.weak_type
    return with_weak_type(bind(ops.select, condition, on_true, on_false), weak)


def _zero(x: Array) -> Array:
    return constant_like(x, 0)


def _reject_complex(function: str, x: Array) -> None:
    if is_complex(x.dtype):
        raise TypeError(f"{function} does not support complex-valued inputs, got {x.aval}")


# ---------------------------------------------------------------------------- rounding quotients


def floor_divide(x1: Any, x2: Any, /) -> Array:
    """Elementwise quotient rounded down; of integers by zero it is no number to rely on.

    Args:
      x1, x2: arrays or scalars of real numbers that can be broadcast together.
    Returns:
      An array of the promoted dtype and the broadcast shape.
    Raises:
      TypeError: complex numbers.
    """
    x, y = promoted_operands("floor_divide", NUMERIC_KIND, x1, x2)
    _reject_complex("floor_divide", x)
    if x.dtype in UNSIGNED:
        return bind(ops.div, x, y)
    if not is_integer(x.dtype):
        return _float_divmod(x, y)[0]
    quotient = bind(ops.div, x, y)
    signs_differ = bind(ops.ne, bind(ops.sign, x), bind(ops.sign, y))
    inexact = bind(ops.ne, bind(ops.rem, x, y), _zero(x))
    lower = bind(ops.sub, quotient, constant_like(x, 1))
    return _select(logical_and(signs_differ, inexact), lower, quotient)


def _float_divmod(x: Array, y: Array) -> tuple[Array, Array]:
    zero = _zero(x)
    mod = bind(ops.rem, x, y)
    # x - mod is a multiple of y but for rounding: the quotient rounds to the exact integer.
    exact = _select(bind(ops.eq, y, zero), x, bind(ops.sub, x, mod))
    quotient = bind(ops.div, exact, y)
    signs_differ = bind(ops.ne, bind(ops.sign, y), bind(ops.sign, mod))
    below = logical_and(bind(ops.ne, mod, zero), signs_differ)
    mod = _select(below, bind(ops.add, mod, y), mod)
    quotient = _select(below, bind(ops.sub, quotient, constant_like(x, 1)), quotient)
    return lax.round(quotient), mod


def remainder(x1: Any, x2: Any, /) -> Array:
    """Elementwise remainder with the sign of the divisor: ``x1 - x2 * floor(x1 / x2)``.

    Args:
      x1, x2: arrays or scalars of real numbers that can be broadcast together.
    Returns:
      An array of the promoted dtype and the broadcast shape; integers modulo zero give 0.
    Raises:
      TypeError: complex numbers.
    """
    x, y = promoted_operands("remainder", NUMERIC_KIND, x1, x2)
    _reject_complex("remainder", x)
    zero = _zero(x)
    y = _nonzero_divisor(y)
    rest = bind(ops.rem, x, y)
    signs_differ = bind(ops.ne, bind(ops.lt, rest, zero), bind(ops.lt, y, zero))
    wrong = logical_and(signs_differ, bind(ops.ne, rest, zero))
    return _select(wrong, bind(ops.add, rest, y), rest)


mod = remainder


def _nonzero_divisor(y: Array) -> Array:
    if not is_integer(y.dtype):
        return y
    return _select(bind(ops.eq, y, _zero(y)), constant_like(y, 1), y)


def fmod(x1: Any, x2: Any, /) -> Array:
    """Elementwise remainder with the sign of the dividend: the quotient is rounded to zero.

    Args:
      x1, x2: arrays or scalars of real numbers that can be broadcast together.
    Returns:
      An array of the promoted dtype and the broadcast shape; integers modulo zero give 0.
    Raises:
      TypeError: complex numbers.
    """
    x, y = promoted_operands("fmod", NUMERIC_KIND, x1, x2)
    _reject_complex("fmod", x)
    return bind(ops.rem, x, _nonzero_divisor(y))


def divmod(x1: Any, x2: Any, /) -> tuple[Array, Array]:
    """`floor_divide` and `remainder` together."""
    x, y = promoted_operands("divmod", NUMERIC_KIND, x1, x2)
    _reject_complex("divmod", x)
    if is_integer(x.dtype):
        return floor_divide(x, y), remainder(x, y)
    return _float_divmod(x, y)


# ------------------------------------------------------------------------------------------- powers


def power(x1: Any, x2: Any, /) -> Array:
    """Elementwise power :math:`x_1^{x_2}`.

    An integer exponent that is one known number gives products, with exact derivatives; so do
    powers of integers, which wrap around on overflow.

    Args:
      x1, x2: arrays or scalars that can be broadcast together.
    Returns:
      An array of the promoted dtype and the broadcast shape. Negative powers of integers in an
      array of exponents are rounded to zero.
    Raises:
      TypeError: integers to a negative power that is one known number.
    """
    exponent = _known_integer(x2)
    if exponent is not None:
        (x,) = promoted_dtypes("power", NUMERIC_KIND, x1)
        return lax.integer_pow(x, exponent)
    x, y = as_array("power", x1, 0), as_array("power", x2, 1)
    promoted_x, promoted_y = promoted_operands("power", NUMERIC_KIND, x, y)
    if is_integer(promoted_x.dtype):
        return with_weak_type(_integer_power(promoted_x, promoted_y), False)
    if x.dtype in FLOAT_OR_COMPLEX and y.dtype in INTEGERS:
        x, y = spread("power", [x, y])
        return lax.pow(x, y)
    return bind(ops.pow, promoted_x, promoted_y)


pow = power


def _known_integer(x: Any) -> int | None:
    """The integer of an exponent without dimensions whose value is known."""
    if type(x) is int:
        return x
    if is_tracer(x) or (type(x) is ConcreteArray and (x.ndim or x.dtype not in INTEGERS)):
        return None
    try:
        return operator.index(x)
    except TypeError:
        return None


def _integer_power(x: Array, y: Array) -> Array:
    """By squaring, a bit of the exponent at a time."""
    zero, one = _zero(x), constant_like(x, 1)
    bits = _dtypes.itemsize_bits(x.dtype)
    signed = x.dtype not in UNSIGNED
    base, left, result = x, y, one
    for bit in range(bits - 1 if signed else bits):
        if bit:
            base = bind(ops.mul, base, base)
            left = bind(ops.shift_right_logical, left, one)
        odd = bind(ops.eq, bind(getattr(ops, "and"), left, one), one)
        result = _select(odd, bind(ops.mul, result, base), result)
    if not signed:
        return result
    # 1 and -1 to a negative power are integers, by the parity of the exponent; of the others the
    # fraction is rounded to zero.
    unit = bind(ops.eq, bind(ops.abs, x), one)
    odd = bind(ops.eq, bind(getattr(ops, "and"), y, one), one)
    fraction = _select(unit, _select(odd, x, one), zero)
    return _select(bind(ops.lt, y, zero), fraction, result)


def hypot(x1: Any, x2: Any, /) -> Array:
    r"""Elementwise :math:`\sqrt{x_1^2 + x_2^2}` without overflow on the way; inf where one is.

    Args:
      x1, x2: arrays or scalars of real numbers that can be broadcast together.
    Raises:
      ValueError: complex numbers.
    """
    x, y = promoted_operands("hypot", INEXACT_KIND, x1, x2)
    if is_complex(x.dtype):
        raise ValueError(
            f"hypot is not well defined for complex-valued inputs, got {x.aval}; take abs(x) first"
        )
    x, y = bind(ops.abs, x), bind(ops.abs, y)
    inf, one = constant_like(x, np.inf), constant_like(x, 1)
    infinite = bind(getattr(ops, "or"), bind(ops.eq, x, inf), bind(ops.eq, y, inf))
    large, small = maximum(x, y), minimum(x, y)
    is_zero = bind(ops.eq, large, _zero(x))
    # The division by zero is kept out of the derivative, too.
    ratio = bind(ops.div, small, _select(is_zero, one, large))
    root = bind(ops.sqrt, bind(ops.add, one, bind(ops.square, ratio)))
    result = _select(is_zero, large, bind(ops.mul, large, root))
    return _select(infinite, inf, result)


# ------------------------------------------------------------------------- exponentials, logarithms


def _scaled_logarithm(name: str, x: Any, base: float) -> Array:
    (x,) = promoted_dtypes(name, INEXACT_KIND, x)
    accept(name, x, FLOAT_OR_COMPLEX)
    result = bind(ops.log, x)
    result = with_weak_type(result, False)
    if not is_complex(x.dtype):
        return _divided_by_log(result, base)
    parts = bind(ops.real, result), bind(ops.imag, result)
    return bind(ops.complex, *(_divided_by_log(part, base) for part in parts))


def _divided_by_log(x: Array, base: float) -> Array:
    if base == 2:
        # log 2, rounded to the dtype, divides its multiples exactly.
        return bind(ops.div, x, bind(ops.log, constant_like(x, 2)))
    return bind(ops.mul, x, constant_like(x, 1 / np.log(base)))


def log2(x: Any, /) -> Array:
    """Elementwise logarithm to base 2."""
    return _scaled_logarithm("log2", x, 2)


def log10(x: Any, /) -> Array:
    """Elementwise logarithm to base 10."""
    return _scaled_logarithm("log10", x, 10)


def logaddexp(x1: Any, x2: Any, /) -> Array:
    r"""Elementwise :math:`\log(e^{x_1} + e^{x_2})` without overflow on the way.

    Args:
      x1, x2: arrays or scalars that can be broadcast together.
    """
    return _log_add("logaddexp", x1, x2, ops.exp, 1.0)


def logaddexp2(x1: Any, x2: Any, /) -> Array:
    r"""Elementwise :math:`\log_2(2^{x_1} + 2^{x_2})` without overflow on the way.

    Args:
      x1, x2: arrays or scalars that can be broadcast together.
    """
    return _log_add("logaddexp2", x1, x2, ops.exp2, 1 / np.log(2))


def _log_add(name: str, x1: Any, x2: Any, exponential: Any, scale: float) -> Array:
    x, y = promoted_operands(name, INEXACT_KIND, x1, x2)
    accept(name, x, FLOAT_OR_COMPLEX)
    if is_complex(x.dtype):
        high = bind(ops.max, x, y)
        twice = bind(ops.mul, high, constant_like(high, 2))
        delta = bind(ops.sub, bind(ops.add, x, y), twice)
        small = bind(ops.log1p, bind(exponential, delta))
        out = bind(ops.add, high, bind(ops.mul, small, constant_like(small, scale)))
        return _principal(out, np.pi * scale)
    # The two by size, chosen rather than by max and min: so all derivatives are right at equal ones.
    first = bind(ops.ge, x, y)
    high, low = _select(first, x, y), _select(first, y, x)
    delta = bind(ops.sub, low, high)
    # nan, or infinities of the same sign: the larger one is the answer.
    undefined = bind(ops.ne, delta, delta)
    small = bind(ops.log1p, bind(exponential, _select(undefined, _zero(x), delta)))
    if scale != 1.0:
        small = bind(ops.mul, small, constant_like(small, scale))
    return _select(undefined, bind(ops.max, x, y), bind(ops.add, high, small))


def _principal(x: Array, bound: float) -> Array:
    """Complex numbers with the imaginary part brought into [-bound, bound)."""
    imag = bind(ops.imag, x)
    half, period = constant_like(imag, bound), constant_like(imag, 2 * bound)
    wrapped = bind(ops.sub, remainder(bind(ops.add, imag, half), period), half)
    return bind(ops.complex, bind(ops.real, x), wrapped)


def sinc(x: Any, /) -> Array:
    r"""Elementwise :math:`\sin(\pi x) / (\pi x)`, which is 1 at 0."""
    (x,) = promoted_dtypes("sinc", INEXACT_KIND, x)
    accept("sinc", x, FLOAT_OR_COMPLEX)
    angle = bind(ops.mul, x, constant_like(x, np.pi))
    is_zero = bind(ops.eq, x, _zero(x))
    safe = _select(is_zero, constant_like(x, 1), angle)
    # The series gives the derivatives at 0.
    square = bind(ops.square, angle)
    series = constant_like(x, 1)
    for k in (6, 4, 2):
        series = bind(
            ops.sub,
            constant_like(x, 1),
            bind(ops.mul, bind(ops.mul, square, constant_like(x, 1 / (k * (k + 1)))), series),
        )
    return _select(is_zero, series, bind(ops.div, bind(ops.sin, safe), safe))


def deg2rad(x: Any, /) -> Array:
    """Elementwise angle in radians of one in degrees."""
    (x,) = promoted_dtypes("deg2rad", INEXACT_KIND, x)
    return bind(ops.mul, x, constant_like(x, np.pi / 180))


def rad2deg(x: Any, /) -> Array:
    """Elementwise angle in degrees of one in radians."""
    (x,) = promoted_dtypes("rad2deg", INEXACT_KIND, x)
    return bind(ops.mul, x, constant_like(x, 180 / np.pi))


radians, degrees = deg2rad, rad2deg


def heaviside(x1: Any, x2: Any, /) -> Array:
    """Elementwise step function: 0 where ``x1 < 0``, 1 where ``x1 > 0``, ``x2`` where it is 0."""
    x, y = promoted_operands("heaviside", INEXACT_KIND, x1, x2)
    accept("heaviside", x, FLOAT)
    zero = _zero(x)
    at_zero = _select(bind(ops.ne, x, x), x, y)
    result = _select(bind(ops.gt, x, zero), constant_like(x, 1), at_zero)
    return _select(bind(ops.lt, x, zero), zero, result)


# ----------------------------------------------------------------------------------------- rounding


def _integral(x: Array) -> bool:
    return x.dtype == BOOL or x.dtype in INTEGERS


def floor(x: Any, /) -> Array:
    """Elementwise largest integer not above x; of the same dtype."""
    x = as_array("floor", x)
    return x if _integral(x) else lax.floor(x)


def ceil(x: Any, /) -> Array:
    """Elementwise smallest integer not below x; of the same dtype."""
    x = as_array("ceil", x)
    return x if _integral(x) else lax.ceil(x)


def trunc(x: Any) -> Array:
    """Elementwise integer next to x towards zero; of the same dtype."""
    x = as_array("trunc", x)
    if _integral(x):
        return x
    accept("trunc", x, FLOAT)
    return _select(bind(ops.lt, x, _zero(x)), lax.ceil(x), lax.floor(x))


def fix(x: Any, out: None = None) -> Array:
    """`trunc`."""
    no_out("fix", out)
    return trunc(x)


def rint(x: Any, /) -> Array:
    """Elementwise nearest integer, halves to the even one; integers become floating point."""
    x = as_array("rint", x)
    if _integral(x):
        return converted(x, _dtypes.default_float_dtype())
    return _round_even(x)


def _round_even(x: Array) -> Array:
    if is_complex(x.dtype):
        parts = bind(ops.real, x), bind(ops.imag, x)
        return bind(ops.complex, *(_round_even(part) for part in parts))
    return lax.round(x, RoundingMethod.TO_NEAREST_EVEN)


def round(a: Any, decimals: int = 0, out: None = None) -> Array:
    """Elementwise nearest number with so many decimals, halves to the even one.

    Args:
      a: an array or scalar.
      decimals: how many; negative ones are places before the point.
      out: None.
    Raises:
      NotImplementedError: integers to a negative number of decimals.
    """
    no_out("round", out)
    x, decimals = as_array("round", a), operator.index(decimals)
    if _integral(x):
        if decimals < 0:
            raise NotImplementedError("round: integers to places before the point (decimals < 0)")
        return x
    if decimals == 0:
        return _round_even(x)
    # In float16 and narrower the factor would overflow.
    wide = x if x.dtype.itemsize >= 4 else converted(x, np.dtype("float32"))
    factor = constant_like(wide, 10.0**decimals)
    rounded = bind(ops.div, _round_even(bind(ops.mul, wide, factor)), factor)
    return rounded if rounded.dtype == x.dtype else converted(rounded, x.dtype, x.aval.weak_type)


around = round


def no_out(function: str, out: Any) -> None:
    """Raise ``NotImplementedError`` for an argument that would be written to."""
    if out is not None:
        raise NotImplementedError(
            f"{function}: arrays are immutable, the argument 'out' is not supported"
        )


def modf(x: Any, /, out: None = None) -> tuple[Array, Array]:
    """Elementwise fractional and integral part, both with the sign of x."""
    no_out("modf", out)
    (x,) = promoted_dtypes("modf", INEXACT_KIND, x)
    accept("modf", x, FLOAT)
    whole = _select(bind(ops.ge, x, _zero(x)), lax.floor(x), lax.ceil(x))
    return bind(ops.sub, x, whole), whole


# ----------------------------------------------------------------------------- parts of the numbers


def fabs(x: Any, /) -> Array:
    """Elementwise absolute value, a floating point number."""
    (x,) = promoted_dtypes("fabs", INEXACT_KIND, x)
    accept("fabs", x, FLOAT)
    return bind(ops.abs, x)


def real(val: Any, /) -> Array:
    """Elementwise real part; ``val`` itself where it is real."""
    x = as_array("real", val)
    return bind(ops.real, x) if is_complex(x.dtype) else x


def imag(val: Any, /) -> Array:
    """Elementwise imaginary part; zeros where ``val`` is real."""
    x = as_array("imag", val)
    return bind(ops.imag, x) if is_complex(x.dtype) else constant_like(x, 0)


def conjugate(x: Any, /) -> Array:
    """Elementwise complex conjugate; ``x`` itself where it is real."""
    x = as_array("conjugate", x)
    return bind(ops.conj, x) if is_complex(x.dtype) else x


conj = conjugate


def angle(z: Any, deg: bool = False) -> Array:
    """Elementwise angle of complex numbers, in (-pi, pi] or in degrees."""
    (x,) = promoted_dtypes("angle", INEXACT_KIND, z)
    if is_complex(x.dtype):
        re, im = bind(ops.real, x), bind(ops.imag, x)
    else:
        re, im = x, constant_like(x, 0)
    result = bind(ops.atan2, im, re)
    return bind(ops.mul, result, constant_like(result, 180 / np.pi)) if deg else result


_UNSIGNED_OF_BITS = {bits: np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)}
_SIGNED_OF_BITS = {bits: np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)}


def signbit(x: Any, /) -> Array:
    """Elementwise test of the sign bit: true for -0.0 and negative nan too.

    Raises:
      ValueError: complex numbers.
    """
    x = as_array("signbit", x)
    if is_complex(x.dtype):
        raise ValueError(f"signbit is not well defined for complex numbers, got {x.aval}")
    if x.dtype == BOOL:
        return constant_like(x, False)
    if not is_integer(x.dtype):
        bits = _SIGNED_OF_BITS[_dtypes.itemsize_bits(x.dtype)]
        x = bind(ops.bitcast_convert, x, dtype=bits)
    return bind(ops.lt, x, _zero(x))


def copysign(x1: Any, x2: Any, /) -> Array:
    """Elementwise magnitude of ``x1`` with the sign bit of ``x2``."""
    x, y = promoted_operands("copysign", INEXACT_KIND, x1, x2)
    accept("copysign", x, FLOAT)
    magnitude = bind(ops.abs, x)
    return _select(signbit(y), bind(ops.neg, magnitude), magnitude)


def frexp(x: Any, /) -> tuple[Array, Array]:
    """Elementwise mantissa in [0.5, 1) and int32 exponent: ``x = mantissa * 2**exponent``.

    Zeros, infinities and nan are their own mantissa, with exponent 0.
    """
    (x,) = promoted_dtypes("frexp", INEXACT_KIND, x)
    x = with_weak_type(x, False)
    _reject_complex("frexp", x)
    exponent = _exponent(x)
    # The mantissa by multiplication: it has the right derivative. Two factors, as one overflows.
    negated = bind(ops.neg, exponent)
    half = bind(ops.shift_right_arithmetic, negated, constant_like(negated, 1))
    mantissa = x
    for part in (half, bind(ops.sub, negated, half)):
        mantissa = bind(ops.mul, mantissa, _power_of_two(part, x))
    return mantissa, with_weak_type(exponent, False)


def ldexp(x1: Any, x2: Any, /) -> Array:
    """Elementwise :math:`x_1 2^{x_2}`, rounded once.

    Args:
      x1: an array or scalar of real numbers.
      x2: one of integers.
    Raises:
      ValueError: ``x1`` is complex or ``x2`` not of integers.
    """
    x, n = as_array("ldexp", x1, 0), as_array("ldexp", x2, 1)
    if is_complex(x.dtype) or n.dtype in FLOAT_OR_COMPLEX:
        raise ValueError(f"ldexp not supported for input types {x.dtype.name}, {n.dtype.name}")
    (x,) = promoted_dtypes("ldexp", INEXACT_KIND, x)
    x, n = spread("ldexp", [x, n])
    info = ml_dtypes.finfo(x.dtype)
    mantissa, exponent = frexp(x)
    reach = 4 * (int(info.maxexp) - int(info.minexp) + int(info.nmant))
    if n.dtype in INTEGERS and _dtypes.itemsize_bits(n.dtype) > 8:
        n = lax.clamp(constant_like(n, 0 if n.dtype in UNSIGNED else -reach), n, _limit(n, reach))
    total = bind(ops.add, exponent, converted(n, _INT32))
    # All but the last factor keep the number normal, so only the last product rounds.
    low, high = int(info.minexp) + 1, int(info.maxexp) - 1
    result, left = mantissa, total
    for _ in range(3):
        step = lax.clamp(constant_like(left, low), left, constant_like(left, high))
        result = bind(ops.mul, result, _power_of_two(step, x))
        left = bind(ops.sub, left, step)
    unchanged = logical_and(bind(ops.eq, exponent, _zero(exponent)), _is_special(x))
    return _select(unchanged, x, result)


def _limit(n: Array, reach: int) -> Array:
    return constant_like(n, min(reach, int(_dtypes.iinfo(n.dtype).max)))


def _is_special(x: Array) -> Array:
    """Zero, infinite or nan."""
    finite = bind(ops.is_finite, x)
    return bind(getattr(ops, "or"), bind(getattr(ops, "not"), finite), bind(ops.eq, x, _zero(x)))


def _exponent(x: Array) -> Array:
    """The exponent of `frexp`."""
    info = ml_dtypes.finfo(x.dtype)
    mantissa_bits, bias = int(info.nmant), 1 - int(info.minexp)
    bits = _UNSIGNED_OF_BITS[_dtypes.itemsize_bits(x.dtype)]
    subnormal = bind(ops.lt, bind(ops.abs, x), constant_like(x, info.tiny))
    scaled = bind(ops.mul, x, constant_like(x, 2.0**mantissa_bits))
    raw = bind(ops.bitcast_convert, _select(subnormal, scaled, x), dtype=bits)
    raw = bind(ops.shift_right_logical, raw, constant_like(raw, mantissa_bits))
    mask = (1 << _dtypes.itemsize_bits(x.dtype) - 1 - mantissa_bits) - 1
    raw = bind(getattr(ops, "and"), raw, constant_like(raw, mask))
    biased = converted(raw, _INT32)
    shift = _select(
        subnormal, constant_like(biased, bias - 1 + mantissa_bits), constant_like(biased, bias - 1)
    )
    exponent = bind(ops.sub, biased, shift)
    return _select(_is_special(x), _zero(exponent), exponent)


def _power_of_two(exponent: Array, like: Array) -> Array:
    """2 to int32 exponents of normal numbers, made of bits: exact, and constant to derivatives."""
    info = ml_dtypes.finfo(like.dtype)
    bits = _UNSIGNED_OF_BITS[_dtypes.itemsize_bits(like.dtype)]
    low, high = int(info.minexp), int(info.maxexp) - 1
    exponent = lax.clamp(constant_like(exponent, low), exponent, constant_like(exponent, high))
    biased = bind(ops.add, exponent, constant_like(exponent, 1 - low))
    raw = converted(biased, bits)
    raw = bind(ops.shift_left, raw, constant_like(raw, int(info.nmant)))
    power_of_two = bind(ops.bitcast_convert, raw, dtype=like.dtype)
    return with_weak_type(power_of_two, like.aval.weak_type)


def spacing(x: Any, /) -> Array:
    """Elementwise distance to the next number of larger magnitude, with the sign of x."""
    (x,) = promoted_dtypes("spacing", INEXACT_KIND, x)
    if is_complex(x.dtype):
        raise ValueError(f"spacing is not defined for complex numbers, got {x.aval}")
    inf = constant_like(x, np.inf)
    away = inf if x.dtype == np.dtype("float16") else copysign(inf, x)
    return bind(ops.sub, bind(ops.nextafter, x, away), x)


# --------------------------------------------------------------------------------- common divisors


def gcd(x1: Any, x2: Any, /) -> Array:
    """Elementwise greatest common divisor of integers.

    Raises:
      ValueError: the numbers are not integers.
    """
    x, y = _integers("gcd", x1, x2)
    x, y = absolute(x), absolute(y)

    def unfinished(state: tuple[Array, Array]) -> Array:
        rest = bind(ops.ne, state[1], _zero(state[1]))
        return bind(ops.reduce_or, rest, axes=tuple(range(rest.ndim))) if rest.ndim else rest

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = state
        done = bind(ops.eq, b, _zero(b))
        rest = bind(ops.rem, a, _nonzero_divisor(b))
        return _select(done, a, b), _select(done, b, rest)

    state = (with_weak_type(x, False), with_weak_type(y, False))
    result = lax.while_loop(unfinished, step, state)[0]
    return with_weak_type(result, x.aval.weak_type)


def lcm(x1: Any, x2: Any, /) -> Array:
    """Elementwise least common multiple of integers.

    Raises:
      ValueError: the numbers are not integers.
    """
    x, y = _integers("lcm", x1, x2)
    x, y = absolute(x), absolute(y)
    divisor = gcd(x, y)
    multiple = bind(ops.mul, x, bind(ops.div, y, _nonzero_divisor(divisor)))
    return _select(bind(ops.eq, divisor, _zero(divisor)), _zero(divisor), multiple)


def _integers(name: str, x1: Any, x2: Any) -> list[Array]:
    x, y = promoted_operands(name, ANY_KIND, x1, x2)
    if x.dtype not in INTEGERS:
        raise ValueError(f"Arguments to {name} must be integers, got {x.dtype.name}")
    return [x, y]


__all__ = [
    "angle",
    "around",
    "ceil",
    "conj",
    "conjugate",
    "copysign",
    "deg2rad",
    "degrees",
    "divmod",
    "fabs",
    "fix",
    "floor",
    "floor_divide",
    "fmod",
    "frexp",
    "gcd",
    "heaviside",
    "hypot",
    "imag",
    "lcm",
    "ldexp",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "mod",
    "modf",
    "pow",
    "power",
    "rad2deg",
    "radians",
    "real",
    "remainder",
    "rint",
    "round",
    "signbit",
    "sinc",
    "spacing",
    "trunc",
]
