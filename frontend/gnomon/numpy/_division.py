"""Elementwise division with rounding: quotients, remainders, common divisors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind, with_weak_type
from gnomon.dialects.emit import ops
from gnomon.dialects.types import UNSIGNED, is_integer
from gnomon.lax._creation import converted
from gnomon.lax._operands import INTEGERS, Dtypes, constant_like
from gnomon.numpy._dispatch import (
    ANY_KIND,
    NUMERIC_KIND,
    fast_path,
    promoted_operands,
    reject_complex,
    select_op,
    zero_like,
)
from gnomon.numpy._ufuncs import absolute, logical_and

__all__ = [
    "divmod",
    "floor_divide",
    "fmod",
    "gcd",
    "lcm",
    "mod",
    "remainder",
]


def _floor_divide(x: Any, y: Any) -> Array:
    """Elementwise quotient rounded down; integers divided by zero give an unspecified number.

    Args:
      x, y: arrays or scalars of real numbers that broadcast together.
    Returns:
      An array of the promoted dtype and the broadcast shape.
    Raises:
      TypeError: an argument is complex.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.floor_divide(gnp.array([7, -7]), 2)
      Array([ 3, -4], dtype=int32)
      >>> gnp.floor_divide(7.5, 2)
      Array(3., dtype=float32, weak_type=True)

    See also:
      `divide`, `remainder`
    """
    x, y = promoted_operands("floor_divide", NUMERIC_KIND, x, y)
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
    """`floor_divide` of NumPy values; NotImplemented if an integer is divided by zero."""
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


def _remainder(x: Any, y: Any) -> Array:
    """Elementwise remainder with the sign of the divisor: ``x - y * floor(x / y)``.

    Args:
      x, y: arrays or scalars of real numbers that broadcast together.
    Returns:
      An array of the promoted dtype and the broadcast shape; integers modulo zero give 0.
    Raises:
      TypeError: an argument is complex.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.remainder(gnp.array([7, -7]), 3)
      Array([1, 2], dtype=int32)
      >>> gnp.remainder(gnp.array([7.0, -7.0]), -3)
      Array([-2., -1.], dtype=float32)

    See also:
      `fmod`, which has the sign of the dividend; `divmod`
    """
    x, y = promoted_operands("remainder", NUMERIC_KIND, x, y)
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

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fmod(gnp.array([7.0, -7.0]), 3)
      Array([ 1., -1.], dtype=float32)
      >>> gnp.remainder(gnp.array([7.0, -7.0]), 3)
      Array([1., 2.], dtype=float32)

    See also:
      `remainder`, which has the sign of the divisor
    """
    x, y = promoted_operands("fmod", NUMERIC_KIND, x1, x2)
    reject_complex("fmod", x)
    return bind(ops.rem, x, _nonzero_divisor(y))


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """The floored quotient and the remainder, elementwise.

    Args:
      x1, x2: arrays or scalars of real numbers that broadcast together.
    Returns:
      The pair ``(x1 // x2, x1 % x2)``; the remainder has the sign of ``x2``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.divmod(gnp.array([7, -7]), 3)
      (Array([ 2, -3], dtype=int32), Array([1, 2], dtype=int32))

    See also:
      `floor_divide`, `remainder`
    """
    x, y = promoted_operands("divmod", NUMERIC_KIND, x1, x2)
    reject_complex("divmod", x)
    if is_integer(x.dtype):
        return floor_divide(x, y), remainder(x, y)
    return _float_divmod(x, y)


# --------------------------------------------------------------------------------- common divisors


def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor of integers, elementwise.

    Args:
      x1, x2: arrays or scalars of integers that broadcast together.
    Returns:
      An array of the promoted dtype that is not negative; ``gcd(0, n)`` is ``|n|``.
    Raises:
      ValueError: the numbers are not integers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.gcd(gnp.array([12, 18, 0]), 8)
      Array([4, 2, 8], dtype=int32)

    See also:
      `lcm`
    """
    x, y = _integers("gcd", x1, x2)
    dtype, weak_type = x.dtype, x.aval.weak_type
    x, y = _magnitude(x), _magnitude(y)

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
    return converted(result, dtype, weak_type)


def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple of integers, elementwise.

    Args:
      x1, x2: arrays or scalars of integers that broadcast together.
    Returns:
      An array of the promoted dtype that is not negative; 0 if either argument is 0.
    Raises:
      ValueError: the numbers are not integers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.lcm(gnp.array([4, 6, 0]), 10)
      Array([20, 30,  0], dtype=int32)

    See also:
      `gcd`
    """
    x, y = _integers("lcm", x1, x2)
    dtype, weak_type = x.dtype, x.aval.weak_type
    x, y = _magnitude(x), _magnitude(y)
    divisor = gcd(x, y)
    multiple = bind(ops.mul, x, bind(ops.div, y, _nonzero_divisor(divisor)))
    is_zero = bind(ops.eq, divisor, zero_like(divisor))
    return converted(select_op(is_zero, zero_like(divisor), multiple), dtype, weak_type)


def _magnitude(x: Array) -> Array:
    """The absolute value as an unsigned integer, which holds that of the least integer, too."""
    if x.dtype.kind == "i":
        x = converted(absolute(x), np.dtype(f"uint{8 * x.dtype.itemsize}"))
    return with_weak_type(x, False)


def _integers(name: str, x1: Any, x2: Any) -> list[Array]:
    x, y = promoted_operands(name, ANY_KIND, x1, x2)
    if x.dtype not in INTEGERS:
        raise ValueError(f"Arguments to {name} must be integers, got {x.dtype.name}")
    return [x, y]
