"""``sin``, ``cos`` and ``tan`` of f32 by way of f64.

The argument is multiplied by 1/(2 pi) with enough digits for every f32, and the reduced angle goes
into a polynomial.
"""

from __future__ import annotations

import math

import numpy as np

from gnomon.backends.functions.double_length import polynomial
from gnomon.backends.functions.signs import has_sign, with_sign
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir

__all__ = ["cos", "sin", "tan"]

_F32 = np.dtype(np.float32)
_F64 = np.dtype(np.float64)

# floor(2/pi * 2**200): 200 bits of 2/pi. Below, 1/(2 pi) in pieces of 29 bits, whose products with
# the 24 bits of an f32 are exact in f64.
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE
_PIECE_BITS = 29
_PIECES = tuple(
    math.ldexp((_TWO_OVER_PI << 1) >> (203 - _PIECE_BITS * (k + 1)) & (1 << 29) - 1, -29 * (k + 1))
    for k in range(7)
)
# Products with the later pieces are less than a turn for every f32.
_ROUNDED_PIECES = 5
# sin(2 pi t) / t as a minimax polynomial in t**2, for t up to 1/4, with a relative error of at most
# 2.2e-11.
_SINE = (
    6.283185307046691,
    -41.34170209692564,
    81.60522369008567,
    -76.70417025049954,
    42.007797108698526,
    -14.381390588162231,
)


def _minus_nearest_integer(x: ir.Value) -> ir.Value:
    """``x`` minus the nearest integer, exactly."""
    return ops.sub(x, ops.round(x, rounding_method="TO_NEAREST_EVEN"))


def _turns(x: ir.Value) -> ir.Value:
    """``x / (2 pi)`` of an f32 value in f64, minus the nearest integer: from -1/2 to 1/2.

    It is the sum of the products with the pieces of 1/(2 pi). Each product is exact, and its whole
    turns are removed before it is added.
    """
    wide = convert(x, _F64)
    total: ir.Value | None = None
    for k, piece in reversed(list(enumerate(_PIECES))):
        product = ops.mul(wide, full_like(wide, piece))
        part = _minus_nearest_integer(product) if k < _ROUNDED_PIECES else product
        total = part if total is None else ops.add(total, part)
    assert total is not None
    return _minus_nearest_integer(total)


def _sine_up_to_quarter(turns: ir.Value) -> ir.Value:
    """The sine of an angle of at most a quarter of a turn to either side."""
    return ops.mul(turns, polynomial(ops.mul(turns, turns), _SINE))


def _sine(turns: ir.Value) -> ir.Value:
    # The sine is symmetric about a quarter turn.
    size = ops.abs(turns)
    size = ops.min(size, ops.sub(full_like(size, 0.5), size))
    return with_sign(_sine_up_to_quarter(size), has_sign(turns))


def _cosine(turns: ir.Value) -> ir.Value:
    return _sine_up_to_quarter(ops.sub(full_like(turns, 0.25), ops.abs(turns)))


def _identity_if_tiny(x: ir.Value, value: ir.Value) -> ir.Value:
    """``value`` as f32, or ``x`` where ``x`` is so small that the two are equal."""
    is_tiny = ops.lt(ops.abs(x), full_like(x, 2.0**-13))
    return ops.select(is_tiny, x, convert(value, _F32))


def sin(x: ir.Value) -> ir.Value:
    """Emit the sine of an f32 value."""
    return _identity_if_tiny(x, _sine(_turns(x)))


def cos(x: ir.Value) -> ir.Value:
    """Emit the cosine of an f32 value."""
    return convert(_cosine(_turns(x)), _F32)


def tan(x: ir.Value) -> ir.Value:
    """Emit the tangent of an f32 value."""
    turns = _turns(x)
    return _identity_if_tiny(x, ops.div(_sine(turns), _cosine(turns)))
