"""Powers: the power of the magnitude, with selects for the sign and the edge cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from gnomon.backends.functions.double_length import positive_power
from gnomon.backends.functions.signs import has_sign, is_infinite, with_sign
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["pow_by", "power_in_f64"]

_F32 = np.dtype(np.float32)
_F64 = np.dtype(np.float64)

Emit: TypeAlias = "Callable[[ir.Value, ir.Value], ir.Value]"
_OfOne: TypeAlias = "Callable[[ir.Value], ir.Value]"


def power_in_f64(exp: _OfOne, log: _OfOne) -> Emit:
    """The power of a positive finite number, of f32 by way of functions of f64."""

    def power(x: ir.Value, y: ir.Value) -> ir.Value:
        if type_of(x).dtype == _F64:
            return positive_power(x, y, exp)
        return convert(exp(ops.mul(convert(y, _F64), log(convert(x, _F64)))), _F32)

    return power


def pow_by(positive: Emit) -> Emit:
    """A function that emits any power, from one for powers of positive finite numbers."""

    def pow(x: ir.Value, y: ir.Value) -> ir.Value:
        zero, one, inf = full_like(x, 0), full_like(x, 1), full_like(x, np.inf)
        size = ops.abs(x)
        is_regular = ops.and_(ops.is_finite(size), ops.gt(size, zero))
        base = ops.select(is_regular, size, one)
        exponent = ops.select(ops.is_finite(y), y, zero)
        power = positive(base, exponent)

        # A base of zero or infinity, or an infinite exponent, gives zero or infinity.
        grows = ops.eq(ops.gt(size, one), ops.gt(y, zero))
        extreme = ops.select(grows, inf, zero)
        is_extreme = ops.or_(ops.not_(is_regular), is_infinite(y))
        power = ops.select(is_extreme, extreme, power)

        is_whole = ops.eq(ops.floor(y), y)
        half = ops.mul(y, full_like(y, 0.5))
        is_odd = ops.and_(is_whole, ops.ne(ops.floor(half), half))
        power = with_sign(power, ops.and_(has_sign(x), is_odd))
        # The sign bit, since a comparison might flush a subnormal number to zero.
        lost = ops.and_(ops.and_(has_sign(x), is_regular), ops.not_(is_whole))
        lost = ops.or_(lost, ops.or_(ops.ne(x, x), ops.ne(y, y)))
        power = ops.select(lost, full_like(x, np.nan), power)
        is_one = ops.or_(ops.eq(y, zero), ops.eq(x, one))
        is_one = ops.or_(is_one, ops.and_(ops.eq(size, one), is_infinite(y)))
        return ops.select(is_one, one, power)

    return pow
