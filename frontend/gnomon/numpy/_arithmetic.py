"""Elementwise arithmetic of more than one op: division with rounding, powers, logarithms."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, wrap
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._tracing.stack import staging
from gnomon._tracing.trace import is_tracer
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon.dialects.emit import ops
from gnomon.dialects.types import UNSIGNED, is_complex, is_integer
from gnomon.lax._operands import FLOAT, FLOAT_OR_COMPLEX, INTEGERS, Dtypes, constant_like
from gnomon.numpy._arguments import as_array
from gnomon.numpy._dispatch import (
    ANY_KIND,
    INEXACT_KIND,
    NUMERIC_KIND,
    accept,
    fast_path,
    promoted_dtypes,
    promoted_operands,
    reject_complex,
    select_op,
    spread,
    zero_like,
)
from gnomon.numpy._ufuncs import absolute, logical_and, maximum, minimum

# ---------------------------------------------------------------------------- rounding quotients


def _floor_divide(x1: Any, x2: Any) -> Array:
    """Elementwise quotient rounded down; integers divided by zero give an unspecified number.

    Args:
      x1, x2: arrays or scalars of real numbers that can be broadcast together.
    Returns:
      An array of the promoted dtype and the broadcast shape.
    Raises:
      TypeError: an argument is complex.
    """
    x, y = promoted_operands("floor_divide", NUMERIC_KIND, x1, x2)
    reject_complex("floor_divide", x)
    if x.dtype in UNSIGNED:
        return bind(ops.div, x, y)
    if not is_integer(x.dtype):
        return _float_divmod(x, y)[0]
    quotient = bind(ops.div, x, y)
    signs_differ = bind(ops.ne, bind(ops.sign, x), bind(ops.sign, y))
    inexact = bind(ops.ne, bind(ops.rem, x, y), zero_like(x))
    lower = bind(ops.sub, quotient, constant_like(x, 1))
    return select_op(logical_and(signs_differ, inexact), lower, quotient)


def _evaluate_floor_divide(x: Any, y: Any) -> Any:
    """`floor_divide` of NumPy values."""
    if np.result_type(x, y).kind in "iu":
        return np.floor_divide(x, y) if np.all(y) else NotImplemented
    rest = np.fmod(x, y)
    quotient = np.where(np.equal(y, 0), x, x - rest) / y
    below = (rest != 0) & (np.sign(y) != np.sign(rest))
    quotient = np.where(below, quotient - 1, quotient)
    return ops.round.evaluate(quotient, rounding_method="AWAY_FROM_ZERO")


def _float_divmod(x: Array, y: Array) -> tuple[Array, Array]:
    zero = zero_like(x)
    mod = bind(ops.rem, x, y)
    # Except for rounding, x - mod is a multiple of y, so the quotient rounds to the exact integer.
    exact = select_op(bind(ops.eq, y, zero), x, bind(ops.sub, x, mod))
    quotient = bind(ops.div, exact, y)
    signs_differ = bind(ops.ne, bind(ops.sign, y), bind(ops.sign, mod))
    below = logical_and(bind(ops.ne, mod, zero), signs_differ)
    mod = select_op(below, bind(ops.add, mod, y), mod)
    quotient = select_op(below, bind(ops.sub, quotient, constant_like(x, 1)), quotient)
    return lax.round(quotient), mod


def _remainder(x1: Any, x2: Any) -> Array:
    """Elementwise remainder with the sign of the divisor: ``x1 - x2 * floor(x1 / x2)``.

    Args:
      x1, x2: arrays or scalars of real numbers that can be broadcast together.
    Returns:
      An array of the promoted dtype and the broadcast shape; integers modulo zero give 0.
    Raises:
      TypeError: an argument is complex.
    """
    x, y = promoted_operands("remainder", NUMERIC_KIND, x1, x2)
    reject_complex("remainder", x)
    zero = zero_like(x)
    y = _nonzero_divisor(y)
    rest = bind(ops.rem, x, y)
    signs_differ = bind(ops.ne, bind(ops.lt, rest, zero), bind(ops.lt, y, zero))
    wrong = logical_and(signs_differ, bind(ops.ne, rest, zero))
    return select_op(wrong, bind(ops.add, rest, y), rest)


def _evaluate_remainder(x: Any, y: Any) -> Any:
    """`remainder` of NumPy values: as NumPy for integers; floats keep the sign of a zero."""
    if np.result_type(x, y).kind in "iu":
        return np.remainder(x, y)
    rest = np.fmod(x, y)
    wrong = ((rest < 0) != (np.asarray(y) < 0)) & (rest != 0)
    return np.where(wrong, rest + y, rest)


def _with_fast_path(name: str, numpy_function: Any, dtypes: Any, general: Any) -> Any:
    function = fast_path(numpy_function, dtypes, general)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = general.__doc__
    function.direct = (numpy_function, dtypes)  # type: ignore[attr-defined]
    return function


_NATIVE: Dtypes = frozenset(np.dtype(t) for t in "bhilqBHILQfd")
remainder = _with_fast_path("remainder", _evaluate_remainder, _NATIVE, _remainder)
floor_divide = _with_fast_path("floor_divide", _evaluate_floor_divide, _NATIVE, _floor_divide)
mod = remainder


def _nonzero_divisor(y: Array) -> Array:
    if not is_integer(y.dtype):
        return y
    return select_op(bind(ops.eq, y, zero_like(y)), constant_like(y, 1), y)


def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise remainder with the sign of the dividend: the quotient is rounded towards zero.

    Args:
      x1, x2: arrays or scalars of real numbers that can be broadcast together.
    Returns:
      An array of the promoted dtype and the broadcast shape; integers modulo zero give 0.
    Raises:
      TypeError: an argument is complex.
    """
    x, y = promoted_operands("fmod", NUMERIC_KIND, x1, x2)
    reject_complex("fmod", x)
    return bind(ops.rem, x, _nonzero_divisor(y))


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """The pair of `floor_divide` and `remainder`."""
    x, y = promoted_operands("divmod", NUMERIC_KIND, x1, x2)
    reject_complex("divmod", x)
    if is_integer(x.dtype):
        return floor_divide(x, y), remainder(x, y)
    return _float_divmod(x, y)


# ------------------------------------------------------------------------------------------- powers


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise power :math:`x_1^{x_2}`.

    If the exponent is a single integer whose value is known, the power is computed by products and
    has exact derivatives. So are powers of integers, which wrap around on overflow.

    Args:
      x1, x2: arrays or scalars that can be broadcast together.
    Returns:
      An array of the promoted dtype and the broadcast shape. If an array of exponents holds
      negative ones, powers of integers are rounded towards zero.
    Raises:
      TypeError: ``x1`` is an integer array and ``x2`` is a single known negative number.
    """
    if type(x2) is int and type(x1) is ConcreteArray and not staging():
        value = x1._value
        if value is not None and value.dtype in FLOAT_OR_COMPLEX:
            with np.errstate(all="ignore"):
                return wrap(ops.integer_pow.evaluate(value, y=x2), x1.weak_type)
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
    """The value of a 0-d integer exponent as a Python int, if it is known."""
    if type(x) is int:
        return x
    if is_tracer(x) or (type(x) is ConcreteArray and (x.ndim or x.dtype not in INTEGERS)):
        return None
    try:
        return operator.index(x)
    except TypeError:
        return None


def _integer_power(x: Array, y: Array) -> Array:
    """Powers by repeated squaring, one bit of the exponent at a time."""
    zero, one = zero_like(x), constant_like(x, 1)
    bits = _dtypes.itemsize_bits(x.dtype)
    signed = x.dtype not in UNSIGNED
    base, left, result = x, y, one
    for bit in range(bits - 1 if signed else bits):
        if bit:
            base = bind(ops.mul, base, base)
            left = bind(ops.shift_right_logical, left, one)
        odd = bind(ops.eq, bind(getattr(ops, "and"), left, one), one)
        result = select_op(odd, bind(ops.mul, result, base), result)
    if not signed:
        return result
    # Negative powers of 1 and -1 are integers, which depend on the parity of the exponent; all
    # others are rounded towards zero.
    unit = bind(ops.eq, bind(ops.abs, x), one)
    odd = bind(ops.eq, bind(getattr(ops, "and"), y, one), one)
    fraction = select_op(unit, select_op(odd, x, one), zero)
    return select_op(bind(ops.lt, y, zero), fraction, result)


def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    r"""Elementwise :math:`\sqrt{x_1^2 + x_2^2}` without intermediate overflow; inf where one is.

    Args:
      x1, x2: arrays or scalars of real numbers that can be broadcast together.
    Raises:
      ValueError: an argument is complex.
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
    is_zero = bind(ops.eq, large, zero_like(x))
    # Keep the division by zero out of the derivative, too.
    ratio = bind(ops.div, small, select_op(is_zero, one, large))
    root = bind(ops.sqrt, bind(ops.add, one, bind(ops.square, ratio)))
    # Add large last to its product with root - 1: a product with the root loses a digit.
    beyond = bind(ops.div, ratio, bind(ops.add, one, root))
    result = select_op(is_zero, large, bind(ops.add, large, bind(ops.mul, small, beyond)))
    return select_op(infinite, inf, result)


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
        # Dividing by log 2, rounded to the dtype, is exact for its multiples.
        return bind(ops.div, x, bind(ops.log, constant_like(x, 2)))
    return bind(ops.mul, x, constant_like(x, np.log10(np.e)))


def log2(x: ArrayLike, /) -> Array:
    """Elementwise logarithm to base 2."""
    return _scaled_logarithm("log2", x, 2)


def log10(x: ArrayLike, /) -> Array:
    """Elementwise logarithm to base 10."""
    return _scaled_logarithm("log10", x, 10)


def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    r"""Elementwise :math:`\log(e^{x_1} + e^{x_2})` without intermediate overflow.

    Args:
      x1, x2: arrays or scalars that can be broadcast together.
    """
    return _log_add("logaddexp", x1, x2, base=0)


def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    r"""Elementwise :math:`\log_2(2^{x_1} + 2^{x_2})` without intermediate overflow.

    Args:
      x1, x2: arrays or scalars that can be broadcast together.
    """
    return _log_add("logaddexp2", x1, x2, base=2)


def _log_add(name: str, x1: Any, x2: Any, base: int) -> Array:
    x, y = promoted_operands(name, INEXACT_KIND, x1, x2)
    accept(name, x, FLOAT_OR_COMPLEX)
    if is_complex(x.dtype):
        high = bind(ops.max, x, y)
        twice = bind(ops.mul, high, constant_like(high, 2))
        delta = bind(ops.sub, bind(ops.add, x, y), twice)
        out = bind(ops.add, high, _log_base(base, bind(_power_of(base), delta)))
        return _principal(out, np.pi * _per_nat(base))
    result: Array = _log_add_reals(base, x, y)
    return result


def _power_of(base: int) -> Any:
    return ops.exp2 if base == 2 else ops.exp


def _per_nat(base: int) -> float:
    """The factor that converts natural logarithms to those to a base; the base 0 means e."""
    return float(1 / np.log(base)) if base else 1.0


def _log_base(base: int, x: Array) -> Array:
    """log(1 + x) to a base."""
    small = bind(ops.log1p, x)
    return small if not base else bind(ops.mul, small, constant_like(small, _per_nat(base)))


def _smaller_part(base: int, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Whether x >= y, whether both are the same infinity, and the smaller power over the larger.

    The larger and the smaller one are selected and not computed by max and min, so that derivatives
    are right at ties. Infinities of the same sign count as equal; nan stays nan.
    """
    first = bind(ops.ge, x, y)
    high, low = select_op(first, x, y), select_op(first, y, x)
    infinite = bind(ops.and_, bind(ops.eq, x, y), bind(ops.not_, bind(ops.is_finite, x)))
    delta = select_op(infinite, zero_like(x), bind(ops.sub, low, high))
    return first, infinite, bind(_power_of(base), delta)


def _log_add_of_reals(base: int, x: Array, y: Array) -> Array:
    first, infinite, part = _smaller_part(base, x, y)
    high = select_op(first, x, y)
    return select_op(infinite, high, bind(ops.add, high, _log_base(base, part)))


_log_add_reals = custom_jvp(_log_add_of_reals, nondiff_argnums=(0,))


@_log_add_reals.defjvp
def _log_add_jvp(base: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """Weight each tangent; a composition would subtract infinities, which gives nan."""
    (x, y), (t, u) = primals, tangents
    first, _, part = _smaller_part(base, x, y)
    total = bind(ops.add, constant_like(part, 1), part)
    larger, smaller = bind(ops.div, constant_like(part, 1), total), bind(ops.div, part, total)
    of_x, of_y = select_op(first, larger, smaller), select_op(first, smaller, larger)
    tangent = bind(ops.add, bind(ops.mul, t, of_x), bind(ops.mul, u, of_y))
    return _log_add_reals(base, x, y), tangent


def _principal(x: Array, bound: float) -> Array:
    """Complex numbers whose imaginary part is reduced to [-bound, bound)."""
    imag = bind(ops.imag, x)
    half, period = constant_like(imag, bound), constant_like(imag, 2 * bound)
    wrapped = bind(ops.sub, remainder(bind(ops.add, imag, half), period), half)
    return bind(ops.complex, bind(ops.real, x), wrapped)


def sinc(x: ArrayLike, /) -> Array:
    r"""Elementwise :math:`\sin(\pi x) / (\pi x)`, which is 1 at 0."""
    (x,) = promoted_dtypes("sinc", INEXACT_KIND, x)
    accept("sinc", x, FLOAT_OR_COMPLEX)
    if x.dtype.itemsize == 2:
        wide = bind(ops.convert, x, dtype=np.dtype(np.float32))
        return bind(ops.convert, sinc(wide), dtype=x.dtype)
    angle = bind(ops.mul, x, constant_like(x, np.pi))
    is_zero = bind(ops.eq, x, zero_like(x))
    safe = select_op(is_zero, constant_like(x, 1), angle)
    # The series gives the derivatives at 0.
    square = bind(ops.square, angle)
    series = constant_like(x, 1)
    for k in (6, 4, 2):
        series = bind(
            ops.sub,
            constant_like(x, 1),
            bind(ops.mul, bind(ops.mul, square, constant_like(x, 1 / (k * (k + 1)))), series),
        )
    if is_complex(x.dtype):
        return select_op(is_zero, series, bind(ops.div, bind(ops.sin, safe), safe))
    # Subtract whole numbers, which is exact, and take the sine of the rest.
    whole = bind(ops.round, x, rounding_method="TO_NEAREST_EVEN")
    rest = bind(ops.sub, x, whole)
    reduced = bind(ops.mul, rest, constant_like(x, np.pi))
    sine, cosine = bind(ops.sin, reduced), bind(ops.cos, reduced)
    half = bind(ops.mul, whole, constant_like(x, 0.5))
    is_odd = bind(ops.ne, bind(ops.floor, half), half)
    sine, cosine = (select_op(is_odd, bind(ops.neg, v), v) for v in (sine, cosine))
    quotient = bind(ops.div, sine, safe)
    # The change of the quotient by the roundings of both products with pi, to first order.
    difference = bind(
        ops.sub,
        bind(ops.mul, cosine, _rounding_of_multiple_of_pi(rest, reduced)),
        bind(ops.mul, quotient, _rounding_of_multiple_of_pi(x, angle)),
    )
    correction = bind(ops.div, difference, safe)
    is_finite = bind(ops.is_finite, correction)  # it is not where pi times x is not
    correction = select_op(is_finite, correction, zero_like(x))
    corrected = bind(ops.add, quotient, bind(ops.stop_gradient, correction))
    return select_op(is_zero, series, corrected)


def _rounding_of_multiple_of_pi(x: Array, product: Array) -> Array:
    """How much pi times ``x`` exceeds ``product``, the product in the dtype.

    Both factors are split, so that the products of the high parts are exact. (A fused multiply-add
    would do, but a compiler may merge its product with ``product``.)
    """
    bits = 11 if x.dtype == np.float32 else 25
    high = bind(ops.reduce_precision, x, exponent_bits=11, mantissa_bits=bits)
    low = bind(ops.sub, x, high)
    pi_high = math.ldexp(round(math.ldexp(math.pi, bits - 1)), 1 - bits)
    pi_low = float(_PI - np.longdouble(pi_high))

    def times(part: Array, factor: float) -> Array:
        return bind(ops.mul, part, constant_like(x, factor))

    error = bind(ops.sub, times(high, pi_high), product)
    error = bind(ops.add, error, times(low, pi_high))
    return bind(ops.add, error, times(x, pi_low))


_PI = np.longdouble("3.14159265358979323846264338327950288")


def deg2rad(x: ArrayLike, /) -> Array:
    """Elementwise conversion of angles from degrees to radians."""
    (x,) = promoted_dtypes("deg2rad", INEXACT_KIND, x)
    return bind(ops.mul, x, constant_like(x, np.pi / 180))


def rad2deg(x: ArrayLike, /) -> Array:
    """Elementwise conversion of angles from radians to degrees."""
    (x,) = promoted_dtypes("rad2deg", INEXACT_KIND, x)
    return bind(ops.mul, x, constant_like(x, 180 / np.pi))


radians, degrees = deg2rad, rad2deg


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise step function: 0 if ``x1 < 0``, 1 if ``x1 > 0``, and ``x2`` if ``x1 == 0``."""
    x, y = promoted_operands("heaviside", INEXACT_KIND, x1, x2)
    accept("heaviside", x, FLOAT)
    zero = zero_like(x)
    at_zero = select_op(bind(ops.ne, x, x), x, y)
    result = select_op(bind(ops.gt, x, zero), constant_like(x, 1), at_zero)
    return select_op(bind(ops.lt, x, zero), zero, result)


# --------------------------------------------------------------------------------- common divisors


def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Elementwise greatest common divisor of integers.

    Raises:
      ValueError: the numbers are not integers.
    """
    x, y = _integers("gcd", x1, x2)
    x, y = absolute(x), absolute(y)

    def unfinished(state: tuple[Array, Array]) -> Array:
        rest = bind(ops.ne, state[1], zero_like(state[1]))
        return bind(ops.reduce_or, rest, axes=tuple(range(rest.ndim))) if rest.ndim else rest

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = state
        done = bind(ops.eq, b, zero_like(b))
        rest = bind(ops.rem, a, _nonzero_divisor(b))
        return select_op(done, a, b), select_op(done, b, rest)

    state = (with_weak_type(x, False), with_weak_type(y, False))
    result = lax.while_loop(unfinished, step, state)[0]
    return with_weak_type(result, x.aval.weak_type)


def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Elementwise least common multiple of integers.

    Raises:
      ValueError: the numbers are not integers.
    """
    x, y = _integers("lcm", x1, x2)
    x, y = absolute(x), absolute(y)
    divisor = gcd(x, y)
    multiple = bind(ops.mul, x, bind(ops.div, y, _nonzero_divisor(divisor)))
    return select_op(bind(ops.eq, divisor, zero_like(divisor)), zero_like(divisor), multiple)


def _integers(name: str, x1: Any, x2: Any) -> list[Array]:
    x, y = promoted_operands(name, ANY_KIND, x1, x2)
    if x.dtype not in INTEGERS:
        raise ValueError(f"Arguments to {name} must be integers, got {x.dtype.name}")
    return [x, y]


__all__ = [
    "deg2rad",
    "degrees",
    "divmod",
    "floor_divide",
    "fmod",
    "gcd",
    "heaviside",
    "hypot",
    "lcm",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "mod",
    "pow",
    "power",
    "rad2deg",
    "radians",
    "remainder",
    "sinc",
]
