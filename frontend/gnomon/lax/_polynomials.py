"""Polynomials by Horner's rule, and 1 - x², with accurate derivatives."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._tracing.bind import bind
from gnomon._tracing.trace import concrete_value, is_tracer
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon._transformations.custom_rules import SymbolicZero
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_complex, is_inexact
from gnomon.lax._creation import convert_element_type
from gnomon.lax._loops import scan
from gnomon.lax._operands import NUMBER, accept, argument, constant_like, spread
from gnomon.lax._structural import stack

__all__ = ["one_minus_square", "polynomial"]

# The terms of a polynomial that are unrolled; those of more terms are loops.
_UNROLLED = 8


def one_minus_square(x: ArrayLike) -> Array:
    """Elementwise :math:`1 - x^2`, computed as :math:`(1 + x)(1 - x)`.

    This form is accurate next to 1 and -1. The derivative is computed as :math:`-2x`, which is
    accurate next to 0.

    Args:
      x: an array or scalar of numbers.
    Returns:
      An array of the shape and dtype of ``x``.
    Raises:
      TypeError: ``x`` is a bool, or not an array.

    Example:
      >>> import gnomon as gn
      >>> one_minus_square(0.5)
      Array(0.75, dtype=float32, weak_type=True)
      >>> gn.grad(one_minus_square)(1e-30)
      Array(-2.e-30, dtype=float32, weak_type=True)
    """
    operand = argument("one_minus_square", x)
    accept("one_minus_square", operand, NUMBER)
    if not is_inexact(operand.dtype):
        return _product_of_sum_and_difference(operand)
    result: Array = _one_minus_square(operand)
    return result


def _product_of_sum_and_difference(x: Array) -> Array:
    one = constant_like(x, 1)
    return bind(ops.mul, bind(ops.add, one, x), bind(ops.sub, one, x))


_one_minus_square = custom_jvp(_product_of_sum_and_difference)
_one_minus_square.defjvps(
    lambda t, out, x: bind(ops.mul, t, bind(ops.mul, constant_like(x, -2), x))
)


def polynomial(x: ArrayLike, coeffs: Sequence[ArrayLike], *, unroll: int | None = None) -> Array:
    """Elementwise value of a polynomial, by Horner's rule.

    The derivative in ``x`` is computed as the polynomial of the next lower degree.

    Args:
      x: an array or scalar of numbers.
      coeffs: the coefficients from the constant term to the highest power, which are converted to
        the dtype of ``x``. Each is a scalar, or an array of the rank of ``x`` whose sizes are equal
        or one.
      unroll: up to this number of coefficients the rule is unrolled, and longer polynomials are a
        loop; 8 by default.
    Returns:
      An array of the broadcast shape and the dtype of ``x``; zeros without coefficients.
    Raises:
      TypeError: ``x`` is a bool, or is real although a coefficient is a complex number, or shapes
        cannot be broadcast, or an argument is not an array.
      ValueError: ``unroll`` is not positive.

    Example:
      >>> polynomial(3.0, [1.0, 5.0, 2.0])
      Array(34., dtype=float32, weak_type=True)
    """
    operand = argument("polynomial", x, 0)
    accept("polynomial", operand, NUMBER, 0)
    unrolled = _UNROLLED if unroll is None else operator.index(unroll)
    if unrolled < 1:
        raise ValueError(f"lax.polynomial: unroll must be positive, got {unroll}")
    weak = isinstance(x, (int, float, complex))
    terms = [_coefficient(operand, c, weak) for c in coeffs]
    if not terms:
        return constant_like(operand, 0)
    if len(terms) == 1:
        return spread("polynomial", (operand, *terms))[1]
    if not is_inexact(operand.dtype):
        return _horner(unrolled, operand, *terms)
    result: Array = _polynomial(unrolled, operand, *terms)
    return result


def _coefficient(x: Array, coefficient: Any, weak: bool) -> Array:
    """A coefficient in the dtype of ``x``, which is weak if both are known numbers."""
    array = argument("polynomial", coefficient, 1)
    number = None if array.ndim or is_tracer(array) else concrete_value(array)
    if number is None:
        return convert_element_type(array, x.dtype)
    if is_complex(array.dtype) and not is_complex(x.dtype):
        raise TypeError(
            f"lax.polynomial: a coefficient is complex, {number}, but x is {x.aval}; convert x to "
            "a complex dtype"
        )
    return wrap(number.astype(x.dtype), weak)


def _horner(unrolled: int, x: Array, *coefficients: Array) -> Array:
    """The value of two coefficients or more. Scalars are not broadcast before they are added."""

    def step(value: Array, coefficient: Array) -> Array:
        product = bind(ops.mul, *spread("polynomial", (value, x)))
        return bind(ops.add, *spread("polynomial", (product, coefficient)))

    if len(coefficients) <= unrolled:
        return functools.reduce(step, coefficients[::-1])
    start = spread("polynomial", (coefficients[-1], x, *coefficients))[0]
    rest = stack(spread("polynomial", coefficients[-2::-1]))
    result: Array = scan(lambda v, c: (step(v, c), None), start, rest, unroll=unrolled)[0]
    return result


_polynomial = custom_jvp(_horner, nondiff_argnums=(0,))


def _polynomial_jvp(unrolled: int, primals: Any, tangents: Any) -> tuple[Array, Any]:
    x, *coefficients = primals
    t, *changes = tangents
    result = _polynomial(unrolled, x, *coefficients)
    tangent: Any = t
    if not isinstance(t, SymbolicZero):
        slopes = [bind(ops.mul, constant_like(c, k), c) for k, c in enumerate(coefficients[1:], 1)]
        slope = slopes[0] if len(slopes) == 1 else _polynomial(unrolled, x, *slopes)
        tangent = bind(ops.mul, *spread("polynomial", (t, slope, result))[:2])
    if all(isinstance(c, SymbolicZero) for c in changes):
        return result, tangent
    terms = [
        constant_like(c, 0) if isinstance(dc, SymbolicZero) else dc
        for c, dc in zip(coefficients, changes, strict=True)
    ]
    change = _horner(unrolled, x, *terms)
    return result, change if isinstance(t, SymbolicZero) else bind(ops.add, tangent, change)


_polynomial.defjvp(_polynomial_jvp, symbolic_zeros=True)
