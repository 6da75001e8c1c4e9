"""The table of functions: what they are measured at, and how far off they may be."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gnomon.tools.accuracy.samples import multiples

__all__ = ["DTYPES", "FUNCTIONS", "Function"]

DTYPES = ("float16", "bfloat16", "float32", "float64")
_QUARTERS = (*multiples(math.pi / 2), 16367173 * 2.0**72, 6381956970095103 * 2.0**797)


@dataclass(frozen=True)
class Function:
    """An elementwise function of real numbers.

    Attributes:
        name: where the library has it: ``lax.sin``.
        exact: its name among the exact functions.
        intervals: where half of the points are taken.
        near: centers of further points.
        pairs: of a function of two numbers, the kind of pairs.
    """

    name: str
    exact: str = ""
    intervals: tuple[tuple[float, float], ...] = ()
    near: tuple[float, ...] = ()
    pairs: str = ""
    params: dict[str, int] = field(default_factory=dict)

    @property
    def exact_name(self) -> str:
        """The name of its exact function."""
        return self.exact or self.name.rpartition(".")[2]


_EXP = ((-104.0, 89.0), (-746.0, 710.0))
FUNCTIONS = (
    Function("lax.exp", intervals=_EXP, near=multiples(math.log(2) / 2)),
    Function("lax.exp2", intervals=((-150.0, 129.0), (-1076.0, 1025.0)), near=multiples(0.5)),
    Function("lax.expm1", intervals=(*_EXP, (-1.0, 1.0)), near=multiples(math.log(2) / 2)),
    Function("lax.log", intervals=((0.5, 2.0),), near=(1.0, math.sqrt(0.5), math.sqrt(2))),
    Function("numpy.log2", intervals=((0.5, 2.0),), near=(1.0, math.sqrt(0.5), 2.0, 8.0)),
    Function("numpy.log10", intervals=((0.5, 2.0),), near=(1.0, math.sqrt(0.5), 10.0, 1e3)),
    Function("lax.log1p", intervals=((-0.9999, 2.0),), near=(0.41421356, 0.29289322, 1.0)),
    Function("lax.logistic", intervals=((-104.0, 20.0), (-746.0, 40.0))),
    Function("lax.sqrt", intervals=((0.0, 4.0),)),
    Function("lax.rsqrt", intervals=((0.0, 4.0),)),
    Function("lax.cbrt", intervals=((-8.0, 8.0),)),
    Function("lax.sin", intervals=((-10.0, 10.0), (-1e5, 1e5)), near=_QUARTERS),
    Function("lax.cos", intervals=((-10.0, 10.0), (-1e5, 1e5)), near=_QUARTERS),
    Function("lax.tan", intervals=((-10.0, 10.0), (-1e5, 1e5)), near=_QUARTERS),
    Function("lax.asin", intervals=((-1.0, 1.0),), near=(0.5, 1.0, math.sqrt(0.5))),
    Function("lax.acos", intervals=((-1.0, 1.0),), near=(0.5, 1.0, math.sqrt(0.5))),
    Function("lax.atan", intervals=((-4.0, 4.0),), near=(math.sqrt(2) - 1, 1.0, 2.414)),
    Function("lax.sinh", intervals=((-90.0, 90.0), (-711.0, 711.0), (-2.0, 2.0))),
    Function("lax.cosh", intervals=((-90.0, 90.0), (-711.0, 711.0), (-2.0, 2.0))),
    Function("lax.tanh", intervals=((-10.0, 10.0), (-1.0, 1.0)), near=(0.5, 1.0, 9.0, 20.0)),
    Function("lax.asinh", intervals=((-4.0, 4.0),), near=(1.0,)),
    Function("lax.acosh", intervals=((1.0, 4.0), (1.0, 1.01)), near=(1.0,)),
    Function("lax.atanh", intervals=((-1.0, 1.0),), near=(0.5, 1.0)),
    Function("lax.erf", intervals=((-6.0, 6.0),), near=(0.5, 1.0)),
    Function("lax.erfc", intervals=((-6.0, 11.0), (-6.0, 28.0)), near=(0.5, 1.0)),
    Function("lax.erf_inv", intervals=((-1.0, 1.0),), near=(1.0,)),
    Function("lax.lgamma", intervals=((-10.0, 10.0), (-100.0, 100.0)), near=(1.0, 2.0)),
    Function("lax.digamma", intervals=((-10.0, 10.0), (-100.0, 100.0)), near=(1.4616321449683623,)),
    Function("lax.bessel_i0e", intervals=((-20.0, 20.0),), near=(8.0,)),
    Function("lax.bessel_i1e", intervals=((-20.0, 20.0),), near=(8.0,)),
    Function("numpy.sinc", intervals=((-20.0, 20.0),), near=multiples(1.0)),
    Function("lax.atan2", pairs="anywhere"),
    Function("lax.pow", pairs="powers"),
    Function("numpy.hypot", pairs="anywhere"),
    Function("numpy.logaddexp", pairs="log sums"),
    Function("numpy.logaddexp2", pairs="log sums"),
    Function("lax.div", pairs="anywhere"),
    Function("lax.rem", pairs="anywhere"),
)
