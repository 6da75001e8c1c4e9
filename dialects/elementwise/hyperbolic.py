"""Hyperbolic functions and their inverses.

StableHLO only has ``tanh``; the others are expanded. Complex inverses follow W. Kahan, "Branch
cuts for complex elementary functions" (1987): separate square roots of ``1 - z`` and ``1 + z``
preserve branch cuts and signs of zero, and do not overflow.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gnomon.dialects.combinators import lowered, unary
from gnomon.dialects.elementwise.evaluation import of_f32_in_f64
from gnomon.dialects.elementwise.expansion import Parts, copysign, dtype_of, expand, literal
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost
from gnomon.dialects.types import INEXACT

# ------------------------------------------------------------------------------- sinh, cosh, tanh


def _expand_sinh(x: ir.Value) -> ir.Value:
    magnitude = lowered.abs(x)
    half = literal(x, 0.5)
    grown = lowered.expm1(magnitude)
    near = lowered.mul(
        half, lowered.add(grown, lowered.div(grown, lowered.add(grown, literal(x, 1))))
    )
    # exp(|x|) overflows before sinh does; the square of exp(|x| / 2) does not.
    root = lowered.exp(lowered.mul(half, magnitude))
    far = lowered.mul(lowered.mul(half, root), root)
    is_near = lowered.lt(magnitude, literal(x, 20))
    return copysign(lowered.select(is_near, near, far), x)


def _expand_cosh(x: ir.Value) -> ir.Value:
    half = literal(x, 0.5)
    root = lowered.exp(lowered.mul(half, lowered.abs(x)))
    grown = lowered.mul(lowered.mul(half, root), root)
    return lowered.add(grown, lowered.div(lowered.div(half, root), root))


def _times(x: ir.Value, y: ir.Value, at: ir.Value) -> ir.Value:
    """``x * y``; a signed zero where ``at`` is zero, so that 0 * inf does not give nan there."""
    return lowered.select(
        lowered.eq(at, literal(at, 0)), lowered.mul(copysign_one(x), at), lowered.mul(x, y)
    )


def copysign_one(x: ir.Value) -> ir.Value:
    """1 with the sign of ``x``."""
    return copysign(literal(x, 1), x)


def _expand_complex_sinh(x: ir.Value, y: ir.Value) -> Parts:
    return (
        lowered.mul(lowered.sinh(x), lowered.cos(y)),
        _times(lowered.cosh(x), lowered.sin(y), y),
    )


def _expand_complex_cosh(x: ir.Value, y: ir.Value) -> Parts:
    return (
        lowered.mul(lowered.cosh(x), lowered.cos(y)),
        _times(lowered.sinh(x), lowered.sin(y), y),
    )


sinh = unary(
    "sinh",
    doc="hyperbolic sine",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=np.sinh,
    jvp=lambda x, out: ops.cosh(x),
    lower=expand(_expand_sinh, _expand_complex_sinh),
)
cosh = unary(
    "cosh",
    doc="hyperbolic cosine",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=of_f32_in_f64(np.cosh),
    jvp=lambda x, out: ops.sinh(x),
    lower=expand(_expand_cosh, _expand_complex_cosh),
)
tanh = unary(
    "tanh",
    doc="hyperbolic tangent",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=np.tanh,
    jvp=lambda x, out: ops.sub(full_like(x, 1), ops.mul(out, out)),
    lower="tanh",
)

# --------------------------------------------------------------------------- asinh, acosh, atanh


def _huge(x: Any) -> float:
    """The size above which ``x² + 1`` rounds to ``x²``, which may overflow."""
    exponent: int = np.finfo(dtype_of(x)).nmant + 3
    return 2.0**exponent


def _is_huge(x: ir.Value) -> ir.Value:
    return lowered.gt(x, literal(x, _huge(x)))


def _log_of_double(x: ir.Value) -> ir.Value:
    return lowered.add(lowered.log(x), literal(x, np.log(2.0)))


def _expand_asinh(x: ir.Value) -> ir.Value:
    magnitude, one = lowered.abs(x), literal(x, 1)
    square = lowered.mul(x, x)
    root = lowered.sqrt(lowered.add(square, one))
    near = lowered.log1p(lowered.add(magnitude, lowered.div(square, lowered.add(root, one))))
    far = _log_of_double(magnitude)
    return copysign(lowered.select(_is_huge(magnitude), far, near), x)


def _expand_acosh(x: ir.Value) -> ir.Value:
    one = literal(x, 1)
    beyond = lowered.sub(x, one)
    root = lowered.sqrt(lowered.mul(beyond, lowered.add(x, one)))
    near = lowered.log1p(lowered.add(beyond, root))
    value = lowered.select(_is_huge(x), _log_of_double(x), near)
    return lowered.select(lowered.lt(x, one), literal(x, np.nan), value)


def _expand_atanh(x: ir.Value) -> ir.Value:
    difference = lowered.sub(lowered.log1p(x), lowered.log1p(lowered.neg(x)))
    return lowered.mul(literal(x, 0.5), difference)


def _parts(o: Any, z: Any) -> Parts:
    return o.real(z), o.imag(z)


def _roots(o: Any, x: Any, y: Any) -> tuple[Parts, Parts]:
    """The parts of ``sqrt(1 - z)`` and of ``sqrt(1 + z)``."""
    one = o.full_like(x, 1)
    return (
        _parts(o, o.sqrt(o.complex(o.sub(one, x), o.neg(y)))),
        _parts(o, o.sqrt(o.complex(o.add(one, x), y))),
    )


def _is_infinite(o: Any, x: Any, y: Any) -> Any:
    infinity = o.full_like(x, np.inf)
    return o.or_(o.eq(o.abs(x), infinity), o.eq(o.abs(y), infinity))


def _with_limits(
    o: Any, angle: Any, size: Any, x: Any, y: Any, *, at_infinity: Any, on_axis: Any, sign: Any
) -> Parts:
    """The parts ``angle`` and ``size`` of a function that grows as the logarithm of ``x + iy``.

    For infinite and for nan arguments the values are those of annex G of the C standard.

    Args:
      at_infinity: the angle at infinity, which is nan if one of the parts of the argument is.
      on_axis: the angle where ``x`` is 0, which does not depend on ``y``.
      sign: a number with the sign of an infinite ``size``.
    """
    infinite, zero = _is_infinite(o, x, y), o.full_like(x, 0)
    angle = o.select(infinite, at_infinity, o.select(o.eq(x, zero), on_axis, angle))
    infinity = _copysign(o, o.full_like(x, np.inf), sign)
    return angle, o.select(infinite, infinity, size)


def complex_asin(o: Any, x: Any, y: Any) -> Parts:
    """The parts of the inverse sine; ``o`` is a namespace of ops, such as `lowered`."""
    (a, b), (c, d) = _roots(o, x, y)
    # Re(sqrt(1 - z) sqrt(1 + z)), and Im(conj(sqrt(1 - z)) sqrt(1 + z))
    denominator = o.sub(o.mul(a, c), o.mul(b, d))
    product = o.sub(o.mul(a, d), o.mul(b, c))
    angle, size = o.atan2(x, denominator), o.asinh(product)
    limit = o.atan2(x, o.abs(y))
    return _with_limits(o, angle, size, x, y, at_infinity=limit, on_axis=x, sign=y)


def complex_acos(o: Any, x: Any, y: Any) -> Parts:
    """The parts of the inverse cosine; see `complex_asin`."""
    (a, b), (c, d) = _roots(o, x, y)
    product = o.sub(o.mul(b, c), o.mul(a, d))
    half = o.atan2(a, c)
    angle, size = o.add(half, half), o.asinh(product)
    limit, right = o.atan2(o.abs(y), x), o.full_like(x, np.pi / 2)
    return _with_limits(o, angle, size, x, y, at_infinity=limit, on_axis=right, sign=o.neg(y))


def complex_asinh(o: Any, x: Any, y: Any) -> Parts:
    """The parts of the inverse hyperbolic sine; see `complex_asin`."""
    # asinh(z) = -i asin(iz)
    real, imaginary = complex_asin(o, o.neg(y), x)
    return imaginary, o.neg(real)


def complex_acosh(o: Any, x: Any, y: Any) -> Parts:
    """The parts of the inverse hyperbolic cosine; see `complex_asin`."""
    one = o.full_like(x, 1)
    a, b = _parts(o, o.sqrt(o.complex(o.sub(x, one), y)))
    c, d = _parts(o, o.sqrt(o.complex(o.add(x, one), y)))
    product = o.add(o.mul(a, c), o.mul(b, d))
    half = o.atan2(b, c)
    angle, size = o.add(half, half), o.asinh(product)
    limit, right = o.atan2(y, x), _copysign(o, o.full_like(x, np.pi / 2), y)
    angle, size = _with_limits(o, angle, size, x, y, at_infinity=limit, on_axis=right, sign=one)
    return size, angle


def complex_atanh(o: Any, x: Any, y: Any) -> Parts:
    """The parts of the inverse hyperbolic tangent; see `complex_asin`."""
    one, zero, magnitude = o.full_like(x, 1), o.full_like(x, 0), o.abs(x)
    rest = o.sub(one, magnitude)
    square = o.mul(y, y)
    distance = o.add(o.mul(rest, rest), square)
    ratio = o.div(o.mul(o.full_like(x, 4), magnitude), distance)
    near_real = _copysign(o, o.mul(o.full_like(x, 0.25), o.log1p(ratio)), x)
    angle = o.atan2(o.add(y, y), o.sub(o.mul(rest, o.add(one, magnitude)), square))
    near_imaginary = o.mul(o.full_like(x, 0.5), angle)
    # For large z, the real part tends to Re(1 / z), the imaginary part to a right angle.
    largest = o.max(o.abs(x), o.abs(y))
    u, v = o.div(x, largest), o.div(y, largest)
    inverse = o.div(o.div(u, o.add(o.mul(u, u), o.mul(v, v))), largest)
    infinite = _is_infinite(o, x, y)
    far_real = o.select(infinite, _copysign(o, zero, x), inverse)
    right = _copysign(o, o.full_like(x, np.pi / 2), y)
    far_imaginary = o.select(o.eq(y, y), right, y)
    is_far = o.or_(infinite, o.gt(largest, o.full_like(x, _huge(x))))
    real = o.select(is_far, far_real, near_real)
    # The imaginary axis is mapped to itself, also where y is nan.
    return (
        o.select(o.eq(x, zero), x, real),
        o.select(is_far, far_imaginary, near_imaginary),
    )


def _copysign(o: Any, magnitude: Any, x: Any) -> Any:
    bits = o.bitcast_convert(x, dtype=np.dtype(f"int{8 * dtype_of(x).itemsize}"))
    return o.select(o.lt(bits, o.full_like(bits, 0)), o.neg(magnitude), magnitude)


def one_minus_square(x: ir.Value) -> ir.Value:
    """``1 - x²``, accurate near 1 and -1.

    At 1 and -1 themselves it is not a product: of the derivatives of ``(1 - x) (1 + x)``, one is 0,
    and becomes nan where the caller multiplies it by the derivative of a pole.
    """
    one = full_like(x, 1)
    square = ops.mul(x, x)
    product = ops.mul(ops.sub(one, x), ops.add(one, x))
    return ops.select(ops.eq(square, one), ops.sub(one, square), product)


asinh = unary(
    "asinh",
    doc="inverse hyperbolic sine",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=np.arcsinh,
    jvp=lambda x, out: ops.rsqrt(ops.add(ops.mul(x, x), full_like(x, 1))),
    lower=expand(_expand_asinh, partial(complex_asinh, lowered)),
)
acosh = unary(
    "acosh",
    doc="inverse hyperbolic cosine",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=np.arccosh,
    # Two roots, not the root of the product, which is on another branch if Re z < 0.
    jvp=lambda x, out: ops.mul(
        ops.rsqrt(ops.sub(x, full_like(x, 1))), ops.rsqrt(ops.add(x, full_like(x, 1)))
    ),
    lower=expand(_expand_acosh, partial(complex_acosh, lowered)),
)
atanh = unary(
    "atanh",
    doc="inverse hyperbolic tangent",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=np.arctanh,
    jvp=lambda x, out: ops.div(full_like(x, 1), one_minus_square(x)),
    lower=expand(_expand_atanh, partial(complex_atanh, lowered)),
)
