"""Elementwise arithmetic of more than one op: powers, distances, angles, steps."""

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
from gnomon._tracing.stack import needs_bind
from gnomon._tracing.trace import is_tracer
from gnomon.dialects.emit import ops
from gnomon.dialects.types import UNSIGNED, is_complex, is_integer
from gnomon.lax._operands import FLOAT, FLOAT_OR_COMPLEX, INTEGERS, constant_like
from gnomon.numpy._arguments import as_array
from gnomon.numpy._dispatch import (
    INEXACT_KIND,
    NUMERIC_KIND,
    accept,
    promoted_dtypes,
    promoted_operands,
    select_op,
    spread,
    zero_like,
)
from gnomon.numpy._ufuncs import maximum, minimum

__all__ = [
    "deg2rad",
    "degrees",
    "heaviside",
    "hypot",
    "pow",
    "power",
    "rad2deg",
    "radians",
    "sinc",
]


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise power :math:`x_1^{x_2}`.

    If the exponent is a single integer whose value is known, the power is computed by products and
    has exact derivatives. Powers of integers are products, too, and wrap around on overflow.

    Args:
      x1, x2: arrays or scalars that can be broadcast together.
    Returns:
      An array of the promoted dtype and the broadcast shape. If an array of exponents holds
      negative ones, powers of integers are rounded towards zero.
    Raises:
      TypeError: ``x1`` is an integer array and ``x2`` is a single known negative number.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.power(gnp.array([2, 3]), 3)
      Array([ 8, 27], dtype=int32)
      >>> gnp.power(gnp.array([2.0, 4.0]), -0.5).round(4)
      Array([0.7071, 0.5   ], dtype=float32)
      >>> gnp.power(gnp.array([2]), -1)
      Traceback (most recent call last):
          ...
      TypeError: Integers cannot be raised to negative powers, got ...

    See also:
      `float_power`, which converts integers first
    """
    if type(x2) is int and type(x1) is ConcreteArray and not needs_bind():
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
    r"""Elementwise :math:`\sqrt{x_1^2 + x_2^2}` without intermediate overflow.

    The result is inf if either argument is infinite, even if the other one is nan.

    Args:
      x1, x2: arrays or scalars of real numbers that can be broadcast together.
    Raises:
      ValueError: an argument is complex.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.hypot(3.0, gnp.array([4.0, 0.0]))
      Array([5., 3.], dtype=float32)
      >>> gnp.hypot(3e30, 4e30)
      Array(5.e+30, dtype=float32, weak_type=True)

    See also:
      `linalg.norm`
    """
    x, y = promoted_operands("hypot", INEXACT_KIND, x1, x2)
    if is_complex(x.dtype):
        raise ValueError(
            f"hypot is not well defined for complex-valued inputs, got {x.aval}; take abs(x) first"
        )
    x, y = bind(ops.abs, x), bind(ops.abs, y)
    inf, one = constant_like(x, np.inf), constant_like(x, 1)
    infinite = bind(getattr(ops, "or"), bind(ops.eq, x, inf), bind(ops.eq, y, inf))
    # Keep infinities out of the derivative.
    x, y = select_op(infinite, one, x), select_op(infinite, one, y)
    large, small = maximum(x, y), minimum(x, y)
    is_zero = bind(ops.eq, large, zero_like(x))
    # Keep the division by zero out of the derivative, too.
    ratio = bind(ops.div, small, select_op(is_zero, one, large))
    root = bind(ops.sqrt, bind(ops.add, one, bind(ops.square, ratio)))
    # Add large last to its product with root - 1: a product with the root loses a digit.
    beyond = bind(ops.div, ratio, bind(ops.add, one, root))
    result = select_op(is_zero, large, bind(ops.add, large, bind(ops.mul, small, beyond)))
    return select_op(infinite, inf, result)


def sinc(x: ArrayLike, /) -> Array:
    r"""The function :math:`\sin(\pi x) / (\pi x)`, which is 1 at 0, elementwise.

    Args:
      x: an array or scalar; integers become floating point numbers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.sinc(gnp.array([0.0, 0.5, 1.5])).round(4)
      Array([ 1.    ,  0.6366, -0.2122], dtype=float32)
    """
    (x,) = promoted_dtypes("sinc", INEXACT_KIND, x)
    accept("sinc", x, FLOAT_OR_COMPLEX)
    if x.dtype.itemsize == 2:
        wide = bind(ops.convert, x, dtype=np.dtype(np.float32))
        return bind(ops.convert, sinc(wide), dtype=x.dtype)
    # The limit is 0, as at 2; a constant there keeps infinities out of the derivative, too.
    is_infinite = _is_infinite_along_reals(x)
    x = select_op(is_infinite, constant_like(x, 2), x)
    angle = bind(ops.mul, x, constant_like(x, np.pi))
    # The quotient's derivatives cancel near 0; those of the series do not.
    magnitude = bind(ops.abs, x)
    is_small = bind(ops.lt, magnitude, constant_like(magnitude, 0.25))
    safe = select_op(is_small, constant_like(x, 1), angle)
    square = bind(ops.square, select_op(is_small, angle, zero_like(x)))
    series = constant_like(x, 1)
    for k in range(20, 0, -2):  # The next term is below the last digit of f64.
        series = bind(
            ops.sub,
            constant_like(x, 1),
            bind(ops.mul, bind(ops.mul, square, constant_like(x, 1 / (k * (k + 1)))), series),
        )
    if is_complex(x.dtype):
        quotient = select_op(is_infinite, zero_like(x), bind(ops.div, bind(ops.sin, safe), safe))
        return select_op(is_small, series, quotient)
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
        bind(ops.mul, cosine, rounding_of_multiple(rest, _PI, reduced)),
        bind(ops.mul, quotient, rounding_of_multiple(x, _PI, angle)),
    )
    correction = bind(ops.div, difference, safe)
    is_finite = bind(ops.is_finite, correction)  # false where pi times x is not finite
    correction = select_op(is_finite, correction, zero_like(x))
    corrected = bind(ops.add, quotient, bind(ops.stop_gradient, correction))
    return select_op(is_small, series, corrected)


def _is_infinite_along_reals(x: Array) -> Array:
    if not is_complex(x.dtype):
        return bind(ops.eq, bind(ops.abs, x), constant_like(x, np.inf))
    is_infinite = _is_infinite_along_reals(bind(ops.real, x))
    return bind(ops.and_, is_infinite, bind(ops.is_finite, bind(ops.imag, x)))


def rounding_of_multiple(x: Array, factor: np.longdouble, product: Array) -> Array:
    """How much ``factor`` times ``x`` exceeds ``product``, the product in the dtype.

    Both factors are split, so that the products of the high parts are exact. (A fused multiply-add
    would do, but a compiler may merge its product with ``product``.)

    Args:
      x: an array of float32 or float64.
      factor: a number from one half to four, with more digits than the dtype.
      product: the rounded product.
    """
    bits = 11 if x.dtype == np.float32 else 25
    high = bind(ops.reduce_precision, x, exponent_bits=11, mantissa_bits=bits)
    low = bind(ops.sub, x, high)
    factor_high = math.ldexp(round(math.ldexp(float(factor), bits - 1)), 1 - bits)
    factor_low = float(factor - np.longdouble(factor_high))

    def times(part: Array, number: float) -> Array:
        return bind(ops.mul, part, constant_like(x, number))

    error = bind(ops.sub, times(high, factor_high), product)
    error = bind(ops.add, error, times(low, factor_high))
    return bind(ops.add, error, times(x, factor_low))


_PI = np.longdouble("3.14159265358979323846264338327950288")


def deg2rad(x: ArrayLike, /) -> Array:
    """Angles in degrees converted to radians, elementwise.

    Args:
      x: an array or scalar of real numbers; integers become floating point numbers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.deg2rad(gnp.array([0, 90, 180])).round(4)
      Array([0.    , 1.5708, 3.1416], dtype=float32)
    """
    (x,) = promoted_dtypes("deg2rad", INEXACT_KIND, x)
    return bind(ops.mul, x, constant_like(x, np.pi / 180))


def rad2deg(x: ArrayLike, /) -> Array:
    """Angles in radians converted to degrees, elementwise.

    Args:
      x: an array or scalar of real numbers; integers become floating point numbers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.degrees(gnp.array([0.0, gnp.pi / 2, gnp.pi]))
      Array([  0.,  90., 180.], dtype=float32)
    """
    (x,) = promoted_dtypes("rad2deg", INEXACT_KIND, x)
    return bind(ops.mul, x, constant_like(x, 180 / np.pi))


radians, degrees = deg2rad, rad2deg


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The step function: 0 for negative ``x1``, 1 for positive ones, ``x2`` at zero.

    Args:
      x1: an array or scalar of real numbers; nan stays nan.
      x2: the value at zero, an array or scalar that broadcasts with ``x1``.
    Returns:
      A floating point array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.heaviside(gnp.array([-1.5, 0.0, 2.0]), 0.5)
      Array([0. , 0.5, 1. ], dtype=float32)
    """
    x, y = spread("heaviside", promoted_dtypes("heaviside", INEXACT_KIND, x1, x2))
    accept("heaviside", x, FLOAT)
    zero = zero_like(x)
    at_zero = select_op(bind(ops.ne, x, x), x, y)
    result = select_op(bind(ops.gt, x, zero), constant_like(x, 1), at_zero)
    return select_op(bind(ops.lt, x, zero), zero, result)
