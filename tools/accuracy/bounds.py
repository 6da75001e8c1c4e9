"""The table of functions with their sample points and error bounds.

The bounds are defined only here: the page, the measurement and the tests of the ops use them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gnomon.tools.accuracy.samples import multiples

__all__ = ["BOUND", "COMPLEX_DTYPES", "DTYPES", "FUNCTIONS", "WAYS", "Function", "bound_of_op"]

DTYPES = ("float16", "bfloat16", "float32", "float64")
COMPLEX_DTYPES = ("complex64", "complex128")

# The ways in which a function is computed, with their description in the page.
WAYS: Mapping[str, str] = {
    "eager": "the evaluator, which computes with NumPy",
    "cpu": "compiled for the processor",
    "no library": "the form for processors without a math library",
    "no f64": "the form for targets without 64-bit floats",
}

# The error bound in units in the last place, except for functions with separate bounds.
BOUND = 2.0

_QUARTERS = (*multiples(math.pi / 2), 16367173 * 2.0**72, 6381956970095103 * 2.0**797)
_ZEROS_OF_LGAMMA = (-2.4570247382208006, -2.7476826467274127, -3.143580888349981)
_ZEROS_OF_DIGAMMA = (1.4616321449683623, -0.5040830082644554, -1.5734984731623904)


@dataclass(frozen=True)
class Function:
    """An elementwise function of real or complex numbers.

    Attributes:
      name: its qualified name in the library: ``lax.sin``.
      exact: its name among the exact functions, if that is different.
      intervals: the intervals of interest, see `samples.numbers`.
      near: centers of further points.
      pairs: the kind of operands, for a function of several numbers.
      own: exceptions to `BOUND`, by dtype, or by dtype and way: ``float64``, ``float32 no f64``.
      reason: the reason for the exceptions.
      scale: the magnitude at which units are counted if the result is smaller: "operands" for
        the largest operand, or "one below zero" for one at negative operands. For complex
        numbers, units are counted at the absolute value.
      absent: dtypes and ways in which the function does not exist: ``float64 no library``.
      costly: whether few points are used, because exact values take long to compute.
      dtypes: the dtypes in which it is measured.
    """

    name: str
    exact: str = ""
    intervals: tuple[tuple[float, float], ...] = ()
    near: tuple[complex, ...] = ()
    pairs: str = ""
    own: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    scale: str = ""
    absent: tuple[str, ...] = ()
    costly: bool = False
    dtypes: tuple[str, ...] = DTYPES

    @property
    def short_name(self) -> str:
        """The name without the module."""
        return self.name.rpartition(".")[2]

    @property
    def exact_name(self) -> str:
        """The name of its exact function."""
        return self.exact or self.short_name

    @property
    def is_complex(self) -> bool:
        """Whether it is measured for complex numbers."""
        return self.dtypes == COMPLEX_DTYPES

    def bound(self, dtype: str, way: str) -> float:
        """The bound on the error of a result in units in the last place."""
        return self.own.get(f"{dtype} {way}", self.own.get(dtype, BOUND))

    def ways(self, dtype: str) -> tuple[str, ...]:
        """The ways in which it is computed in a dtype."""
        absent = (*self.absent, "float64 no f64", "complex128 no f64", "complex128 no library")
        return tuple(w for w in WAYS if f"{dtype} {w}" not in absent)


def _same(bound: float, *keys: str) -> dict[str, float]:
    return dict.fromkeys(keys, bound)


_EXP = ((-104.0, 89.0), (-746.0, 710.0))
_SUMS = "the sum of two numbers that cancel has the digits of the larger one"
_ZEROS = "its zeros at negative operands are differences of two large values"
_LIBRARY = (
    "the C library loses digits where a number of 309 digits is next to a multiple of pi/2; "
    "elsewhere it is within one unit"
)
_PARTS = "each part is made of several functions and products of real numbers"
# Functions of complex numbers, and the centers around which they lose digits.
_COMPLEX: Mapping[str, tuple[complex, ...]] = {
    "exp": (0,),
    "expm1": (0,),
    "log": (1, -1, 1j),
    "log1p": (0, -1, -2),
    "logistic": (0,),
    "sqrt": (0, -1),
    "rsqrt": (1, -1),
    "sin": (0, math.pi),
    "cos": (math.pi / 2,),
    "tan": (0, math.pi / 2),
    "asin": (0, 1, -1),
    "acos": (0, 1, -1),
    "atan": (0, 1j, -1j),
    "sinh": (0, 1j * math.pi),
    "cosh": (1j * math.pi / 2,),
    "tanh": (0, 1j * math.pi / 2),
    "asinh": (0, 1j, -1j),
    "acosh": (1, -1),
    "atanh": (0, 1, -1),
}

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
    Function(
        "lax.cos",
        intervals=((-10.0, 10.0), (-1e5, 1e5)),
        near=_QUARTERS,
        own={"float64 eager": 8.0, "float64 cpu": 8.0},
        reason=_LIBRARY,
    ),
    Function(
        "lax.tan",
        intervals=((-10.0, 10.0), (-1e5, 1e5)),
        near=_QUARTERS,
        # 14.4 where NumPy has no vector code of its own, as on processors without AVX-512.
        own={"float64 eager": 16.0, "float64 cpu": 16.0},
        reason=_LIBRARY,
    ),
    Function("lax.asin", intervals=((-1.0, 1.0),), near=(0.5, 1.0, math.sqrt(0.5))),
    Function("lax.acos", intervals=((-1.0, 1.0),), near=(0.5, 1.0, math.sqrt(0.5))),
    Function("lax.atan", intervals=((-4.0, 4.0),), near=(math.sqrt(2) - 1, 1.0, 2.414)),
    Function("lax.sinh", intervals=((-90.0, 90.0), (-711.0, 711.0), (-2.0, 2.0)), near=(1.0,)),
    Function("lax.cosh", intervals=((-90.0, 90.0), (-711.0, 711.0), (-2.0, 2.0))),
    Function("lax.tanh", intervals=((-10.0, 10.0), (-1.0, 1.0)), near=(0.6, 1.0, 9.0, 19.0)),
    Function("lax.asinh", intervals=((-4.0, 4.0),), near=(1.0,)),
    Function("lax.acosh", intervals=((1.0, 4.0), (1.0, 1.01)), near=(1.0, 2.0)),
    Function("lax.atanh", intervals=((-1.0, 1.0),), near=(0.5, 1.0)),
    Function(
        "numpy.sinc",
        intervals=((-20.0, 20.0),),
        near=multiples(1.0),
    ),
    Function("lax.erf", intervals=((-6.0, 6.0),), near=(0.5, 1.0)),
    Function(
        "lax.erfc",
        intervals=((-6.0, 11.0), (-6.0, 28.0)),
        near=(0.5, 1.0),
    ),
    Function(
        "scipy.special.ndtr",
        intervals=((-14.0, 6.0), (-38.0, 9.0)),
        near=(1.0,),
        dtypes=("float32", "float64"),
    ),
    Function(
        "scipy.special.log_ndtr",
        intervals=((-14.0, 13.0), (-40.0, 37.0)),
        near=(1.0, 4.8, 4.914, 8.0, 10.0, 20.0),
        dtypes=("float32", "float64"),
    ),
    Function(
        "lax.erf_inv",
        intervals=((-1.0, 1.0),),
        near=(1.0,),
    ),
    Function(
        "lax.lgamma",
        intervals=((-10.0, 10.0), (-100.0, 100.0)),
        near=(1.0, 2.0, *_ZEROS_OF_LGAMMA),
        reason=_ZEROS,
        scale="one below zero",
        costly=True,
    ),
    Function(
        "lax.digamma",
        intervals=((-10.0, 10.0), (-100.0, 100.0)),
        near=(*_ZEROS_OF_DIGAMMA, 0.5),
        reason=_ZEROS,
        scale="one below zero",
        costly=True,
    ),
    Function(
        "lax.bessel_i0e",
        intervals=((-20.0, 20.0),),
        near=(8.0,),
        costly=True,
    ),
    Function(
        "lax.bessel_i1e",
        intervals=((-20.0, 20.0),),
        near=(8.0,),
        costly=True,
    ),
    Function("lax.atan2", pairs="anywhere"),
    Function("lax.pow", pairs="powers"),
    Function("numpy.hypot", pairs="anywhere"),
    Function("numpy.logaddexp", pairs="log sums", reason=_SUMS, scale="operands"),
    Function("numpy.logaddexp2", pairs="log sums", reason=_SUMS, scale="operands"),
    Function("lax.div", pairs="anywhere"),
    Function("lax.rem", pairs="anywhere", absent=("float64 no library",)),
    Function("lax.nextafter", pairs="anywhere"),
    Function(
        "lax.zeta",
        pairs="zeta",
        costly=True,
    ),
    Function(
        "lax.polygamma",
        pairs="polygamma",
        costly=True,
    ),
    Function("lax.igamma", pairs="gamma", costly=True),
    Function("lax.igammac", pairs="gamma", costly=True),
    Function("lax.betainc", pairs="beta", costly=True),
    *(
        Function(
            f"lax.{name}",
            near=near,
            own=_same(6.0, *COMPLEX_DTYPES),
            reason=_PARTS,
            dtypes=COMPLEX_DTYPES,
            costly=True,
        )
        for name, near in _COMPLEX.items()
    ),
    Function("lax.mul", pairs="complex", dtypes=COMPLEX_DTYPES, costly=True),
    Function(
        "lax.div",
        pairs="complex",
        own=_same(4.0, *COMPLEX_DTYPES),
        reason="both parts are quotients of sums of products",
        dtypes=COMPLEX_DTYPES,
        costly=True,
    ),
    Function(
        "lax.pow",
        pairs="complex",
        own={"complex64": 360.0, "complex128": 1400.0},
        reason="the error of the exponent `w log(z)` counts as many times as that is large",
        dtypes=COMPLEX_DTYPES,
        costly=True,
    ),
)

_BY_OP = {f.short_name: f for f in FUNCTIONS if f.name.startswith("lax.") and not f.is_complex}


def bound_of_op(op: str, dtype: str) -> dict[str, float] | None:
    """The bounds of an op on real numbers in the ways that run here; None if it has no entry.

    Args:
      op: the op's name without ``gnomon.``.
      dtype: the name of the dtype.
    """
    function = _BY_OP.get(op)
    if function is None or dtype not in DTYPES:
        return None
    return {way: function.bound(dtype, way) for way in ("eager", "cpu")}
