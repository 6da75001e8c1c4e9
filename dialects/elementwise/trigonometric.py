"""Circular functions and their inverses."""

from __future__ import annotations

import numpy as np

from gnomon.dialects.combinators import binary, lowered, unary
from gnomon.dialects.elementwise.expansion import Parts, expand, literal
from gnomon.dialects.elementwise.hyperbolic import complex_acos, complex_asin, complex_atanh
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import FLOATING, INEXACT

sin = unary(
    "sin",
    doc="sine",
    dtypes=INEXACT,
    evaluate=np.sin,
    jvp=lambda x, out: ops.cos(x),
    lower="sine",
)
cos = unary(
    "cos",
    doc="cosine",
    dtypes=INEXACT,
    evaluate=np.cos,
    jvp=lambda x, out: ops.neg(ops.sin(x)),
    lower="cosine",
)
tan = unary(
    "tan",
    doc="tangent",
    dtypes=INEXACT,
    evaluate=np.tan,
    jvp=lambda x, out: ops.add(full_like(x, 1), ops.mul(out, out)),
    lower="tan",
)


def _root_of_complement(x: ir.Value) -> ir.Value:
    """``sqrt(1 - x²)``, accurate next to 1."""
    one = literal(x, 1)
    return lowered.sqrt(lowered.mul(lowered.sub(one, x), lowered.add(one, x)))


def _slope_of_asin(x: ir.Value) -> ir.Value:
    one = full_like(x, 1)
    return ops.rsqrt(ops.mul(ops.sub(one, x), ops.add(one, x)))


def _expand_complex_atan(x: ir.Value, y: ir.Value) -> Parts:
    # atan(z) = -i atanh(iz)
    real, imaginary = complex_atanh(lowered.neg(y), x)
    return imaginary, lowered.neg(real)


asin = unary(
    "asin",
    doc="inverse sine",
    dtypes=INEXACT,
    evaluate=np.arcsin,
    jvp=lambda x, out: _slope_of_asin(x),
    lower=expand(lambda x: lowered.atan2(x, _root_of_complement(x)), complex_asin),
)
acos = unary(
    "acos",
    doc="inverse cosine",
    dtypes=INEXACT,
    evaluate=np.arccos,
    jvp=lambda x, out: ops.neg(_slope_of_asin(x)),
    lower=expand(lambda x: lowered.atan2(_root_of_complement(x), x), complex_acos),
)
atan = unary(
    "atan",
    doc="inverse tangent",
    dtypes=INEXACT,
    evaluate=np.arctan,
    jvp=lambda x, out: ops.div(full_like(x, 1), ops.add(full_like(x, 1), ops.mul(x, x))),
    lower=expand(lambda x: lowered.atan2(x, literal(x, 1)), _expand_complex_atan),
)


def _atan2_slope(leg: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    return ops.div(leg, ops.add(ops.mul(x, x), ops.mul(y, y)))


atan2 = binary(
    "atan2",
    doc="the angle of the point (y, x), first operand upwards, in [-pi, pi]",
    dtypes=FLOATING,
    evaluate=np.arctan2,
    jvp=(
        lambda y, x, out: _atan2_slope(x, x, y),
        lambda y, x, out: _atan2_slope(ops.neg(y), x, y),
    ),
    lower="atan2",
)
