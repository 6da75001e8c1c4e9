"""Functions that IREE computes inexactly, wrongly at their edges, or not at all.

What IREE 3.13 gets wrong, and what is done about it:

- sin, cos and tan of f32 lose digits with the size of the argument: it is reduced here by a product
  with 2/pi that has enough digits for every f32, and the rest is a polynomial in f64.
- cbrt of f64 does not compile, and that of f32 is wrong at zero: Halley's iteration here.
- atan2 gives nan at the origin and of two infinities: the arc tangent of a quotient at most 1.
- pow gives nan for negative bases: the power of the magnitude, and the rest by cases.
- log1p of complex numbers loses digits: in f64, by parts.

The 16-bit formats are computed in f32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gnomon.backends.iree.legalize.conversions import rounded
from gnomon.backends.iree.legalize.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import convert, full_like, ops, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_complex, is_floating, type_of

__all__ = ["RULES"]

_F32 = np.dtype(np.float32)
_F64 = np.dtype(np.float64)
_C64 = np.dtype(np.complex64)

Emit = Callable[..., ir.Value]


def _in_f32(emit: Emit) -> Rule:
    """The rule of a function that is written for f32, for it and for the 16-bit formats."""

    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        dtype = inst.type.dtype
        if not is_floating(dtype) or dtype.itemsize not in (2, 4) or inst.type.size == 0:
            return None
        return [rounded(emit(*(convert(x, _F32) for x in inst.operands)), dtype)]

    return rule


def _in_f32_or_f64(emit: Emit) -> Rule:
    """Likewise, for a function that is written for f64 too."""
    narrow = _in_f32(emit)

    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        if inst.type.dtype == _F64 and inst.type.size:
            return [emit(*inst.operands)]
        return narrow(inst)

    return rule


def _has_sign(x: ir.Value) -> ir.Value:
    """Whether the sign bit is set, that of -0 and nan too."""
    bits = ops.bitcast_convert(x, dtype=np.dtype(f"i{type_of(x).dtype.itemsize}"))
    return ops.lt(bits, full_like(bits, 0))


def _with_sign(magnitude: ir.Value, sign: ir.Value) -> ir.Value:
    return ops.select(sign, ops.neg(magnitude), magnitude)


def _is_infinite(x: ir.Value) -> ir.Value:
    return ops.eq(ops.abs(x), full_like(x, np.inf))


# --------------------------------------------------------------------------------- sine and cosine

# 2/pi, 200 bits of it: floor(2/pi * 2**200) in hexadecimal.
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE
_PIECE_BITS = 24
_PIECES = tuple(
    math.ldexp((_TWO_OVER_PI >> (200 - _PIECE_BITS * (k + 1))) % 2**_PIECE_BITS, -24 * (k + 1))
    for k in range(8)
)
_SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(7))
_COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(8))


def _polynomial(x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    total = full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = ops.add(ops.mul(total, x), full_like(x, c))
    return total


def _reduced_modulo_4(x: ir.Value) -> ir.Value:
    """``x`` less the next multiple of 4, exactly."""
    quarters = ops.round(ops.mul(x, full_like(x, 0.25)), rounding_method="TO_NEAREST_EVEN")
    return ops.sub(x, ops.mul(quarters, full_like(x, 4)))


def _sine_and_cosine(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Of an f32 value, in f64.

    The quarter turns are the sum of the products with the pieces of 2/pi. Each product is exact,
    24 bits by 24 bits, and loses its multiples of 4 before it is added.
    """
    wide = convert(x, _F64)
    turns = full_like(wide, 0)
    for piece in reversed(_PIECES):
        product = ops.mul(wide, full_like(wide, piece))
        turns = ops.add(turns, _reduced_modulo_4(product))
    quadrant = ops.round(turns, rounding_method="TO_NEAREST_EVEN")
    angle = ops.mul(ops.sub(turns, quadrant), full_like(turns, math.pi / 2))
    # Next to zero the argument is the angle, -0 included.
    is_small = ops.le(ops.abs(wide), full_like(wide, 0.5))
    angle = ops.select(is_small, wide, angle)
    square = ops.mul(angle, angle)
    sine = ops.mul(angle, _polynomial(square, _SINE))
    cosine = _polynomial(square, _COSINE)
    # In -2 to 2 after the last reduction; -2 and 2 are the same quadrant.
    quadrant = _reduced_modulo_4(quadrant)
    size = ops.abs(quadrant)
    is_odd = ops.eq(size, full_like(size, 1))
    is_half = ops.eq(size, full_like(size, 2))
    first = ops.eq(quadrant, full_like(quadrant, 1))
    last = ops.eq(quadrant, full_like(quadrant, -1))
    new_sine = ops.select(is_odd, cosine, sine)
    new_cosine = ops.select(is_odd, sine, cosine)
    return (
        _with_sign(new_sine, ops.or_(is_half, last)),
        _with_sign(new_cosine, ops.or_(is_half, first)),
    )


def _sin(x: ir.Value) -> ir.Value:
    return convert(_sine_and_cosine(x)[0], _F32)


def _cos(x: ir.Value) -> ir.Value:
    return convert(_sine_and_cosine(x)[1], _F32)


def _tan(x: ir.Value) -> ir.Value:
    return convert(ops.div(*_sine_and_cosine(x)), _F32)


# -------------------------------------------------------------------------------------------- cbrt

# The bits of an f64 divided by 3 are near those of its cube root, but for this.
_CBRT_BITS = 0x2A9F7893 << 32
# A power of 8 that makes the smallest numbers normal ones.
_CBRT_SCALE = 2.0**54


def _cbrt(x: ir.Value) -> ir.Value:
    wide = convert(x, _F64)
    size = ops.abs(wide)
    is_tiny = ops.lt(size, full_like(size, 2.0**-1000))
    scaled = ops.select(is_tiny, ops.mul(size, full_like(size, _CBRT_SCALE)), size)
    is_edge = ops.or_(ops.eq(size, full_like(size, 0)), ops.not_(ops.is_finite(size)))
    scaled = ops.select(is_edge, full_like(size, 1), scaled)
    bits = ops.bitcast_convert(scaled, dtype=np.dtype(np.int64))
    third = ops.div(bits, full_like(bits, 3))
    root = ops.bitcast_convert(ops.add(third, full_like(bits, _CBRT_BITS)), dtype=_F64)
    two = full_like(root, 2)
    for _ in range(4):
        cube = ops.mul(ops.mul(root, root), root)
        # Halley's step, as a small correction of the root.
        change = ops.div(ops.sub(scaled, cube), ops.add(ops.mul(two, cube), scaled))
        root = ops.add(root, ops.mul(root, change))
    back = ops.mul(root, full_like(root, _CBRT_SCALE ** (-1 / 3)))
    root = ops.select(is_tiny, back, root)
    return convert(ops.select(is_edge, wide, _with_sign(root, _has_sign(wide))), type_of(x).dtype)


# ------------------------------------------------------------------------------------------- atan2


def _atan2(y: ir.Value, x: ir.Value) -> ir.Value:
    height, width = ops.abs(y), ops.abs(x)
    is_steep = ops.gt(height, width)
    short, long = ops.select(is_steep, width, height), ops.select(is_steep, height, width)
    quotient = ops.div(short, long)
    # 0 / 0 is 0 here, infinity / infinity 1, and of a nan beside it nan.
    quotient = ops.select(ops.eq(long, full_like(x, 0)), short, quotient)
    quotient = ops.select(ops.eq(short, full_like(x, np.inf)), full_like(x, 1), quotient)
    angle = ops.atan(quotient)
    angle = ops.select(is_steep, ops.sub(full_like(x, math.pi / 2), angle), angle)
    angle = ops.select(_has_sign(x), ops.sub(full_like(x, math.pi), angle), angle)
    angle = _with_sign(angle, _has_sign(y))
    is_nan = ops.or_(ops.ne(x, x), ops.ne(y, y))
    return ops.select(is_nan, full_like(x, np.nan), angle)


# --------------------------------------------------------------------------------------------- pow


def _pow(x: ir.Value, y: ir.Value) -> ir.Value:
    zero, one, inf = full_like(x, 0), full_like(x, 1), full_like(x, np.inf)
    size = ops.abs(x)
    is_regular = ops.and_(ops.is_finite(size), ops.gt(size, zero))
    base = ops.select(is_regular, size, one)
    exponent = ops.select(ops.is_finite(y), y, zero)
    power = ops.pow(base, exponent)

    # Zero and infinity, to the power or as the power: one of the two again.
    grows = ops.eq(ops.gt(size, one), ops.gt(y, zero))
    extreme = ops.select(grows, inf, zero)
    is_extreme = ops.or_(ops.not_(is_regular), _is_infinite(y))
    power = ops.select(is_extreme, extreme, power)

    is_whole = ops.eq(ops.floor(y), y)
    half = ops.mul(y, full_like(y, 0.5))
    is_odd = ops.and_(is_whole, ops.ne(ops.floor(half), half))
    power = _with_sign(power, ops.and_(_has_sign(x), is_odd))
    lost = ops.and_(ops.and_(ops.lt(x, zero), is_regular), ops.not_(is_whole))
    lost = ops.or_(lost, ops.or_(ops.ne(x, x), ops.ne(y, y)))
    power = ops.select(lost, full_like(x, np.nan), power)
    is_one = ops.or_(ops.eq(y, zero), ops.eq(x, one))
    is_one = ops.or_(is_one, ops.and_(ops.eq(size, one), _is_infinite(y)))
    return ops.select(is_one, one, power)


# ------------------------------------------------------------------------------------------- log1p


def _log1p(inst: Instance) -> Sequence[ir.Value] | None:
    if inst.type.dtype != _C64 or inst.type.size == 0:
        return None
    real, imaginary = (convert(part(inst.operand), _F64) for part in (ops.real, ops.imag))
    # |1 + z|² - 1, whose products are exact in f64.
    two = full_like(real, 2)
    excess = ops.add(ops.mul(real, ops.add(real, two)), ops.mul(imaginary, imaginary))
    half = full_like(real, 0.5)
    logarithm = ops.mul(half, ops.log1p(ops.max(excess, full_like(real, -1))))
    is_infinite = ops.or_(_is_infinite(real), _is_infinite(imaginary))
    logarithm = ops.select(is_infinite, full_like(real, np.inf), logarithm)
    angle = ops.atan2(imaginary, ops.add(real, full_like(real, 1)))
    return [ops.complex(convert(logarithm, _F32), convert(angle, _F32))]


# -------------------------------------------------------------------------------- dot_general, pad


def _dot_general(inst: Instance) -> Sequence[ir.Value] | None:
    # The compiler divides by the size of the contraction: a sum of nothing is written down here.
    if all(type_.size for type_ in inst.operand_types):
        return None
    return [zeros(inst.type)]


def _pad(inst: Instance) -> Sequence[ir.Value] | None:
    # IREE fills with numbers of at most 64 bits.
    dtype = inst.type.dtype
    if not is_complex(dtype) or dtype.itemsize <= 8:
        return None
    parts = [
        ops.pad.build([part(x) for x in inst.operands], inst.params)[0]
        for part in (ops.real, ops.imag)
    ]
    return [ops.complex(*parts)]


RULES: dict[str, Rule] = {
    "gnomon.sin": _in_f32(_sin),
    "gnomon.cos": _in_f32(_cos),
    "gnomon.tan": _in_f32(_tan),
    "gnomon.cbrt": _in_f32_or_f64(_cbrt),
    "gnomon.atan2": _in_f32(_atan2),
    "gnomon.pow": _in_f32_or_f64(_pow),
    "gnomon.log1p": _log1p,
    "gnomon.dot_general": _dot_general,
    "gnomon.pad": _pad,
}
