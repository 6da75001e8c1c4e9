"""Functions of complex numbers, in which IREE loses digits.

IREE expands them into exp(z) - 1, exp(z) - exp(-z) and log(1 + z), which are 0 for 1e-18. The sines
and logarithms of f32 in these expansions have a bounded absolute error, so they are wrong near
their zeros. Here both parts are computed by functions of real numbers, which other rules legalize.
The compiler's expansion is kept for infinite numbers, and where a part overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets, always
from gnomon.backends.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_complex, type_of

__all__ = ["LEGALIZATIONS"]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_LARGEST_F32, _LARGEST = (float(np.finfo(dtype).max) for dtype in (_F32, _F64))
_C64, _C128 = np.dtype(np.complex64), np.dtype(np.complex128)


def _of_complex(emit: Callable[[ir.Value], ir.Value]) -> Rule:
    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        if not is_complex(inst.type.dtype) or inst.type.size == 0:
            return None
        return [emit(inst.operand)]

    return rule


def _times_i(z: ir.Value) -> ir.Value:
    """``i z``."""
    return ops.complex(ops.neg(ops.imag(z)), ops.real(z))


def _times_minus_i(z: ir.Value) -> ir.Value:
    """``-i z``."""
    return ops.complex(ops.imag(z), ops.neg(ops.real(z)))


def _is_near(small: ir.Value, other: ir.Value) -> ir.Value:
    """Whether one part is small and the other one not so large that the formulas break down."""
    is_small = ops.lt(ops.abs(small), full_like(small, 1))
    is_moderate = ops.lt(ops.abs(other), full_like(other, 2.0**20))
    near: ir.Value = ops.and_(is_small, is_moderate)
    return near


def _is_within(growing: ir.Value, turning: ir.Value) -> ir.Value:
    """Whether the exponential of one part is in range and the other part is finite."""
    limit, largest = (64.0, _LARGEST_F32) if type_of(growing).dtype == _F32 else (600.0, _LARGEST)
    in_range = ops.lt(ops.abs(growing), full_like(growing, limit))
    finite = ops.le(ops.abs(turning), full_like(turning, largest))
    within: ir.Value = ops.and_(in_range, finite)
    return within


def _near_exp(z: ir.Value) -> ir.Value:
    x, y = ops.real(z), ops.imag(z)
    size = ops.exp(x)
    found: ir.Value = ops.complex(ops.mul(size, ops.cos(y)), ops.mul(size, ops.sin(y)))
    return found


def _exp(z: ir.Value) -> ir.Value:
    return _where(_is_within(ops.real(z), ops.imag(z)), _near_exp(z), ops.exp(z))


def _near_sinh(z: ir.Value) -> ir.Value:
    x, y = ops.real(z), ops.imag(z)
    found: ir.Value = ops.complex(
        ops.mul(ops.sinh(x), ops.cos(y)), ops.mul(ops.cosh(x), ops.sin(y))
    )
    return found


def _near_cosh(z: ir.Value) -> ir.Value:
    x, y = ops.real(z), ops.imag(z)
    found: ir.Value = ops.complex(
        ops.mul(ops.cosh(x), ops.cos(y)), ops.mul(ops.sinh(x), ops.sin(y))
    )
    return found


def _sinh(z: ir.Value) -> ir.Value:
    return _where(_is_within(ops.real(z), ops.imag(z)), _near_sinh(z), ops.sinh(z))


def _cosh(z: ir.Value) -> ir.Value:
    return _where(_is_within(ops.real(z), ops.imag(z)), _near_cosh(z), ops.cosh(z))


def _sin(z: ir.Value) -> ir.Value:
    near = _times_minus_i(_near_sinh(_times_i(z)))
    return _where(_is_within(ops.imag(z), ops.real(z)), near, ops.sin(z))


def _cos(z: ir.Value) -> ir.Value:
    near = _near_cosh(_times_i(z))
    return _where(_is_within(ops.imag(z), ops.real(z)), near, ops.cos(z))


def _logistic(z: ir.Value) -> ir.Value:
    """``1 / (1 + exp(-z))`` or ``exp(z) / (1 + exp(z))``, whichever exponential is at most one."""
    x, y = ops.real(z), ops.imag(z)
    is_left = ops.lt(x, full_like(x, 0))
    power = _near_exp(_where(is_left, z, ops.neg(z)))
    one = ops.complex(full_like(x, 1), full_like(x, 0))
    near = ops.div(_where(is_left, power, one), ops.add(one, power))
    return _where(_is_within(x, y), near, ops.logistic(z))


def _larger_and_smaller(z: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The absolute values of the parts, ordered."""
    x, y = ops.abs(ops.real(z)), ops.abs(ops.imag(z))
    return ops.max(x, y), ops.min(x, y)


def _is_ordinary(larger: ir.Value) -> ir.Value:
    """Whether squares of a number neither underflow nor overflow."""
    bound = 2.0**100 if type_of(larger).dtype == _F32 else 2.0**1000
    low, high = (full_like(larger, b) for b in (1 / bound, bound))
    ordinary: ir.Value = ops.and_(ops.gt(larger, low), ops.lt(larger, high))
    return ordinary


def _log(z: ir.Value) -> ir.Value:
    """``log(a**2 + b**2) / 2`` by ``log1p`` where the absolute value is near one."""
    a, b = _larger_and_smaller(z)
    one, half = full_like(a, 1), full_like(a, 0.5)
    ratio = ops.div(b, a)
    far = ops.add(ops.log(a), ops.mul(half, ops.log1p(ops.mul(ratio, ratio))))
    grown = ops.add(ops.mul(ops.sub(a, one), ops.add(a, one)), ops.mul(b, b))
    is_near = ops.and_(ops.gt(a, half), ops.lt(a, full_like(a, 2)))
    near = ops.mul(half, ops.log1p(ops.select(is_near, grown, full_like(a, 0))))
    found = ops.complex(ops.select(is_near, near, far), ops.atan2(ops.imag(z), ops.real(z)))
    return _where(_is_ordinary(a), found, ops.log(z))


def _size(a: ir.Value, b: ir.Value) -> ir.Value:
    """The absolute value of a number whose parts have the absolute values ``a`` >= ``b``."""
    ratio = ops.div(b, a)
    size: ir.Value = ops.mul(a, ops.sqrt(ops.add(full_like(a, 1), ops.mul(ratio, ratio))))
    return size


def _near_sqrt(z: ir.Value, size: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The parts of the square root of a number that is not real."""
    x, y = ops.real(z), ops.imag(z)
    zero, half = full_like(x, 0), full_like(x, 0.5)
    root = ops.sqrt(ops.mul(half, ops.add(ops.abs(x), size)))
    other = ops.mul(half, ops.div(ops.abs(y), root))
    is_right = ops.ge(x, zero)
    real, imag = ops.select(is_right, root, other), ops.select(is_right, other, root)
    return real, ops.select(ops.lt(y, zero), ops.neg(imag), imag)


def _has_formula(z: ir.Value, larger: ir.Value) -> ir.Value:
    imag = ops.imag(z)
    has: ir.Value = ops.and_(_is_ordinary(larger), ops.ne(imag, full_like(imag, 0)))
    return has


def _sqrt(z: ir.Value) -> ir.Value:
    a, b = _larger_and_smaller(z)
    near = ops.complex(*_near_sqrt(z, _size(a, b)))
    return _where(_has_formula(z, a), near, ops.sqrt(z))


def _rsqrt(z: ir.Value) -> ir.Value:
    """The conjugate of the square root, divided by the absolute value."""
    a, b = _larger_and_smaller(z)
    size = _size(a, b)
    real, imag = _near_sqrt(z, size)
    near = ops.complex(ops.div(real, size), ops.neg(ops.div(imag, size)))
    return _where(_has_formula(z, a), near, ops.rsqrt(z))


def _tan(z: ir.Value) -> ir.Value:
    near = _times_minus_i(_near_tanh(_times_i(z)))
    return _where(_is_near(ops.imag(z), ops.real(z)), near, ops.tan(z))


def _where(condition: ir.Value, z: ir.Value, w: ir.Value) -> ir.Value:
    parts = (ops.select(condition, part(z), part(w)) for part in (ops.real, ops.imag))
    chosen: ir.Value = ops.complex(*parts)
    return chosen


def _expm1(z: ir.Value) -> ir.Value:
    """``exp(z) - 1``, whose real part is ``expm1(x) cos y - 2 sin(y / 2)**2``."""
    x, y = ops.real(z), ops.imag(z)
    half = ops.sin(ops.mul(y, full_like(y, 0.5)))
    lost = ops.mul(full_like(half, 2), ops.mul(half, half))
    real = ops.sub(ops.mul(ops.expm1(x), ops.cos(y)), lost)
    near = ops.complex(real, ops.mul(ops.exp(x), ops.sin(y)))
    power = _near_exp(z)
    less = ops.complex(ops.sub(ops.real(power), full_like(x, 1)), ops.imag(power))
    far = _where(_is_within(x, y), less, ops.expm1(z))
    return _where(_is_near(x, y), near, far)


def _near_tanh(z: ir.Value) -> ir.Value:
    """W. Kahan's formula, from the tangent of ``y`` and the hyperbolic sine of ``x``."""
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
    # The logarithm of complex64 is computed in f64: see special_functions.
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
    # The expansions contain arc tangents of f32, which have an error of 6e-8 near 0.
    if inst.type.dtype != _C64 or inst.type.size == 0:
        return None
    parts = (convert(part(inst.operand), _F64) for part in (ops.real, ops.imag))
    (wide,) = inst.op.build([ops.complex(*parts)], {})
    return [ops.complex(*(convert(part(wide), _F32) for part in (ops.real, ops.imag)))]


_RULES: dict[str, Rule] = {
    "gnomon.exp": _of_complex(_exp),
    "gnomon.log": _of_complex(_log),
    "gnomon.logistic": _of_complex(_logistic),
    "gnomon.sqrt": _of_complex(_sqrt),
    "gnomon.rsqrt": _of_complex(_rsqrt),
    "gnomon.sinh": _of_complex(_sinh),
    "gnomon.cosh": _of_complex(_cosh),
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
        doc="form functions of complex numbers from functions of real numbers",
        upstream="IREE 3.13 expands them into exp(z) - 1, exp(z) - exp(-z) and log(1 + z), which "
        "are 0 for 1e-18, and its sines and logarithms have a bounded absolute error only",
        texts=("sines_of_small_complex_numbers", "roots_of_complex_numbers"),
        reproducer="`sin(1e-9 + 1e-9j)` of complex64 has the imaginary part 0",
        rules=always(_RULES),
    ),
    Legalization(
        name="complex-inverse-functions",
        stage=Stage.DECOMPOSE,
        kind=Kind.INACCURATE,
        doc="compute inverse functions of complex64 in complex128",
        upstream="IREE 3.13 computes the square roots in them by a sine of f32 with an error of "
        "6e-8 near 0",
        texts=("roots_of_complex_numbers",),
        reproducer="`arcsin` of 1e-8 + 1e-8j in complex64 has the imaginary part -5.7e-8",
        targets=Targets.where(f64=True, libm=("system", "device")),
        rules=always({f"gnomon.{name}": _in_wide_parts for name in _INVERSES}),
    ),
)
