"""Functions of complex numbers with small parts, whose digits IREE loses.

Its own expansions take exp(z) - 1, exp(z) - exp(-z) and log(1 + z): of 1e-18 these are 0. Here the
parts are formed by functions of real numbers, which other rules take care of. Where nothing is
small the compiler's expansion stays, with what it makes of infinities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets, always
from gnomon.backends.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_complex

__all__ = ["LEGALIZATIONS"]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_C64, _C128 = np.dtype(np.complex64), np.dtype(np.complex128)


def _of_complex(emit: Callable[[ir.Value], ir.Value]) -> Rule:
    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        if not is_complex(inst.type.dtype) or inst.type.size == 0:
            return None
        return [emit(inst.operand)]

    return rule


def _turned(z: ir.Value) -> ir.Value:
    """``i z``."""
    return ops.complex(ops.neg(ops.imag(z)), ops.real(z))


def _turned_back(z: ir.Value) -> ir.Value:
    """``-i z``."""
    return ops.complex(ops.imag(z), ops.neg(ops.real(z)))


def _is_near(small: ir.Value, other: ir.Value) -> ir.Value:
    """Whether one part is small, and the other not so large that the formulas have edges there."""
    is_small = ops.lt(ops.abs(small), full_like(small, 1))
    is_moderate = ops.lt(ops.abs(other), full_like(other, 2.0**20))
    near: ir.Value = ops.and_(is_small, is_moderate)
    return near


def _sin(z: ir.Value) -> ir.Value:
    near = _turned_back(ops.sinh(_turned(z)))
    return _where(_is_near(ops.imag(z), ops.real(z)), near, ops.sin(z))


def _cos(z: ir.Value) -> ir.Value:
    near = ops.cosh(_turned(z))
    return _where(_is_near(ops.imag(z), ops.real(z)), near, ops.cos(z))


def _tan(z: ir.Value) -> ir.Value:
    near = _turned_back(_near_tanh(_turned(z)))
    return _where(_is_near(ops.imag(z), ops.real(z)), near, ops.tan(z))


def _where(condition: ir.Value, z: ir.Value, w: ir.Value) -> ir.Value:
    parts = (ops.select(condition, part(z), part(w)) for part in (ops.real, ops.imag))
    chosen: ir.Value = ops.complex(*parts)
    return chosen


def _expm1(z: ir.Value) -> ir.Value:
    """``expm1(x) cos y - 2 sin(y / 2)**2`` for the real part."""
    x, y = ops.real(z), ops.imag(z)
    half = ops.sin(ops.mul(y, full_like(y, 0.5)))
    lost = ops.mul(full_like(half, 2), ops.mul(half, half))
    real = ops.sub(ops.mul(ops.expm1(x), ops.cos(y)), lost)
    near = ops.complex(real, ops.mul(ops.exp(x), ops.sin(y)))
    return _where(_is_near(x, y), near, ops.expm1(z))


def _near_tanh(z: ir.Value) -> ir.Value:
    """By W. Kahan's formula, of the tangent of ``y`` and the hyperbolic sine of ``x``."""
    x, y = ops.real(z), ops.imag(z)
    one = full_like(x, 1)
    tangent, sine = ops.tan(y), ops.sinh(x)
    square = ops.mul(sine, sine)
    slope = ops.add(one, ops.mul(tangent, tangent))
    cosine = ops.sqrt(ops.add(one, square))
    below = ops.add(one, ops.mul(slope, square))
    real = ops.div(ops.mul(slope, ops.mul(cosine, sine)), below)
    found: ir.Value = ops.complex(real, ops.div(tangent, below))
    return found


def _tanh(z: ir.Value) -> ir.Value:
    return _where(_is_near(ops.real(z), ops.imag(z)), _near_tanh(z), ops.tanh(z))


def _log1p(inst: Instance) -> Sequence[ir.Value] | None:
    # Of complex64 the logarithm is formed in f64: see special_functions.
    if inst.type.dtype != _C128 or inst.type.size == 0:
        return None
    z = inst.operand
    x, y = ops.real(z), ops.imag(z)
    grown = ops.add(ops.mul(x, ops.add(x, full_like(x, 2))), ops.mul(y, y))
    is_near = ops.lt(ops.add(ops.abs(x), ops.abs(y)), full_like(x, 0.5))
    small = ops.select(is_near, grown, full_like(grown, 0))
    real = ops.mul(full_like(x, 0.5), ops.log1p(small))
    near = ops.complex(real, ops.atan2(y, ops.add(x, full_like(x, 1))))
    far = ops.log(ops.complex(ops.add(x, full_like(x, 1)), y))
    moderate = ops.lt(ops.max(ops.abs(x), ops.abs(y)), full_like(x, 2.0**20))
    return [_where(is_near, near, _where(moderate, far, ops.log1p(z)))]


def _in_wide_parts(inst: Instance) -> Sequence[ir.Value] | None:
    # The expansions contain arc tangents of f32, off by 6e-8 where they are tiny.
    if inst.type.dtype != _C64 or inst.type.size == 0:
        return None
    parts = (convert(part(inst.operand), _F64) for part in (ops.real, ops.imag))
    (wide,) = inst.op.build([ops.complex(*parts)], {})
    return [ops.complex(*(convert(part(wide), _F32) for part in (ops.real, ops.imag)))]


_RULES: dict[str, Rule] = {
    "gnomon.sin": _of_complex(_sin),
    "gnomon.cos": _of_complex(_cos),
    "gnomon.tan": _of_complex(_tan),
    "gnomon.tanh": _of_complex(_tanh),
    "gnomon.expm1": _of_complex(_expm1),
    "gnomon.log1p": _log1p,
}
_INVERSES = ("asin", "acos", "atan", "asinh", "acosh", "atanh")


LEGALIZATIONS = (
    Legalization(
        name="complex-functions",
        stage=Stage.DECOMPOSE,
        kind=Kind.INACCURATE,
        doc="form functions of complex numbers with small parts from functions of real numbers",
        upstream="IREE 3.13 expands them into exp(z) - 1, exp(z) - exp(-z) and log(1 + z): of "
        "1e-18 these are 0",
        rules=always(_RULES),
    ),
    Legalization(
        name="complex-inverse-functions",
        stage=Stage.DECOMPOSE,
        kind=Kind.INACCURATE,
        doc="compute inverse functions of complex64 in complex128",
        upstream="IREE 3.13 makes them of an arc tangent of f32 that is off by 6e-8",
        targets=Targets.where(f64=True, libm=("system", "device")),
        rules=always({f"gnomon.{name}": _in_wide_parts for name in _INVERSES}),
    ),
)
