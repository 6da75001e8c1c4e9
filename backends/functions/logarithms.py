"""Logarithms and inverse hyperbolic functions within two units in the last place.

IREE's log1p of f32 is off by 2 units, and functions that it derives from it by 2.7; its log1p of
f64 is 0 near the smallest normal number. The functions here use no wider format, so they also serve
targets without f64.
"""

from __future__ import annotations

import math

import numpy as np

from gnomon.backends.functions.double_length import format_of, polynomial
from gnomon.backends.functions.exponentials import odd
from gnomon.backends.functions.signs import with_sign_of
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["acosh", "asinh", "atanh", "log", "log1p"]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)

# (log(1 + f) - f + f**2 / 2) / f**3 in f, for 1 + f between sqrt(1/2) and sqrt(2).
_LOG = (
    0.33333331179972575, -0.24999996957625975, 0.2000071576352166, -0.16667802367579132,
    0.14249057141902147, -0.1242568569282142, 0.11685423571105265, -0.11479748625389889,
    0.06971620541003427,
)  # fmt: skip
# (asinh(x) / x - 1) / x**2 in x**2, up to 1.
_ASINH = {
    _F32: (
        -0.16666666346255873, 0.07499947823802056, -0.044628576255991696, 0.03022781099596106,
        -0.021511420244358325, 0.01451503818369799, -0.007981782431663784, 0.0029294481667763725,
        -0.0005097479169946772,
    ),
    _F64: (
        -0.16666666666666666, 0.0749999999999965, -0.04464285714238818, 0.030381944419423806,
        -0.02237215838122578, 0.017352752052879585, -0.01396469924481466, 0.011550603223513749,
        -0.009754280991410614, 0.008356255869546386, -0.007189420711987433, 0.006095783994116537,
        -0.0049355696143215996, 0.003655852951551964, -0.0023576164490915407,
        0.0012552340804393354, -0.0005199592749186916, 0.00015516973961886288,
        -2.9430312431991294e-05, 2.6494777134581717e-06,
    ),
}  # fmt: skip
# (atanh(x) / x - 1) / x**2 in x**2, up to 1/4.
_ATANH = {
    _F32: (
        0.33333333437307106, 0.19999959336215828, 0.14288286042811285, 0.11050830395223991,
        0.09751940865741168, 0.040916230718241735, 0.1562916538185637,
    ),
    _F64: (
        0.3333333333333333, 0.20000000000000864, 0.14285714285490106, 0.11111111133938968,
        0.09090907881509189, 0.07692345940270638, 0.06665886352701884, 0.05893099692590042,
        0.05160769881147162, 0.05441915418234587, 0.012292448728540531, 0.13557903913692299,
        -0.14450491183414468, 0.21098097885975797,
    ),
}  # fmt: skip
# (acosh(1 + t) / sqrt(2 t) - 1) / t in t, up to 1.
_ACOSH = {
    _F32: (
        -0.08333333179170943, 0.018749848283514794, -0.00557787714792091, 0.0018833420929960764,
        -0.000651261740083347, 0.000190510775368546, -3.137211222497074e-05,
    ),
    _F64: (
        -0.08333333333333333, 0.018749999999997127, -0.0055803571426414535,
        0.0018988715213630783, -0.0006991298712293763, 0.0002711359934747124,
        -0.00010909442592823724, 4.509876108808176e-05, -1.8987297738214135e-05,
        8.01762005566722e-06, -3.2777879113665858e-06, 1.2109198987547943e-06,
        -3.625259738115437e-07, 7.467746362632128e-08, -7.655873087107522e-09,
    ),
}  # fmt: skip


def _logarithm(
    x: ir.Value,
    lost: ir.Value | None = None,
    near: ir.Value | None = None,
    places: ir.Value | None = None,
) -> ir.Value:
    """Natural logarithm of a positive normal number.

    Args:
      x: the number.
      lost: the rounding error of ``x``, relative to ``x``.
      near: the exact ``x - 1``, to use where it is small and ``x`` is rounded.
      places: a whole number; the logarithm is that of ``x / 2**places``.
    """
    format_ = format_of(x)
    bits = ops.bitcast_convert(x, dtype=format_.integer)
    root_half = int(np.array(math.sqrt(0.5), format_.dtype).view(format_.integer))
    width = full_like(bits, format_.mantissa)
    exponent = ops.shift_right_arithmetic(ops.sub(bits, full_like(bits, root_half)), width)
    scaled = ops.sub(bits, ops.shift_left(exponent, width))
    f = ops.sub(ops.bitcast_convert(scaled, dtype=format_.dtype), full_like(x, 1))
    if near is not None:
        f = ops.select(ops.eq(exponent, full_like(exponent, 0)), near, f)
    square = ops.mul(f, f)
    half = ops.mul(square, full_like(x, 0.5))
    count = convert(exponent, format_.dtype)
    if places is not None:
        count = ops.sub(count, places)
    if format_.dtype == _F32:
        low = ops.mul(ops.mul(f, square), polynomial(f, _LOG))
    else:
        # log(1 + f) = 2 atanh(s) = f - s f + 2 s**3 / 3 + ..., where s f = f**2 / 2 - s f**2 / 2.
        s = ops.div(f, ops.add(f, full_like(f, 2)))
        series = polynomial(ops.mul(s, s), tuple(2 / (2 * k + 3) for k in range(format_.terms)))
        low = ops.mul(s, ops.add(half, ops.mul(ops.mul(s, s), series)))
    low = ops.add(low, ops.mul(count, full_like(x, format_.ln2_low)))
    if lost is not None:
        low = ops.add(low, lost)
    high = ops.mul(count, full_like(x, format_.ln2_high))
    return ops.add(high, ops.add(f, ops.sub(low, half)))


def log(x: ir.Value) -> ir.Value:
    """Natural logarithm of an f32 or f64 value.

    Subnormal numbers count as 0 where arithmetic flushes them to zero.
    """
    zero, inf = full_like(x, 0), full_like(x, np.inf)
    info = np.finfo(type_of(x).dtype)
    is_small = ops.lt(x, full_like(x, float(info.tiny)))
    places = info.nmant + 1
    # A product with a power of two makes subnormal numbers normal.
    scaled = ops.select(is_small, ops.mul(x, full_like(x, 2.0**places)), x)
    is_regular = ops.and_(ops.gt(scaled, zero), ops.lt(x, inf))
    value = _logarithm(
        ops.select(is_regular, scaled, full_like(x, 1)),
        places=ops.select(is_small, full_like(x, places), zero),
    )
    edge = ops.select(is_small, ops.neg(inf), ops.add(x, x))
    edge = ops.select(ops.lt(x, zero), full_like(x, np.nan), edge)
    return ops.select(is_regular, value, edge)


def log1p(x: ir.Value) -> ir.Value:
    """``log(1 + x)`` of an f32 or f64 value."""
    one, inf = full_like(x, 1), full_like(x, np.inf)
    is_regular = ops.and_(ops.gt(x, ops.neg(one)), ops.lt(x, inf))
    inner = ops.select(is_regular, x, full_like(x, 0))
    shifted = ops.add(inner, one)
    is_large = ops.gt(inner, one)
    larger, smaller = ops.select(is_large, inner, one), ops.select(is_large, one, inner)
    lost = ops.div(ops.sub(smaller, ops.sub(shifted, larger)), shifted)
    # Near 0, `_logarithm` takes x itself as the excess over 1, so no rounding is to be corrected.
    is_near = ops.and_(ops.gt(inner, full_like(x, -0.29)), ops.lt(inner, full_like(x, 0.41)))
    lost = ops.select(is_near, full_like(x, 0), lost)
    excess = ops.select(is_near, inner, ops.sub(shifted, one))
    value = _logarithm(shifted, lost, excess)
    epsilon = float(np.finfo(type_of(x).dtype).eps)
    is_tiny = ops.lt(ops.abs(x), full_like(x, epsilon / 4))
    edge = ops.select(ops.eq(x, ops.neg(one)), ops.neg(inf), ops.add(x, x))
    edge = ops.select(ops.lt(x, ops.neg(one)), full_like(x, np.nan), edge)
    return ops.select(is_tiny, x, ops.select(is_regular, value, edge))


def _log_of_double(x: ir.Value) -> ir.Value:
    return ops.add(log(x), full_like(x, math.log(2)))


def _is_huge(x: ir.Value) -> ir.Value:
    """Whether adding 1 to the square of ``x`` changes nothing; the square may overflow."""
    return ops.gt(x, full_like(x, 2.0 ** (np.finfo(type_of(x).dtype).nmant + 3)))


def asinh(x: ir.Value) -> ir.Value:
    """Inverse hyperbolic sine of an f32 or f64 value."""
    size, one = ops.abs(x), full_like(x, 1)
    square = ops.mul(size, size)
    root = ops.sqrt(ops.add(square, one))
    far = log1p(ops.add(size, ops.div(square, ops.add(root, one))))
    far = ops.select(_is_huge(size), _log_of_double(size), far)
    near = odd(size, _ASINH[type_of(x).dtype])
    return with_sign_of(ops.select(ops.lt(size, one), near, far), x)


def acosh(x: ir.Value) -> ir.Value:
    """Inverse hyperbolic cosine of an f32 or f64 value; nan below 1."""
    one = full_like(x, 1)
    beyond = ops.sub(x, one)
    root = ops.sqrt(ops.add(beyond, beyond))
    slope = ops.mul(beyond, polynomial(beyond, _ACOSH[type_of(x).dtype]))
    near = ops.add(root, ops.mul(root, slope))
    far = log1p(ops.add(beyond, ops.sqrt(ops.mul(beyond, ops.add(x, one)))))
    far = ops.select(_is_huge(x), _log_of_double(x), far)
    value = ops.select(ops.lt(x, full_like(x, 2)), near, far)
    return ops.select(ops.ge(x, one), value, full_like(x, np.nan))


def atanh(x: ir.Value) -> ir.Value:
    """Inverse hyperbolic tangent of an f32 or f64 value."""
    size, one = ops.abs(x), full_like(x, 1)
    quotient = ops.div(ops.add(size, size), ops.sub(one, size))
    far = ops.mul(full_like(x, 0.5), log1p(quotient))
    near = odd(size, _ATANH[type_of(x).dtype])
    return with_sign_of(ops.select(ops.lt(size, full_like(x, 0.5)), near, far), x)
