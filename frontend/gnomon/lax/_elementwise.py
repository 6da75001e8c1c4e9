"""Elementwise functions: one op each, on operands of one dtype.

A simple function is a row of data: its name, its op, the accepted dtypes, a description.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any, Protocol

from gnomon._arrays.annotations import ArrayLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._arrays.extended import EQUALITIES, ExtendedArray
from gnomon._diagnostics.errors import GnomonTypeError
from gnomon._examples import example_section
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.dialects.types import BOOL, SIGNED, is_complex, is_integer
from gnomon.lax._accuracy import AccuracyMode, Tolerance, check_accuracy
from gnomon.lax._creation import convert_element_type
from gnomon.lax._operands import (
    ANY_DTYPE,
    BOOL_OR_INTEGER,
    COMPLEX_ONLY,
    FLOAT,
    FLOAT_OR_COMPLEX,
    INTEGERS,
    NUMBER,
    PARTS,
    REAL,
    Dtypes,
    accept,
    argument,
    constant_like,
    describe_dtypes,
    same_dtype,
    spread,
)

Unary = Callable[[ArrayLike], Array]
Binary = Callable[[ArrayLike, ArrayLike], Array]


class Transcendental(Protocol):
    """The type of a unary function with a parameter ``accuracy``."""

    def __call__(self, x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
        """Apply the function to each element."""
        ...


SIGNED_FLOAT_OR_COMPLEX: Dtypes = frozenset(SIGNED) | FLOAT_OR_COMPLEX
REAL_NUMBER: Dtypes = REAL - {BOOL}


def _document(function: Any, name: str, summary: str, arguments: str, dtypes: Dtypes) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

    Args:
{arguments}
    Returns:
      An array of the operands' shape.
    Raises:
      TypeError: the dtype is not one of {describe_dtypes(dtypes)}, or an argument is not an array.
    """ + example_section("lax", name)
    return function


def _unary(name: str, op: str, dtypes: Dtypes, summary: str) -> Unary:
    def function(x: ArrayLike) -> Array:
        x = argument(name, x)
        accept(name, x, dtypes)
        return bind(getattr(ops, op), x)

    arguments = f"      x: an array or scalar ({describe_dtypes(dtypes)})."
    return _document(function, name, summary, arguments, dtypes)


def _with_accuracy(name: str, summary: str, dtypes: Dtypes = FLOAT_OR_COMPLEX) -> Transcendental:
    """Add JAX's parameter ``accuracy`` to a transcendental function."""

    def function(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
        check_accuracy(name, accuracy)
        x = argument(name, x)
        accept(name, x, dtypes)
        return bind(getattr(ops, name), x)

    arguments = (
        f"      x: an array or scalar ({describe_dtypes(dtypes)}).\n"
        "      accuracy: None, a `lax.AccuracyMode` or a `lax.Tolerance`; it changes no result."
    )
    return _document(function, name, summary, arguments, dtypes)


def _of_two(name: str, op: str, dtypes: Dtypes, x: ArrayLike, y: ArrayLike) -> Array:
    x, y = argument(name, x, 0), argument(name, y, 1)
    if op in EQUALITIES and isinstance(x, ExtendedArray) and isinstance(y, ExtendedArray):
        if x.shape != y.shape:
            x, y = spread(name, (x, y))
        return EQUALITIES[op](x, y)
    accept(name, x, dtypes, 0)
    accept(name, y, dtypes, 1)
    if x.dtype != y.dtype:
        same_dtype(name, (x, y))
    if x.shape != y.shape:
        x, y = spread(name, (x, y))
    return bind(getattr(ops, op), x, y)


def _binary(name: str, op: str, dtypes: Dtypes, summary: str) -> Binary:
    def function(x: ArrayLike, y: ArrayLike) -> Array:
        return _of_two(name, op, dtypes, x, y)

    arguments = (
        f"      x, y: arrays or scalars of one dtype ({describe_dtypes(dtypes)}).\n"
        "        Shapes are equal, or one is a scalar's, or ranks are equal and sizes equal or one."
    )
    return _document(function, name, summary, arguments, dtypes)


# ------------------------------------------------------------------------------- unary arithmetic

neg = _unary("neg", "neg", NUMBER, "Elementwise negation :math:`-x`; unsigned integers wrap.")
abs = _unary(
    "abs",
    "abs",
    SIGNED_FLOAT_OR_COMPLEX,
    "Elementwise absolute value :math:`|x|`; of complex numbers the magnitude, a real number.",
)
sign = _unary(
    "sign",
    "sign",
    NUMBER,
    "Elementwise sign: -1, 0 or 1; x / |x| for complex numbers; zeros and nan stay themselves.",
)
floor = _unary("floor", "floor", FLOAT, "Elementwise largest integer not above x.")
ceil = _unary("ceil", "ceil", FLOAT, "Elementwise smallest integer not below x.")
is_finite = _unary("is_finite", "is_finite", FLOAT, "Elementwise test for neither inf nor nan.")
square = _unary("square", "square", NUMBER, "Elementwise square :math:`x^2`.")

# ---------------------------------------------------------------------- transcendental functions

exp = _with_accuracy("exp", "Elementwise exponential :math:`e^x`.")
exp2 = _with_accuracy("exp2", "Elementwise power of two :math:`2^x`.")
expm1 = _with_accuracy("expm1", "Elementwise :math:`e^x - 1`, accurate for small x.")
log = _with_accuracy("log", "Elementwise natural logarithm.")
log1p = _with_accuracy("log1p", "Elementwise :math:`\\log(1 + x)`, accurate for small x.")
logistic = _with_accuracy("logistic", "Elementwise logistic function :math:`1 / (1 + e^{-x})`.")
sqrt = _with_accuracy("sqrt", "Elementwise square root.")
rsqrt = _with_accuracy("rsqrt", "Elementwise reciprocal square root :math:`1 / \\sqrt{x}`.")
cbrt = _with_accuracy("cbrt", "Elementwise real cube root, also of negative numbers.", FLOAT)
sin = _with_accuracy("sin", "Elementwise sine.")
cos = _with_accuracy("cos", "Elementwise cosine.")
tan = _with_accuracy("tan", "Elementwise tangent.")
tanh = _with_accuracy("tanh", "Elementwise hyperbolic tangent.")
asin = _unary("asin", "asin", FLOAT_OR_COMPLEX, "Elementwise arc sine.")
acos = _unary("acos", "acos", FLOAT_OR_COMPLEX, "Elementwise arc cosine.")
atan = _unary("atan", "atan", FLOAT_OR_COMPLEX, "Elementwise arc tangent.")
sinh = _unary("sinh", "sinh", FLOAT_OR_COMPLEX, "Elementwise hyperbolic sine.")
cosh = _unary("cosh", "cosh", FLOAT_OR_COMPLEX, "Elementwise hyperbolic cosine.")
asinh = _unary("asinh", "asinh", FLOAT_OR_COMPLEX, "Elementwise inverse hyperbolic sine.")
acosh = _unary("acosh", "acosh", FLOAT_OR_COMPLEX, "Elementwise inverse hyperbolic cosine.")
atanh = _unary("atanh", "atanh", FLOAT_OR_COMPLEX, "Elementwise inverse hyperbolic tangent.")

# ------------------------------------------------------------------------------ special functions

erf = _unary("erf", "erf", FLOAT, "Elementwise error function.")
erfc = _unary("erfc", "erfc", FLOAT, "Elementwise complementary error function 1 - erf(x).")
erf_inv = _unary("erf_inv", "erf_inv", FLOAT, "Elementwise inverse of the error function.")
lgamma = _unary(
    "lgamma", "lgamma", FLOAT, "Elementwise logarithm of the absolute value of the gamma function."
)
digamma = _unary("digamma", "digamma", FLOAT, "Elementwise derivative of `lgamma`.")
bessel_i0e = _unary(
    "bessel_i0e", "bessel_i0e", FLOAT, "Elementwise Bessel function of order 0, times exp(-|x|)."
)
bessel_i1e = _unary(
    "bessel_i1e", "bessel_i1e", FLOAT, "Elementwise Bessel function of order 1, times exp(-|x|)."
)

# ------------------------------------------------------------------------------------ bits, parts

bitwise_not = _unary(
    "bitwise_not", "not", BOOL_OR_INTEGER, "Elementwise bitwise complement; logical on bool."
)
population_count = _unary(
    "population_count", "population_count", INTEGERS, "Elementwise number of bits that are set."
)
clz = _unary("clz", "clz", INTEGERS, "Elementwise number of leading zero bits.")
real = _unary("real", "real", COMPLEX_ONLY, "Elementwise real part of complex numbers.")
imag = _unary("imag", "imag", COMPLEX_ONLY, "Elementwise imaginary part of complex numbers.")

# ------------------------------------------------------------------------------- binary functions

add = _binary("add", "add", NUMBER, "Elementwise sum :math:`x + y`.")
sub = _binary("sub", "sub", NUMBER, "Elementwise difference :math:`x - y`.")


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    """Elementwise product :math:`x y`.

    Args:
      x, y: arrays or scalars of one dtype. Shapes are equal, or one is a scalar's, or ranks are
        equal and sizes are equal or one.
      out_dtype: the dtype of the product; the operands are converted to it first.
    Returns:
      An array of the operands' shape.
    Raises:
      TypeError: the dtypes are not equal, or bool, or an argument is not an array.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.mul(gnp.array([1, 2]), gnp.array([10, 20]))
      Array([10, 40], dtype=int32)
    """
    if out_dtype is not None:
        x, y = argument("mul", x, 0), argument("mul", y, 1)
        same_dtype("mul", (x, y))
        x, y = convert_element_type(x, out_dtype), convert_element_type(y, out_dtype)
    return _of_two("mul", "mul", NUMBER, x, y)


div = _binary(
    "div",
    "div",
    NUMBER,
    "Elementwise quotient :math:`x / y`; integers round toward zero, and x / 0 is -1.",
)
rem = _binary(
    "rem",
    "rem",
    REAL_NUMBER,
    "Elementwise remainder of the division rounded to zero: it has the sign of x.",
)
max = _binary(
    "max", "max", ANY_DTYPE, "Elementwise maximum; nan where x or y is; complex by real part first."
)
min = _binary(
    "min", "min", ANY_DTYPE, "Elementwise minimum; nan where x or y is; complex by real part first."
)
atan2 = _binary(
    "atan2",
    "atan2",
    FLOAT_OR_COMPLEX,
    "Elementwise angle of the point (y, x), in [-pi, pi]; of complex numbers "
    "-i log((x + iy) / sqrt(x² + y²)).",
)
complex = _binary("complex", "complex", PARTS, "Elementwise complex number x + iy.")
bitwise_and = _binary("bitwise_and", "and", BOOL_OR_INTEGER, "Elementwise bitwise and.")
bitwise_or = _binary("bitwise_or", "or", BOOL_OR_INTEGER, "Elementwise bitwise or.")
bitwise_xor = _binary("bitwise_xor", "xor", BOOL_OR_INTEGER, "Elementwise bitwise exclusive or.")
shift_left = _binary(
    "shift_left", "shift_left", INTEGERS, "Elementwise shift to the left; 0 from the width on."
)
shift_right_arithmetic = _binary(
    "shift_right_arithmetic",
    "shift_right_arithmetic",
    INTEGERS,
    "Elementwise shift to the right that copies the sign bit.",
)
shift_right_logical = _binary(
    "shift_right_logical",
    "shift_right_logical",
    INTEGERS,
    "Elementwise shift to the right that fills with zeros.",
)


# Functions whose parameters have special names.


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The next representable number after ``x1`` in the direction of ``x2``, elementwise.

    Args:
      x1, x2: arrays or scalars of one floating dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.nextafter(gnp.array([0.0, 1.0]), 2.0)
      Array([1.4012985e-45, 1.0000001e+00], dtype=float32)
    """
    return _of_two("nextafter", "nextafter", FLOAT, x1, x2)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of order ``m`` of `digamma`, elementwise.

    Args:
      m, x: arrays or scalars of one floating dtype; ``m`` holds integers that are not negative.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.polygamma(1.0, gnp.array([1.0, 2.0])).round(4)
      Array([1.6449, 0.6449], dtype=float32)
    """
    return _of_two("polygamma", "polygamma", FLOAT, m, x)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """The Hurwitz zeta function, the sum of ``(q + k) ** -x`` over k from 0, elementwise.

    Args:
      x: an array or scalar of a floating dtype, greater than 1.
      q: an array or scalar of the same dtype; 1 gives Riemann's function.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.zeta(2.0, gnp.array([1.0, 2.0])).round(4)
      Array([1.6449, 0.6449], dtype=float32)
    """
    return _of_two("zeta", "zeta", FLOAT, x, q)


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function P(a, x), elementwise.

    Args:
      a, x: arrays or scalars of one floating dtype; ``a`` is positive, ``x`` not negative.
    Returns:
      An array of numbers in [0, 1].

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.igamma(2.0, gnp.array([0.0, 1.0, 10.0])).round(4)
      Array([0.    , 0.2642, 0.9995], dtype=float32)

    See also:
      `igammac`
    """
    return _of_two("igamma", "igamma", FLOAT, a, x)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function 1 - P(a, x), elementwise.

    Args:
      a, x: arrays or scalars of one floating dtype; ``a`` is positive, ``x`` not negative.
    Returns:
      An array of numbers in [0, 1], accurate also where they are tiny.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.igammac(2.0, gnp.array([0.0, 1.0, 10.0])).round(4)
      Array([1.000e+00, 7.358e-01, 5.000e-04], dtype=float32)

    See also:
      `igamma`
    """
    return _of_two("igammac", "igammac", FLOAT, a, x)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of `igamma` by its first argument, elementwise.

    Args:
      a, x: arrays or scalars of one floating dtype; ``a`` is positive, ``x`` not negative.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.igamma_grad_a(2.0, gnp.array([1.0])).round(4)
      Array([-0.2762], dtype=float32)
    """
    return _of_two("igamma_grad_a", "igamma_grad_a", FLOAT, a, x)


random_gamma_grad = _binary(
    "random_gamma_grad",
    "random_gamma_grad",
    FLOAT,
    "Elementwise derivative by x of a gamma-distributed sample y with shape parameter x.",
)
eq = _binary("eq", "eq", ANY_DTYPE, "Elementwise :math:`x = y`, a bool.")
ne = _binary("ne", "ne", ANY_DTYPE, "Elementwise :math:`x \\neq y`, a bool.")
lt = _binary("lt", "lt", REAL, "Elementwise :math:`x < y`, a bool.")
le = _binary("le", "le", REAL, "Elementwise :math:`x \\leq y`, a bool.")
gt = _binary("gt", "gt", REAL, "Elementwise :math:`x > y`, a bool.")
ge = _binary("ge", "ge", REAL, "Elementwise :math:`x \\geq y`, a bool.")


# ----------------------------------------------------------------- functions of more than one op


class RoundingMethod(enum.IntEnum):
    """How `round` rounds halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Elementwise nearest integer, of the same dtype.

    Args:
      x: a floating point array.
      rounding_method: whether halves are rounded away from zero or to the even neighbour.
    Returns:
      An array of the shape and dtype of ``x``.
    Raises:
      TypeError: ``x`` is not floating point.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.round(gnp.array([0.5, 2.5, -0.5]))
      Array([ 1.,  3., -1.], dtype=float32)
      >>> lax.round(gnp.array([0.5, 2.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
      Array([0., 2.], dtype=float32)

    See also:
      `gnomon.numpy.round`, which rounds halves to even
    """
    x = argument("round", x)
    accept("round", x, FLOAT)
    method = RoundingMethod(rounding_method)
    return bind(ops.round, x, rounding_method=method.name)


def reciprocal(x: ArrayLike) -> Array:
    """The reciprocal :math:`1 / x`, elementwise.

    Args:
      x: a floating point or complex array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.reciprocal(gnp.array([2.0, 0.0]))
      Array([0.5, inf], dtype=float32)
    """
    x = argument("reciprocal", x)
    accept("reciprocal", x, FLOAT_OR_COMPLEX)
    return integer_pow(x, -1)


def conj(x: ArrayLike) -> Array:
    """Elementwise complex conjugate.

    Args:
      x: a complex array, or one of float32 or float64, which becomes complex.
    Raises:
      TypeError: ``x`` has another dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.conj(gnp.array([1 + 2j]))
      Array([1.-2.j], dtype=complex64)
    """
    x = argument("conj", x)
    accept("conj", x, COMPLEX_ONLY | PARTS)
    if not is_complex(x.dtype):
        # The conjugate of x + 0i: its imaginary part is positive zero, as in JAX.
        return bind(ops.complex, x, constant_like(x, 0))
    return bind(ops.conj, x)


def integer_pow(x: ArrayLike, y: int) -> Array:
    """Elementwise power :math:`x^y` with a static integer exponent.

    Args:
      x: an array of numbers.
      y: a Python integer; negative only where ``x`` is floating point or complex.
    Raises:
      TypeError: a negative power of integers, or ``y`` is not an integer.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.integer_pow(gnp.array([2, 3]), 3)
      Array([ 8, 27], dtype=int32)
      >>> lax.integer_pow(gnp.array([2.0, 4.0]), -1)
      Array([0.5 , 0.25], dtype=float32)

    See also:
      `pow`
    """
    x = argument("integer_pow", x)
    accept("integer_pow", x, NUMBER)
    try:
        y = operator.index(y)
    except TypeError as error:
        if isinstance(error, GnomonTypeError):  # the exponent is traced, and this error says so
            raise
        raise TypeError(f"lax.integer_pow: y must be a Python integer, got {y!r}") from error
    if y < 0 and is_integer(x.dtype):
        raise TypeError(
            "Integers cannot be raised to negative powers, "
            f"got integer_pow({x.aval}, {y}); convert x to a floating point dtype"
        )
    return bind(ops.integer_pow, x, y=y)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise power :math:`x^y`.

    Args:
      x: a floating point or complex array or scalar.
      y: an array or scalar of the same dtype, or of an integer dtype.
    Returns:
      An array of the dtype of ``x``.
    Raises:
      TypeError: ``x`` is an array of integers, or the dtypes differ.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.pow(gnp.array([2.0, 9.0]), 0.5).round(4)
      Array([1.4142, 3.    ], dtype=float32)
      >>> lax.pow(gnp.array([2.0, 9.0]), gnp.array([3, 2]))
      Array([ 8., 81.], dtype=float32)

    See also:
      `integer_pow`
    """
    base, exponent = argument("pow", x, 0), argument("pow", y, 1)
    accept("pow", base, FLOAT_OR_COMPLEX, 0)
    if exponent.dtype in INTEGERS or exponent.dtype == BOOL:
        exponent = bind(ops.convert, exponent, dtype=base.dtype)
    elif base.dtype != exponent.dtype:
        same_dtype("pow", (base, exponent))
    return bind(ops.pow, *spread("pow", (base, exponent)))


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise upper half of the product of two integers (which has twice their bits).

    Args:
      x, y: integer arrays of one dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.mulhi(gnp.array([2**30]), gnp.array([8]))
      Array([2], dtype=int32)
    """
    x, y = argument("mulhi", x, 0), argument("mulhi", y, 1)
    accept("mulhi", x, INTEGERS, 0)
    same_dtype("mulhi", (x, y))
    x, y = spread("mulhi", (x, y))
    return bind(ops.mulhi, x, y)


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to a floating point format of fewer bits, and keep the dtype.

    Args:
      operand: a floating point array.
      exponent_bits: bits of the exponent, at least 1.
      mantissa_bits: bits of the mantissa, at least 0.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.reduce_precision(gnp.array([1.001, 3.14159]), exponent_bits=8, mantissa_bits=7)
      Array([1.      , 3.140625], dtype=float32)
    """
    x = argument("reduce_precision", operand)
    accept("reduce_precision", x, FLOAT)
    if operator.index(exponent_bits) < 1:
        raise ValueError(
            f"lax.reduce_precision: exponent_bits must be positive; got {exponent_bits}"
        )
    if operator.index(mantissa_bits) < 0:
        raise ValueError(
            f"lax.reduce_precision: mantissa_bits must be non-negative; got {mantissa_bits}"
        )
    return bind(
        ops.reduce_precision,
        x,
        exponent_bits=operator.index(exponent_bits),
        mantissa_bits=operator.index(mantissa_bits),
    )


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularized incomplete beta function.

    Args:
      a, b: parameters, not negative.
      x: the upper limit of integration, from 0 to 1. All three have the same floating point dtype.
        The function is differentiable in ``x``.
    Returns:
      An array of the operands' shape; nan where an operand is out of range.
    Raises:
      TypeError: the dtypes differ, or are not floating point.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.betainc(2.0, 3.0, gnp.array([0.0, 0.5, 1.0])).round(4)
      Array([0.    , 0.6875, 1.    ], dtype=float32)
    """
    operands = [argument("betainc", v, i) for i, v in enumerate((a, b, x))]
    for i, operand in enumerate(operands):
        accept("betainc", operand, FLOAT, i)
    same_dtype("betainc", operands)
    return bind(ops.regularized_incomplete_beta, *spread("betainc", operands))
