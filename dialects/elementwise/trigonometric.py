"""Circular functions and their inverses."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gnomon.dialects.combinators import LowerTo, binary, lowered, unary
from gnomon.dialects.contract import Instance
from gnomon.dialects.elementwise.evaluation import of_f32_in_f64
from gnomon.dialects.elementwise.expansion import Parts, expand, literal
from gnomon.dialects.elementwise.hyperbolic import (
    complex_acos,
    complex_asin,
    complex_atanh,
    one_minus_square,
)
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost
from gnomon.dialects.types import INEXACT, is_complex

sin = unary(
    "sin",
    doc="sine",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=np.sin,
    jvp=lambda x, out: ops.cos(x),
    lower="sine",
)
cos = unary(
    "cos",
    doc="cosine",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=np.cos,
    jvp=lambda x, out: ops.neg(ops.sin(x)),
    lower="cosine",
)
tan = unary(
    "tan",
    doc="tangent",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=of_f32_in_f64(np.tan),
    jvp=lambda x, out: ops.add(full_like(x, 1), ops.mul(out, out)),
    lower="tan",
)


def _root_of_complement(x: ir.Value) -> ir.Value:
    """``sqrt(1 - x²)``, accurate near 1."""
    one = literal(x, 1)
    return lowered.sqrt(lowered.mul(lowered.sub(one, x), lowered.add(one, x)))


def _slope_of_asin(x: ir.Value) -> ir.Value:
    return ops.rsqrt(one_minus_square(x))


def complex_atan(o: Any, x: Any, y: Any) -> Parts:
    """The parts of the inverse tangent; see `complex_asin`."""
    # atan(z) = -i atanh(iz)
    real, imaginary = complex_atanh(o, o.neg(y), x)
    return imaginary, o.neg(real)


asin = unary(
    "asin",
    doc="inverse sine",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=of_f32_in_f64(np.arcsin),
    jvp=lambda x, out: _slope_of_asin(x),
    lower=expand(
        lambda x: lowered.atan2(x, _root_of_complement(x)), partial(complex_asin, lowered)
    ),
)
acos = unary(
    "acos",
    doc="inverse cosine",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=np.arccos,
    jvp=lambda x, out: ops.neg(_slope_of_asin(x)),
    lower=expand(
        lambda x: lowered.atan2(_root_of_complement(x), x), partial(complex_acos, lowered)
    ),
)
atan = unary(
    "atan",
    doc="inverse tangent",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=of_f32_in_f64(np.arctan),
    jvp=lambda x, out: ops.div(full_like(x, 1), ops.add(full_like(x, 1), ops.mul(x, x))),
    lower=expand(lambda x: lowered.atan2(x, literal(x, 1)), partial(complex_atan, lowered)),
)


def _atan2_slope(leg: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    return ops.div(leg, ops.add(ops.mul(x, x), ops.mul(y, y)))


_evaluate_real_atan2 = of_f32_in_f64(np.arctan2)


def _evaluate_atan2(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    if not is_complex(x.dtype):
        return _evaluate_real_atan2(y, x)
    result = -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))
    return np.asarray(result, x.dtype)


def _lower_atan2(inst: Instance) -> list[ir.Value]:
    if not is_complex(inst.type.dtype):
        return LowerTo("atan2")(inst)
    return [complex_atan2(lowered, *inst.operands)]


def complex_atan2(o: Any, y: Any, x: Any) -> Any:
    """The angle by a logarithm; ``o`` is a namespace of ops, such as `lowered`."""
    length = o.sqrt(o.add(o.mul(x, x), o.mul(y, y)))
    upwards, clockwise = (o.full_like(x, unit) for unit in (1j, -1j))
    direction = o.div(o.add(x, o.mul(upwards, y)), length)
    return o.mul(clockwise, o.log(direction))


atan2 = binary(
    "atan2",
    doc="the angle in [-pi, pi] of the point with ordinate x and abscissa y; "
    "for complex operands, -i log((y + ix) / sqrt(x² + y²))",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=_evaluate_atan2,
    jvp=(
        lambda y, x, out: _atan2_slope(x, x, y),
        lambda y, x, out: _atan2_slope(ops.neg(y), x, y),
    ),
    stablehlo=("atan2",),
    lower=_lower_atan2,
)
