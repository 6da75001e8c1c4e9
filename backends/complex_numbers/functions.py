"""Elementary functions of complex numbers, on their parts.

Both parts are computed by functions of real numbers, which backends rewrite further or compile.
Where a formula would give nan next to infinity, results follow annex G of the C standard. A product
of an exponential and a sine is scaled where the exponential overflows but the product does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gnomon.backends.complex_numbers.parts import (
    Parts,
    add,
    chosen,
    divide,
    equal,
    full_parts,
    larger,
    multiply,
    negative,
    subtract,
)
from gnomon.dialects.cumulative import complex_logaddexp
from gnomon.dialects.elementwise import hyperbolic
from gnomon.dialects.elementwise.exponential import LN2
from gnomon.dialects.elementwise.trigonometric import complex_atan, complex_atan2
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["LogOfSize", "add_exponentials", "functions"]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)

_Function = Callable[[Parts], Parts]
LogOfSize = Callable[[ir.Value, ir.Value], ir.Value]
"""The logarithm of ``|1 + z|`` for the f32 parts of ``z``."""


def _turned(z: Parts) -> Parts:
    """``i z``."""
    return Parts(ops.neg(z.imag), z.real)


def _turned_back(z: Parts) -> Parts:
    """``-i z``."""
    return Parts(z.imag, ops.neg(z.real))


def _has_size(x: ir.Value, size: float) -> ir.Value:
    return ops.eq(ops.abs(x), full_like(x, size))


def _like_sign(size: ir.Value, x: ir.Value) -> ir.Value:
    """``size``, which is not negative, with the sign bit of ``x``."""
    bits = ops.bitcast_convert(x, dtype=np.dtype(f"i{type_of(x).dtype.itemsize}"))
    return ops.select(ops.lt(bits, full_like(bits, 0)), ops.neg(size), size)


def _unless_zero(product: ir.Value, x: ir.Value) -> ir.Value:
    """``product``, a product with ``x``, but ``x`` itself where it is zero, even times infinity."""
    return ops.select(ops.eq(x, full_like(x, 0)), x, product)


# ------------------------------------------------------------------------------- exponentials


def _threshold(x: ir.Value) -> float:
    """A number whose exponential is far from overflow, while that of its double overflows."""
    return 64.0 if type_of(x).dtype == _F32 else 600.0


def _exp(z: Parts) -> Parts:
    x, y = z
    # Numbers above the threshold are reduced exactly, since they keep their last place.
    is_large = ops.gt(x, full_like(x, _threshold(x)))
    shift = _threshold(x) / 2
    size = ops.exp(ops.select(is_large, ops.sub(x, full_like(x, shift)), x))
    grow = ops.select(is_large, full_like(x, float(np.exp(shift))), full_like(x, 1))
    real = ops.mul(ops.mul(size, ops.cos(y)), grow)
    imag = _unless_zero(ops.mul(ops.mul(size, ops.sin(y)), grow), y)
    # If y is not finite, the angle of the result is unknown: a zero has none, and an infinite
    # result gets an arbitrary one.
    lost = ops.not_(ops.is_finite(y))
    vanishes = ops.and_(lost, ops.eq(x, full_like(x, -np.inf)))
    explodes = ops.and_(lost, ops.eq(x, full_like(x, np.inf)))
    real, imag = (ops.select(vanishes, full_like(p, 0), p) for p in (real, imag))
    return Parts(ops.select(explodes, full_like(x, np.inf), real), imag)


def _exp2(z: Parts) -> Parts:
    return _exp(Parts(*(ops.mul(p, full_like(p, LN2)) for p in z)))


def _expm1(z: Parts) -> Parts:
    """``exp(z) - 1``, whose real part is ``expm1(x) cos y - 2 sin(y / 2)**2``."""
    x, y = z
    one = full_like(x, 1)
    is_near = ops.lt(ops.abs(x), one)
    small = ops.select(is_near, x, full_like(x, 0))
    half = ops.sin(ops.mul(y, full_like(y, 0.5)))
    lost = ops.mul(full_like(half, 2), ops.mul(half, half))
    near = ops.sub(ops.mul(ops.expm1(small), ops.cos(y)), lost)
    power = _exp(z)
    return Parts(ops.select(is_near, near, ops.sub(power.real, one)), power.imag)


def _logistic(z: Parts) -> Parts:
    """``1 / (1 + exp(-z))`` or ``exp(z) / (1 + exp(z))``, whichever exponential is at most one."""
    is_left = ops.lt(z.real, full_like(z.real, 0))
    power = _exp(chosen(is_left, z, negative(z)))
    one = full_parts(z, 1)
    return divide(chosen(is_left, power, one), add(one, power))


def _hyperbolic(z: Parts) -> tuple[ir.Value, ir.Value, ir.Value]:
    """``sinh`` and ``cosh`` of ``x`` limited to a threshold, and the factor that this omits."""
    limit = full_like(z.real, _threshold(z.real))
    cut = ops.clamp(ops.neg(limit), z.real, limit)
    excess = ops.max(ops.sub(ops.abs(z.real), limit), full_like(z.real, 0))
    return ops.sinh(cut), ops.cosh(cut), ops.exp(excess)


def _sinh(z: Parts) -> Parts:
    x, y = z
    sine, cosine, rest = _hyperbolic(z)
    real = ops.mul(ops.mul(sine, ops.cos(y)), rest)
    imag = ops.mul(ops.mul(cosine, ops.sin(y)), rest)
    lost = ops.not_(ops.is_finite(y))
    is_kept = ops.and_(lost, ops.or_(ops.eq(x, full_like(x, 0)), _has_size(x, np.inf)))
    return Parts(ops.select(is_kept, x, real), _unless_zero(imag, y))


def _cosh(z: Parts) -> Parts:
    x, y = z
    sine, cosine, rest = _hyperbolic(z)
    real = ops.mul(ops.mul(cosine, ops.cos(y)), rest)
    imag = ops.mul(ops.mul(sine, ops.sin(y)), rest)
    lost = ops.not_(ops.is_finite(y))
    real = ops.select(ops.and_(lost, _has_size(x, np.inf)), full_like(x, np.inf), real)
    zero = ops.mul(_like_sign(full_like(x, 1), x), y)
    imag = ops.select(ops.eq(y, full_like(y, 0)), zero, imag)
    return Parts(real, ops.select(ops.and_(lost, ops.eq(x, full_like(x, 0))), x, imag))


def _tanh(z: Parts) -> Parts:
    """W. Kahan's formula, from the tangent of ``y`` and the hyperbolic sine of ``x``."""
    x, y = z
    one, size = full_like(x, 1), ops.abs(x)
    # Beyond the limit the real part rounds to one, and squares might overflow.
    limit = full_like(x, 11.0 if type_of(x).dtype == _F32 else 22.0)
    tangent, sine = ops.tan(y), ops.sinh(ops.clamp(ops.neg(limit), x, limit))
    square = ops.mul(sine, sine)
    slope = ops.add(one, ops.mul(tangent, tangent))
    cosine = ops.sqrt(ops.add(one, square))
    below = ops.add(one, ops.mul(slope, square))
    real = ops.div(ops.mul(slope, ops.mul(cosine, sine)), below)
    imag = ops.div(tangent, below)
    # The double of y may overflow, so its sine is twice the product of sin(y) and cos(y).
    decay = ops.exp(ops.mul(full_like(x, -2), size))
    turn = ops.mul(ops.sin(y), ops.cos(y))
    rest = ops.mul(ops.mul(full_like(x, 4), turn), decay)
    is_lost, is_infinite = ops.not_(ops.is_finite(y)), _has_size(x, np.inf)
    rest = ops.select(ops.and_(is_lost, is_infinite), _like_sign(full_like(x, 0), y), rest)
    is_far = ops.gt(size, limit)
    is_unknown = ops.and_(is_lost, ops.not_(is_infinite))
    limit_of_real = ops.select(is_unknown, full_like(x, np.nan), _like_sign(one, x))
    real = ops.select(is_far, limit_of_real, _unless_zero(real, x))
    return Parts(real, ops.select(is_far, rest, _unless_zero(imag, y)))


def _through_turn(function: _Function) -> _Function:
    """A circular function from the hyperbolic one: ``f(z) = -i g(i z)``."""
    return lambda z: _turned_back(function(_turned(z)))


# ------------------------------------------------------------------------ logarithms, roots, powers


def _larger_and_ratio(z: Parts) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The absolute values of the parts, ordered, and the smaller one over the larger one."""
    x, y = ops.abs(z.real), ops.abs(z.imag)
    infinity = full_like(x, np.inf)
    is_infinite = ops.or_(ops.eq(x, infinity), ops.eq(y, infinity))
    a, b = ops.select(is_infinite, infinity, ops.max(x, y)), ops.min(x, y)
    has_none = ops.or_(is_infinite, ops.eq(a, full_like(a, 0)))
    return a, b, ops.select(has_none, full_like(a, 0), ops.div(b, a))


def _log(z: Parts) -> Parts:
    """``log(a**2 + b**2) / 2`` by ``log1p`` where the absolute value is near one."""
    a, b, ratio = _larger_and_ratio(z)
    one, half, zero = full_like(a, 1), full_like(a, 0.5), full_like(a, 0)
    is_near = ops.and_(ops.gt(a, half), ops.lt(a, full_like(a, 2)))
    grown = ops.add(ops.mul(ops.sub(a, one), ops.add(a, one)), ops.mul(b, b))
    rest = ops.mul(half, ops.log1p(ops.select(is_near, grown, ops.mul(ratio, ratio))))
    real = ops.add(ops.select(is_near, zero, ops.log(a)), rest)
    return Parts(real, ops.atan2(z.imag, z.real))


def _log_of_size_in_f64(real: ir.Value, imaginary: ir.Value) -> ir.Value:
    """The logarithm of ``|1 + z|`` for the f32 parts of ``z``."""
    real, imaginary = convert(real, _F64), convert(imaginary, _F64)
    # The products in |1 + z|² - 1 are exact in f64.
    two = full_like(real, 2)
    excess = ops.add(ops.mul(real, ops.add(real, two)), ops.mul(imaginary, imaginary))
    near = ops.log1p(ops.max(excess, full_like(real, -1)))
    # Near -1, take |1 + z|² itself, whose terms do not cancel there.
    shifted = ops.add(real, full_like(real, 1))
    square = ops.add(ops.mul(shifted, shifted), ops.mul(imaginary, imaginary))
    is_small = ops.lt(excess, full_like(real, -0.5))
    return ops.mul(full_like(real, 0.5), ops.select(is_small, ops.log(square), near))


def _log1p_of_f32(log_of_size: LogOfSize) -> _Function:
    def log1p(z: Parts) -> Parts:
        real = convert(log_of_size(*z), _F32)
        infinity = full_like(real, np.inf)
        is_infinite = ops.or_(*(_has_size(p, np.inf) for p in z))
        angle = ops.atan2(z.imag, ops.add(z.real, full_like(z.real, 1)))
        return Parts(ops.select(is_infinite, infinity, real), angle)

    return log1p


def _log1p(z: Parts) -> Parts:
    x, y = z
    is_near = ops.lt(ops.add(ops.abs(x), ops.abs(y)), full_like(x, 0.5))
    grown = ops.add(ops.mul(x, ops.add(x, full_like(x, 2))), ops.mul(y, y))
    small = ops.select(is_near, grown, full_like(grown, 0))
    near = ops.mul(full_like(x, 0.5), ops.log1p(small))
    far = _log(Parts(ops.add(x, full_like(x, 1)), y))
    return Parts(ops.select(is_near, near, far.real), far.imag)


def _sqrt(z: Parts) -> Parts:
    """One part is ``sqrt((|x| + |z|) / 2)``, and the other is ``y`` over twice that."""
    a, _, ratio = _larger_and_ratio(z)
    zero, one, half = (full_like(a, n) for n in (0, 1, 0.5))
    exponent = 96 if type_of(a).dtype == _F32 else 960
    # Numbers are scaled by powers of four where the sum overflows or squares underflow.
    is_large = ops.gt(a, full_like(a, 2.0**exponent))
    is_small = ops.lt(a, full_like(a, 2.0**-exponent))

    def either(large: float, small: float) -> ir.Value:
        chosen_small = ops.select(is_small, full_like(a, small), one)
        return ops.select(is_large, full_like(a, large), chosen_small)

    scale = either(2.0**-4, 2.0 ** (exponent // 2))
    x, y, a = (ops.mul(ops.abs(p), scale) for p in (*z, a))
    size = ops.mul(a, ops.sqrt(ops.add(one, ops.mul(ratio, ratio))))
    root = ops.sqrt(ops.mul(half, ops.add(x, size)))
    other = ops.select(ops.eq(root, zero), zero, ops.mul(half, ops.div(y, root)))
    is_right = ops.ge(z.real, zero)
    back = either(2.0**2, 2.0 ** -(exponent // 4))
    real = ops.mul(ops.select(is_right, root, other), back)
    imag = ops.mul(ops.select(is_right, other, root), back)
    reaches = _has_size(z.imag, np.inf)
    real, imag = (ops.select(reaches, full_like(p, np.inf), p) for p in (real, imag))
    return Parts(real, _like_sign(imag, z.imag))


def _rsqrt(z: Parts) -> Parts:
    return divide(full_parts(z, 1), _sqrt(z))


def _pow(z: Parts, w: Parts) -> Parts:
    zero = full_parts(z, 0)
    power = _exp(multiply(w, _log(z)))
    grows = ops.gt(w.real, full_like(w.real, 0))
    of_zero = chosen(grows, zero, full_parts(z, complex(np.nan, np.nan)))
    # These hold for every z, infinite and nan ones too.
    one = full_parts(z, 1)
    power = chosen(equal(z, zero), of_zero, chosen(equal(w, one), z, power))
    return chosen(equal(w, zero), one, power)


# ------------------------------------------------------ algorithms that are shared with the ops


class _OnParts:
    """The ops for algorithms that are written over a namespace: see `expansion.emitted`."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> Callable[..., Any]:
        of_real, of_parts = getattr(ops, name), self._functions.get(name)

        def emit(*operands: Any, **params: Any) -> Any:
            has_parts = any(isinstance(x, Parts) for x in operands)
            if has_parts or name == "complex":
                assert of_parts is not None, name
                return of_parts(*operands, **params)
            return of_real(*operands, **params)

        return emit

    @staticmethod
    def full_like(x: Any, value: complex) -> Any:
        """A constant of the type of ``x``."""
        return full_parts(x, value) if isinstance(x, Parts) else full_like(x, value)


_on_parts: Any = _OnParts(
    {
        "complex": Parts,
        "real": lambda z: z.real,
        "imag": lambda z: z.imag,
        "add": add,
        "sub": subtract,
        "mul": multiply,
        "div": divide,
        "max": larger,
        "exp": _exp,
        "log": _log,
        "log1p": _log1p,
        "sqrt": _sqrt,
        "select": chosen,
    }
)


def _inverse(algorithm: Callable[..., tuple[ir.Value, ir.Value]], wide: bool) -> _Function:
    """An inverse function; if ``wide``, that of f32 is computed in f64."""

    def function(z: Parts) -> Parts:
        dtype = type_of(z.real).dtype
        inner = (convert(p, _F64 if wide else dtype) for p in z)
        return Parts(*(convert(p, dtype) for p in algorithm(_on_parts, *inner)))

    return function


_INVERSES = {
    "asin": hyperbolic.complex_asin,
    "acos": hyperbolic.complex_acos,
    "atan": complex_atan,
    "asinh": hyperbolic.complex_asinh,
    "acosh": hyperbolic.complex_acosh,
    "atanh": hyperbolic.complex_atanh,
}


def add_exponentials(x: Parts, y: Parts) -> Parts:
    """``log(exp(x) + exp(y))``."""
    found: Parts = complex_logaddexp(_on_parts, x, y)
    return found


def functions(log_of_size: LogOfSize | None = None) -> dict[str, Callable[..., Parts]]:
    """The functions by op name.

    Args:
      log_of_size: computes the logarithm of ``|1 + z|`` on a target without 64-bit floats; None for
        other targets.
    """
    f64 = log_of_size is None
    log1p_of_f32 = _log1p_of_f32(log_of_size or _log_of_size_in_f64)

    def log1p(z: Parts) -> Parts:
        return (log1p_of_f32 if type_of(z.real).dtype == _F32 else _log1p)(z)

    return {
        "exp": _exp,
        "exp2": _exp2,
        "expm1": _expm1,
        "logistic": _logistic,
        "sinh": _sinh,
        "cosh": _cosh,
        "tanh": _tanh,
        "sin": _through_turn(_sinh),
        "cos": lambda z: _cosh(_turned(z)),
        "tan": _through_turn(_tanh),
        "log": _log,
        "log1p": log1p,
        "sqrt": _sqrt,
        "rsqrt": _rsqrt,
        "pow": _pow,
        "atan2": lambda y, x: complex_atan2(_on_parts, y, x),
        **{name: _inverse(algorithm, f64) for name, algorithm in _INVERSES.items()},
    }
