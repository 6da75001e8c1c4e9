"""Pairs of the real and imaginary parts of complex numbers, and arithmetic on them.

Products are those of NumPy and XLA: four products and two sums, without the search for infinities
of annex G of C. Quotients are R. L. Smith's (Algorithm 116, 1962), which do not overflow where a
square would, with the infinities that the evaluator gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir

__all__ = [
    "Parts",
    "Value",
    "add",
    "chosen",
    "divide",
    "equal",
    "full_parts",
    "is_infinite_part",
    "joined",
    "larger",
    "magnitude",
    "multiply",
    "negative",
    "on_each_part",
    "smaller",
    "subtract",
]


class Parts(NamedTuple):
    """A complex value: two real values of one type."""

    real: ir.Value
    imag: ir.Value


Value: TypeAlias = "ir.Value | Parts"


def joined(x: Value) -> ir.Value:
    """The complex value that parts make; other values unchanged."""
    return ops.complex(*x) if isinstance(x, Parts) else x


def on_each_part(function: Callable[..., ir.Value], *values: Parts) -> Parts:
    """Apply a function to the real parts of values, then to their imaginary parts."""
    real, imag = (function(*parts) for parts in zip(*values, strict=True))
    return Parts(real, imag)


def add(x: Parts, y: Parts) -> Parts:
    """The sum of complex numbers."""
    return on_each_part(ops.add, x, y)


def subtract(x: Parts, y: Parts) -> Parts:
    """The difference of complex numbers."""
    return on_each_part(ops.sub, x, y)


def negative(x: Parts) -> Parts:
    """The number with the opposite sign."""
    return on_each_part(ops.neg, x)


def multiply(x: Parts, y: Parts) -> Parts:
    """The product of complex numbers."""
    (a, b), (c, d) = x, y
    return Parts(
        ops.sub(ops.mul(a, c), ops.mul(b, d)),
        ops.add(ops.mul(a, d), ops.mul(b, c)),
    )


def divide(x: Parts, y: Parts) -> Parts:
    """The quotient of complex numbers."""
    (a, b), (c, d) = x, y
    one, zero = full_like(a, 1), full_like(a, 0)
    is_upright = ops.ge(ops.abs(c), ops.abs(d))
    larger_part, smaller_part = _ordered(is_upright, c, d)
    first, second = _ordered(is_upright, a, b)
    ratio = ops.div(smaller_part, larger_part)
    below = ops.add(larger_part, ops.mul(smaller_part, ratio))
    real = ops.add(first, ops.mul(second, ratio))
    product = ops.mul(first, ratio)
    # A second difference, because the negative of the first would have the wrong sign if it is
    # zero.
    imag = ops.select(is_upright, ops.sub(second, product), ops.sub(product, second))
    # For a zero divisor, both parts are divided by positive zero.
    by_zero = ops.and_(ops.eq(c, zero), ops.eq(d, zero))
    below = ops.select(by_zero, zero, below)
    real = ops.div(ops.select(by_zero, a, real), below)
    imag = ops.div(ops.select(by_zero, b, imag), below)
    lost = ops.and_(ops.ne(real, real), ops.ne(imag, imag))
    for infinite, finite, sign, factor in ((x, y, 1, np.inf), (y, x, -1, 0)):
        applies = ops.and_(lost, ops.and_(_is_infinite(infinite), _is_finite(finite)))
        # An infinite part counts as one, and a finite part next to it as zero.
        e, f = (_with_sign(ops.select(is_infinite_part(p), one, zero), p) for p in infinite)
        g, h = finite
        size = full_like(a, factor)
        along = ops.add(ops.mul(e, g), ops.mul(f, h))
        across = ops.sub(ops.mul(f, g), ops.mul(e, h))
        real = ops.select(applies, ops.mul(size, along), real)
        imag = ops.select(applies, ops.mul(size, across if sign > 0 else ops.neg(across)), imag)
    return Parts(real, imag)


def _ordered(is_first: ir.Value, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    return ops.select(is_first, x, y), ops.select(is_first, y, x)


def is_infinite_part(x: ir.Value) -> ir.Value:
    """Whether a real or an imaginary part is infinite."""
    return ops.eq(ops.abs(x), full_like(x, np.inf))


def _is_infinite(x: Parts) -> ir.Value:
    return ops.or_(*(is_infinite_part(p) for p in x))


def _is_finite(x: Parts) -> ir.Value:
    return ops.and_(*(ops.is_finite(p) for p in x))


def _with_sign(size: ir.Value, x: ir.Value) -> ir.Value:
    return ops.select(ops.lt(x, full_like(x, 0)), ops.neg(size), size)


def magnitude(x: Parts) -> ir.Value:
    """The absolute value, without squares that overflow; infinite if a part is."""
    a, b = ops.abs(x.real), ops.abs(x.imag)
    most, least = ops.max(a, b), ops.min(a, b)
    zero, one, infinity = (full_like(a, n) for n in (0, 1, np.inf))
    ratio = ops.div(least, most)
    size = ops.mul(most, ops.sqrt(ops.add(one, ops.mul(ratio, ratio))))
    size = ops.select(ops.eq(most, zero), zero, size)
    is_infinite = ops.or_(ops.eq(a, infinity), ops.eq(b, infinity))
    return ops.select(is_infinite, infinity, size)


def equal(x: Parts, y: Parts) -> ir.Value:
    """Whether both parts are equal."""
    return ops.and_(*(ops.eq(a, b) for a, b in zip(x, y, strict=True)))


def chosen(condition: ir.Value, x: Parts, y: Parts) -> Parts:
    """``x`` where a condition holds, else ``y``."""
    return on_each_part(lambda a, b: ops.select(condition, a, b), x, y)


def full_parts(x: Parts, value: complex) -> Parts:
    """A complex constant of the type of ``x``."""
    number: Any = complex(value)
    return Parts(full_like(x.real, number.real), full_like(x.imag, number.imag))


def larger(x: Parts, y: Parts) -> Parts:
    """The larger number, by real parts, then by imaginary parts; nan if one is nan."""
    return _beyond(x, y, ops.gt)


def smaller(x: Parts, y: Parts) -> Parts:
    """The smaller number; see `larger`."""
    return _beyond(x, y, ops.lt)


def _beyond(x: Parts, y: Parts, is_beyond: Callable[..., ir.Value]) -> Parts:
    tie = ops.and_(ops.eq(x.real, y.real), is_beyond(x.imag, y.imag))
    first = ops.and_(ops.or_(is_beyond(x.real, y.real), tie), equal(y, y))
    return chosen(ops.or_(first, ops.not_(equal(x, x))), x, y)
