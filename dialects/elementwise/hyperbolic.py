"""Hyperbolic functions and their inverses.

StableHLO only has ``tanh``; the others are expanded. Complex inverses follow W. Kahan, "Branch
cuts for complex elementary functions" (1987): separate square roots of ``1 - z`` and ``1 + z``
preserve branch cuts and signs of zero, and do not overflow.
"""

from __future__ import annotations

import numpy as np

from gnomon.dialects.combinators import lowered, unary
from gnomon.dialects.elementwise.evaluation import of_f32_in_f64
from gnomon.dialects.elementwise.expansion import Parts, copysign, expand, literal
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import INEXACT, type_of

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
    dtypes=INEXACT,
    evaluate=np.sinh,
    jvp=lambda x, out: ops.cosh(x),
    lower=expand(_expand_sinh, _expand_complex_sinh),
)
cosh = unary(
    "cosh",
    doc="hyperbolic cosine",
    dtypes=INEXACT,
    evaluate=of_f32_in_f64(np.cosh),
    jvp=lambda x, out: ops.sinh(x),
    lower=expand(_expand_cosh, _expand_complex_cosh),
)
tanh = unary(
    "tanh",
    doc="hyperbolic tangent",
    dtypes=INEXACT,
    evaluate=np.tanh,
    jvp=lambda x, out: ops.sub(full_like(x, 1), ops.mul(out, out)),
    lower="tanh",
)

# --------------------------------------------------------------------------- asinh, acosh, atanh


def _is_huge(x: ir.Value) -> ir.Value:
    """The mask of the x so large that ``x² + 1`` rounds to ``x²``, which may overflow."""
    return lowered.gt(x, literal(x, 2.0 ** (np.finfo(type_of(x).dtype).nmant + 3)))


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


def roots(x: ir.Value, y: ir.Value) -> tuple[Parts, Parts]:
    """The parts of ``sqrt(1 - z)`` and of ``sqrt(1 + z)``."""
    one = literal(x, 1)
    return (
        _sqrt(lowered.sub(one, x), lowered.neg(y)),
        _sqrt(lowered.add(one, x), y),
    )


def _sqrt(x: ir.Value, y: ir.Value) -> Parts:
    root = lowered.sqrt(lowered.complex(x, y))
    return lowered.real(root), lowered.imag(root)


def complex_asin(x: ir.Value, y: ir.Value) -> Parts:
    """The parts of the inverse sine."""
    (a, b), (c, d) = roots(x, y)
    # Re(sqrt(1 - z) sqrt(1 + z)), and Im(conj(sqrt(1 - z)) sqrt(1 + z))
    denominator = lowered.sub(lowered.mul(a, c), lowered.mul(b, d))
    product = lowered.sub(lowered.mul(a, d), lowered.mul(b, c))
    return lowered.atan2(x, denominator), lowered.asinh(product)


def complex_acos(x: ir.Value, y: ir.Value) -> Parts:
    """The parts of the inverse cosine."""
    (a, b), (c, d) = roots(x, y)
    product = lowered.sub(lowered.mul(b, c), lowered.mul(a, d))
    angle = lowered.atan2(a, c)
    return lowered.add(angle, angle), lowered.asinh(product)


def _expand_complex_asinh(x: ir.Value, y: ir.Value) -> Parts:
    # asinh(z) = -i asin(iz)
    real, imaginary = complex_asin(lowered.neg(y), x)
    return imaginary, lowered.neg(real)


def _expand_complex_acosh(x: ir.Value, y: ir.Value) -> Parts:
    one = literal(x, 1)
    a, b = _sqrt(lowered.sub(x, one), y)
    c, d = _sqrt(lowered.add(x, one), y)
    product = lowered.add(lowered.mul(a, c), lowered.mul(b, d))
    angle = lowered.atan2(b, c)
    return lowered.asinh(product), lowered.add(angle, angle)


def complex_atanh(x: ir.Value, y: ir.Value) -> Parts:
    """The parts of the inverse hyperbolic tangent."""
    one, zero, magnitude = literal(x, 1), literal(x, 0), lowered.abs(x)
    rest = lowered.sub(one, magnitude)
    square = lowered.mul(y, y)
    distance = lowered.add(lowered.mul(rest, rest), square)
    ratio = lowered.div(lowered.mul(literal(x, 4), magnitude), distance)
    near_real = copysign(lowered.mul(literal(x, 0.25), lowered.log1p(ratio)), x)
    angle = lowered.atan2(
        lowered.add(y, y), lowered.sub(lowered.mul(rest, lowered.add(one, magnitude)), square)
    )
    near_imaginary = lowered.mul(literal(x, 0.5), angle)
    # For large z, the real part tends to Re(1 / z), the imaginary part to a right angle.
    largest = lowered.max(lowered.abs(x), lowered.abs(y))
    u, v = lowered.div(x, largest), lowered.div(y, largest)
    inverse = lowered.div(
        lowered.div(u, lowered.add(lowered.mul(u, u), lowered.mul(v, v))), largest
    )
    infinite = lowered.eq(largest, literal(x, np.inf))
    far_real = lowered.select(infinite, copysign(zero, x), inverse)
    far_imaginary = copysign(literal(x, np.pi / 2), y)
    is_far = _is_huge(largest)
    return (
        lowered.select(is_far, far_real, near_real),
        lowered.select(is_far, far_imaginary, near_imaginary),
    )


asinh = unary(
    "asinh",
    doc="inverse hyperbolic sine",
    dtypes=INEXACT,
    evaluate=np.arcsinh,
    jvp=lambda x, out: ops.rsqrt(ops.add(ops.mul(x, x), full_like(x, 1))),
    lower=expand(_expand_asinh, _expand_complex_asinh),
)
acosh = unary(
    "acosh",
    doc="inverse hyperbolic cosine",
    dtypes=INEXACT,
    evaluate=np.arccosh,
    # Two roots, not the root of the product, which is on another branch if Re z < 0.
    jvp=lambda x, out: ops.mul(
        ops.rsqrt(ops.sub(x, full_like(x, 1))), ops.rsqrt(ops.add(x, full_like(x, 1)))
    ),
    lower=expand(_expand_acosh, _expand_complex_acosh),
)
atanh = unary(
    "atanh",
    doc="inverse hyperbolic tangent",
    dtypes=INEXACT,
    evaluate=np.arctanh,
    jvp=lambda x, out: ops.div(
        full_like(x, 1),
        ops.mul(ops.sub(full_like(x, 1), x), ops.add(full_like(x, 1), x)),
    ),
    lower=expand(_expand_atanh, complex_atanh),
)
