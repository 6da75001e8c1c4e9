"""The exact values: from f64 for the narrower formats, from mpmath with 160 bits for f64.

A reference value is the sum of two f64, so that it has more digits than the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from mpmath import mp
from scipy import special

__all__ = ["COMPLEX", "EXACT", "Exact", "complex_reference", "reference"]

_BITS = 160


@dataclass(frozen=True)
class Exact:
    """Two implementations of a function.

    Attributes:
      wide: a function of f64 arrays, which decides where the result is infinite or nan.
      precise: a function of mpmath numbers.
      few: whether ``wide`` is too inaccurate near its zeros even for f32, so that the precise
        function is used for f32 as well as for f64.
      typed: whether ``wide`` is exact on operands in their own format.
    """

    wide: Callable[..., np.ndarray]
    precise: Callable[..., Any]
    few: bool = False
    typed: bool = False


def reference(exact: Exact, operands: list[np.ndarray], dtype: np.dtype) -> list[np.ndarray]:
    """The values of a function as the sums of two arrays of f64."""
    if exact.typed:
        high = np.asarray(exact.wide(*operands)).astype(np.float64)
        return [high, np.zeros_like(high)]
    with np.errstate(all="ignore"):
        x = [np.asarray(o).astype(np.float64) for o in operands]
        high = np.asarray(exact.wide(*x), np.float64)
    low = np.zeros_like(high)
    if dtype.itemsize == 2 or (dtype.itemsize == 4 and not exact.few):
        return [high, low]
    plain = np.isfinite(high) & np.logical_and.reduce([np.isfinite(o) & (o != 0) for o in x])
    with mp.workprec(_BITS):
        for i in np.flatnonzero(plain):
            try:
                value = mpmath.mpf(exact.precise(*(mpmath.mpf(float(o[i])) for o in x)))
            except (ArithmeticError, ValueError, mpmath.libmp.NoConvergence):
                continue
            if value == 0 or not mpmath.isfinite(value):
                continue
            high[i] = float(value)
            low[i] = float(value - mpmath.mpf(high[i])) if np.isfinite(high[i]) else 0.0
    return [high, low]


def complex_reference(
    precise: Callable[..., Any], operands: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The values of a function of complex numbers as the sums of two arrays of complex128."""
    wide = [np.asarray(o).astype(np.complex128) for o in operands]
    high, low = (np.zeros(wide[0].shape, np.complex128) for _ in range(2))
    with mp.workprec(_BITS):
        for i in range(high.size):
            value = mpmath.mpc(precise(*(mpmath.mpc(complex(o[i])) for o in wide)))
            high[i] = complex(value)
            low[i] = complex(value - mpmath.mpc(high[i])) if np.isfinite(high[i]) else 0
    return [high, low]


def _sinc(x: np.ndarray) -> np.ndarray:
    x = np.where(np.isinf(x), 1.0, x)  # The limit is 0, as at 1.
    rest = x - np.round(x)
    sign = np.where(np.round(x) % 2 == 0, 1.0, -1.0)
    return np.where(x == 0, 1.0, sign * np.sin(np.pi * rest) / (np.pi * np.where(x == 0, 1.0, x)))


def _logistic(x: np.ndarray) -> np.ndarray:
    return special.expit(x)


def _signed(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Restore the sign of zero, which SciPy's odd functions drop."""
    return lambda x: np.where(x == 0, x, function(x))


def _lgamma(x: np.ndarray) -> np.ndarray:
    tiny = (np.abs(x) < 1e-300) & (x != 0)
    value = np.where(tiny, -np.log(np.abs(x)), special.gammaln(x))
    return np.where(x == -np.inf, np.inf, value)


def _power(x: Any, y: Any) -> Any:
    if x < 0:
        size = mp.power(-x, y)
        return -size if int(y) % 2 else size
    return mp.power(x, y)


def _cbrt(x: Any) -> Any:
    return mp.cbrt(x) if x >= 0 else -mp.cbrt(-x)


def _log_sum(x: Any, y: Any, base: Any) -> Any:
    high, low = max(x, y), min(x, y)
    return high + mp.log1p(mp.power(base, low - high)) / mp.log(base)


def _zeta(x: Any, q: Any) -> Any:
    # The precision of mpmath's sum is absolute, and values are as small as q**-x.
    with mp.workprec(_BITS + 8 * int(abs(x) + 1)):
        return mp.zeta(x, q)


def _next(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # For zeros of different signs, NumPy returns the first in f16 and the second in other formats.
    return np.where(x == y, y, np.nextafter(x, y))


def _exact_lgamma(x: Any) -> Any:
    return mp.re(mp.loggamma(x))


def _erfinv(x: Any) -> Any:
    with mp.workprec(80):
        # Newton steps that start from SciPy's value.
        y = mpmath.mpf(float(special.erfinv(float(x))))
    for _ in range(3):
        delta = mp.erf(y) - x if abs(x) < 0.5 else (1 - abs(x)) - mp.erfc(abs(y))
        sign = 1 if abs(x) < 0.5 or x > 0 else -1
        y = y - sign * delta * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
    return y


def _scaled_bessel(order: int) -> Callable[[Any], Any]:
    def value(x: Any) -> Any:
        if abs(x) < 1e4:
            return mp.besseli(order, x) * mp.exp(-abs(x))
        # Hankel's series.
        size, term, total = abs(x), mpmath.mpf(1), mpmath.mpf(1)
        for k in range(1, 20):
            term *= -(4 * order * order - (2 * k - 1) ** 2) / (8 * k * size)
            total += term
        return mp.sign(x) ** order * total / mp.sqrt(2 * mp.pi * size)

    return value


def _ndtr(x: Any) -> Any:
    return mpmath.mpf(0) if x < -1e5 else mp.erfc(-x / mp.sqrt(2)) / 2


def _log_ndtr(x: Any) -> Any:
    if x > 0:
        return mp.log1p(-_ndtr(-x))
    if x > -1e3:
        return mp.log(_ndtr(x))
    # The asymptotic series.
    total = term = mpmath.mpf(1)
    for k in range(1, 12):
        term *= -(2 * k - 1) / (x * x)
        total += term
    return -x * x / 2 - mp.log(-x) - mp.log(2 * mp.pi) / 2 + mp.log(total)


def _erfc(x: Any) -> Any:
    return 2 if x < -40 else 0 if x > 60 else mp.erfc(x)


EXACT: dict[str, Exact] = {
    "exp": Exact(np.exp, mp.exp),
    "exp2": Exact(np.exp2, lambda x: mp.power(2, x)),
    "expm1": Exact(np.expm1, mp.expm1),
    "log": Exact(np.log, mp.log),
    "log2": Exact(np.log2, lambda x: mp.log(x) / mp.log(2)),
    "log10": Exact(np.log10, lambda x: mp.log(x) / mp.log(10)),
    "log1p": Exact(np.log1p, mp.log1p),
    "logistic": Exact(_logistic, lambda x: 1 / (1 + mp.exp(-x))),
    "sqrt": Exact(np.sqrt, mp.sqrt),
    "rsqrt": Exact(lambda x: 1 / np.sqrt(x), lambda x: 1 / mp.sqrt(x)),
    "cbrt": Exact(np.cbrt, _cbrt),
    "sin": Exact(np.sin, mp.sin),
    "cos": Exact(np.cos, mp.cos),
    "tan": Exact(np.tan, mp.tan),
    "asin": Exact(np.arcsin, mp.asin),
    "acos": Exact(np.arccos, mp.acos),
    "atan": Exact(np.arctan, mp.atan),
    "sinh": Exact(np.sinh, mp.sinh),
    "cosh": Exact(np.cosh, mp.cosh),
    "tanh": Exact(np.tanh, mp.tanh),
    "asinh": Exact(np.arcsinh, mp.asinh),
    "acosh": Exact(np.arccosh, mp.acosh),
    "atanh": Exact(np.arctanh, mp.atanh),
    "erf": Exact(special.erf, mp.erf),
    "erfc": Exact(special.erfc, _erfc),
    "ndtr": Exact(special.ndtr, _ndtr),
    "log_ndtr": Exact(special.log_ndtr, _log_ndtr, few=True),
    "erf_inv": Exact(_signed(special.erfinv), _erfinv),
    "lgamma": Exact(_lgamma, _exact_lgamma, few=True),
    "digamma": Exact(special.digamma, mp.digamma, few=True),
    "bessel_i0e": Exact(special.i0e, _scaled_bessel(0)),
    "bessel_i1e": Exact(_signed(special.i1e), _scaled_bessel(1)),
    "sinc": Exact(_sinc, lambda x: mpmath.mpf(0) if mpmath.isinf(x) else mp.sincpi(x)),
    "atan2": Exact(np.arctan2, mp.atan2),
    "pow": Exact(np.power, _power),
    "hypot": Exact(np.hypot, mp.hypot),
    "logaddexp": Exact(np.logaddexp, lambda x, y: _log_sum(x, y, mp.e), few=True),
    "logaddexp2": Exact(np.logaddexp2, lambda x, y: _log_sum(x, y, mpmath.mpf(2)), few=True),
    "div": Exact(np.divide, lambda x, y: x / y),
    "rem": Exact(np.fmod, lambda x, y: math.copysign(1, x) * mp.fmod(abs(x), abs(y))),
    "zeta": Exact(special.zeta, _zeta),
    "polygamma": Exact(
        lambda m, x: special.polygamma(m.astype(int), x), lambda m, x: mp.psi(int(m), x)
    ),
    "igamma": Exact(special.gammainc, lambda a, x: mp.gammainc(a, 0, x, regularized=True)),
    "igammac": Exact(special.gammaincc, lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True)),
    "betainc": Exact(special.betainc, lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True)),
    "nextafter": Exact(_next, lambda x, y: x, typed=True),
    "integer_pow": Exact(lambda x: np.power(x, 3), lambda x: x * x * x),
}

# The exact functions of complex numbers, by the names of the functions that they judge.
COMPLEX: dict[str, Callable[..., Any]] = {
    "exp": mp.exp,
    "expm1": mp.expm1,
    "log": mp.log,
    "log1p": mp.log1p,
    "logistic": lambda z: 1 / (1 + mp.exp(-z)),
    "sqrt": mp.sqrt,
    "rsqrt": lambda z: 1 / mp.sqrt(z),
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "asin": mp.asin,
    "acos": mp.acos,
    "atan": mp.atan,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "asinh": mp.asinh,
    "acosh": mp.acosh,
    "atanh": mp.atanh,
    "mul": lambda z, w: z * w,
    "div": lambda z, w: z / w,
    "pow": mp.power,
}
