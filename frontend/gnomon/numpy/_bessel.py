"""The modified Bessel functions of orders 0 and 1, with derivatives of every order."""

from __future__ import annotations

import math

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon._transformations.differentiate import jvp
from gnomon.dialects.types import is_floating
from gnomon.lax._operands import constant_like
from gnomon.numpy._arguments import promoted
from gnomon.numpy._dispatch import select_op

__all__ = ["i0", "i1"]

# I₁(x) / x is the sum of these coefficients times even powers of x.
_TERMS = [1 / (2 ** (2 * k + 1) * math.factorial(k) * math.factorial(k + 1)) for k in range(8)]
_NEAR = 0.5


def _scaled(x: Array, value: Array) -> Array:
    return lax.mul(lax.exp(lax.abs(x)), value)


@custom_jvp
def _i0(x: Array) -> Array:
    return _scaled(x, lax.bessel_i0e(x))


@custom_jvp
def _i1(x: Array) -> Array:
    return _scaled(x, lax.bessel_i1e(x))


def _series(x: Array) -> Array:
    """``i1(x) / x`` for small x: the quotient would lose the digits of its derivatives."""
    square = lax.square(x)
    total = constant_like(x, _TERMS[-1])
    for term in reversed(_TERMS[:-1]):
        total = lax.add(lax.mul(total, square), constant_like(x, term))
    return total


@custom_jvp
def _slope_of_i1(x: Array) -> Array:
    # The difference of i0 and i1 / x, scaled together so that it does not overflow to nan.
    near = lax.lt(lax.abs(x), constant_like(x, _NEAR))
    zero, one = constant_like(x, 0), constant_like(x, 1)
    small, large = select_op(near, x, zero), select_op(near, one, x)
    far = _scaled(x, lax.sub(lax.bessel_i0e(x), lax.div(lax.bessel_i1e(large), large)))
    return select_op(near, lax.sub(_i0(small), _series(small)), far)


def _second_slope_of_i1(t: Array, out: Array, x: Array) -> Array:
    near = lax.lt(lax.abs(x), constant_like(x, _NEAR))
    small = select_op(near, x, constant_like(x, 0))
    large = select_op(near, constant_like(x, 1), x)
    of_series = jvp(_series, (small,), (constant_like(x, 1),))[1]
    # The slope of i1 / x is i2 / x.
    ratio = lax.div(_i1(large), large)
    of_ratio = lax.div(lax.sub(_i0(large), lax.add(ratio, ratio)), large)
    return lax.mul(t, lax.sub(_i1(x), select_op(near, of_series, of_ratio)))


_i0.defjvps(lambda t, out, x: lax.mul(t, _i1(x)))
_i1.defjvps(lambda t, out, x: lax.mul(t, _slope_of_i1(x)))
_slope_of_i1.defjvps(_second_slope_of_i1)


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 0, elementwise.

    Args:
      x: an array or scalar of real numbers; integers become floating point numbers.
    Returns:
      An array of the shape of ``x``; at least 1, and growing like ``exp(|x|)``.
    Raises:
      ValueError: an argument is complex.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.i0(gnp.array([0.0, 1.0])).round(4)
      Array([1.    , 1.2661], dtype=float32)

    See also:
      `gnomon.scipy.special.i0e`, which does not overflow
    """
    (y,) = promoted("i0", x, inexact=True)
    if not is_floating(y.dtype):
        raise ValueError(f"i0 takes real numbers, got {y.dtype.name}")
    result: Array = _i0(y)
    return result


def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind, of order 1."""
    (y,) = promoted("i1", x, inexact=True)
    result: Array = _i1(y)
    return result
