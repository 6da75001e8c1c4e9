"""Elementwise functions, most of which are one op: the name, the op, the dtypes, the meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind
from gnomon.dialects import extrema
from gnomon.dialects.emit import ops
from gnomon.dialects.types import BOOL, UNSIGNED, is_complex
from gnomon.lax._creation import converted
from gnomon.lax._operands import (
    ANY_DTYPE,
    BOOL_OR_INTEGER,
    FLOAT,
    FLOAT_OR_COMPLEX,
    INTEGERS,
    NUMBER,
    REAL,
    Dtypes,
    constant_like,
)
from gnomon.numpy._arguments import as_array
from gnomon.numpy._dispatch import (
    ANY_KIND,
    INEXACT_KIND,
    NUMERIC_KIND,
    accept,
    binary,
    document,
    promoted_dtypes,
    promoted_operands,
    unary,
)

_F32_F64: Dtypes = frozenset((np.dtype("float32"), np.dtype("float64")))
_WIDE: Dtypes = _F32_F64 | frozenset(np.dtype(code) for code in "bhilqBHILQ")
_WIDE_OR_BOOL: Dtypes = _WIDE | {BOOL}

# ------------------------------------------------------------------------- transcendental functions

exp = unary("exp", "exp", INEXACT_KIND, FLOAT_OR_COMPLEX, "Elementwise exponential :math:`e^x`.")
exp2 = unary("exp2", "exp2", INEXACT_KIND, FLOAT_OR_COMPLEX, "Elementwise power :math:`2^x`.")
expm1 = unary(
    "expm1",
    "expm1",
    INEXACT_KIND,
    FLOAT_OR_COMPLEX,
    "Elementwise :math:`e^x - 1`, accurate for small x.",
)
log = unary(
    "log",
    "log",
    INEXACT_KIND,
    FLOAT_OR_COMPLEX,
    "Elementwise natural logarithm; nan for negative real numbers.",
)
log1p = unary(
    "log1p",
    "log1p",
    INEXACT_KIND,
    FLOAT_OR_COMPLEX,
    "Elementwise :math:`\\log(1 + x)`, accurate for small x.",
)
sqrt = unary(
    "sqrt", "sqrt", INEXACT_KIND, FLOAT_OR_COMPLEX, "Elementwise square root; nan below zero."
)
cbrt = unary(
    "cbrt", "cbrt", INEXACT_KIND, FLOAT, "Elementwise cube root; of negative numbers the real one."
)
sin = unary(
    "sin", "sin", INEXACT_KIND, FLOAT_OR_COMPLEX, "Elementwise sine of an angle in radians."
)
cos = unary(
    "cos", "cos", INEXACT_KIND, FLOAT_OR_COMPLEX, "Elementwise cosine of an angle in radians."
)
tan = unary(
    "tan", "tan", INEXACT_KIND, FLOAT_OR_COMPLEX, "Elementwise tangent of an angle in radians."
)
sinh = unary("sinh", "sinh", INEXACT_KIND, FLOAT_OR_COMPLEX, "Elementwise hyperbolic sine.")
cosh = unary("cosh", "cosh", INEXACT_KIND, FLOAT_OR_COMPLEX, "Elementwise hyperbolic cosine.")
tanh = unary("tanh", "tanh", INEXACT_KIND, FLOAT_OR_COMPLEX, "Elementwise hyperbolic tangent.")
arcsin = unary(
    "arcsin",
    "asin",
    INEXACT_KIND,
    FLOAT_OR_COMPLEX,
    "Elementwise inverse sine, in [-pi/2, pi/2]; nan outside of [-1, 1].",
)
arccos = unary(
    "arccos",
    "acos",
    INEXACT_KIND,
    FLOAT_OR_COMPLEX,
    "Elementwise inverse cosine, in [0, pi]; nan outside of [-1, 1].",
)
arctan = unary(
    "arctan",
    "atan",
    INEXACT_KIND,
    FLOAT_OR_COMPLEX,
    "Elementwise inverse tangent, in [-pi/2, pi/2].",
)
arcsinh = unary(
    "arcsinh", "asinh", INEXACT_KIND, FLOAT_OR_COMPLEX, "Elementwise inverse hyperbolic sine."
)
arctanh = unary(
    "arctanh",
    "atanh",
    INEXACT_KIND,
    FLOAT_OR_COMPLEX,
    "Elementwise inverse hyperbolic tangent; nan outside of [-1, 1].",
)
_acosh = unary(
    "arccosh", "acosh", INEXACT_KIND, FLOAT_OR_COMPLEX, "Elementwise inverse hyperbolic cosine."
)


def arccosh(x: ArrayLike, /) -> Array:
    """Elementwise inverse hyperbolic cosine; for complex numbers, its real part is >= 0.

    Args:
      x: an array or scalar; integers and bool become floating point numbers.
    Returns:
      An array of the shape of ``x``; nan for real numbers below 1.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.arccosh(gnp.array([1.0, 10.0, 0.5])).round(4)
      Array([0.    , 2.9932,    nan], dtype=float32)
    """
    result = _acosh(x)
    if not is_complex(result.dtype):
        return result
    part = bind(ops.real, result)
    below = bind(ops.lt, part, constant_like(part, 0))
    return bind(ops.select, below, bind(ops.neg, result), result)


def _direct_arctan2(y: Any, x: Any) -> Any:
    """The op's own function, which is more accurate for f32 than NumPy's."""
    dtype = y.dtype if isinstance(y, np.ndarray) else x.dtype
    return ops.atan2.evaluate(np.asarray(y, dtype), np.asarray(x, dtype))


arctan2 = binary(
    "arctan2",
    "atan2",
    INEXACT_KIND,
    FLOAT_OR_COMPLEX,
    "Elementwise angle in [-pi, pi] of points: ordinates first, then abscissas.",
    direct_function=_direct_arctan2,
    direct_dtypes=FLOAT,
)
nextafter = binary(
    "nextafter",
    "nextafter",
    INEXACT_KIND,
    FLOAT,
    "Elementwise next representable number after ``x`` in the direction of ``y``.",
    direct_function=np.nextafter,
    direct_dtypes=_F32_F64,
)

# --------------------------------------------------------------------------------------- arithmetic

negative = unary(
    "negative", "neg", ANY_KIND, NUMBER, "Elementwise negation; unsigned integers wrap."
)
sign = unary(
    "sign",
    "sign",
    ANY_KIND,
    NUMBER,
    "Elementwise sign: -1, 0 or 1; x / |x| for complex numbers; zeros and nan stay themselves.",
)
square = unary("square", "square", NUMERIC_KIND, NUMBER, "Elementwise square :math:`x^2`.")
bitwise_invert = unary(
    "bitwise_invert", "not", ANY_KIND, BOOL_OR_INTEGER, "Elementwise complement; logical on bool."
)
_abs = unary(
    "absolute", "abs", ANY_KIND, NUMBER, "Elementwise absolute value; of complex the magnitude."
)

add = binary("add", "add", ANY_KIND, ANY_DTYPE, "Elementwise sum; logical or on bool.")
subtract = binary("subtract", "sub", ANY_KIND, NUMBER, "Elementwise difference :math:`x - y`.")
multiply = binary(
    "multiply", "mul", ANY_KIND, ANY_DTYPE, "Elementwise product; logical and on bool."
)
true_divide = binary(
    "true_divide",
    "div",
    INEXACT_KIND,
    FLOAT_OR_COMPLEX,
    "Elementwise quotient :math:`x / y`, a floating point or complex number.",
    direct_function=np.true_divide,
    direct_dtypes=_F32_F64,
)
divide = binary(
    "divide",
    "div",
    INEXACT_KIND,
    FLOAT_OR_COMPLEX,
    "Elementwise quotient :math:`x / y`, a floating point or complex number.",
    direct_function=np.true_divide,
    direct_dtypes=_F32_F64,
)
float_power = binary(
    "float_power",
    "pow",
    INEXACT_KIND,
    FLOAT_OR_COMPLEX,
    "Elementwise power :math:`x^y` of floating point or complex numbers.",
    direct_function=np.power,
    direct_dtypes=frozenset(),
)
maximum = binary(
    "maximum",
    "max",
    ANY_KIND,
    ANY_DTYPE,
    "Elementwise maximum of two arrays; nan where either is; complex by real part first.",
    direct_function=extrema.maximum,
    direct_dtypes=_WIDE_OR_BOOL,
)
minimum = binary(
    "minimum",
    "min",
    ANY_KIND,
    ANY_DTYPE,
    "Elementwise minimum of two arrays; nan where either is; complex by real part first.",
    direct_function=extrema.minimum,
    direct_dtypes=_WIDE_OR_BOOL,
)


def absolute(x: ArrayLike, /) -> Array:
    """Elementwise absolute value; for complex numbers the magnitude, a real number.

    Args:
      x: an array or scalar of any numeric dtype, or bool.
    Returns:
      An array of the shape of ``x``. Complex numbers give real ones, bool and unsigned arrays are
      returned unchanged, and the smallest signed integer wraps to itself.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.absolute(gnp.array([-2, 3]))
      Array([2, 3], dtype=int32)
      >>> gnp.absolute(3 - 4j)
      Array(5., dtype=float32, weak_type=True)
      >>> gnp.absolute(gnp.int8(-128))
      Array(-128, dtype=int8)
    """
    x = as_array("absolute", x)
    return x if x.dtype == BOOL or x.dtype in UNSIGNED else _abs(x)


abs = absolute


def positive(x: ArrayLike, /) -> Array:
    """``x`` itself, as an array; what the operator ``+x`` returns.

    Args:
      x: an array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.positive(gnp.array([-1.0, 2.0]))
      Array([-1.,  2.], dtype=float32)

    See also:
      `absolute`, which drops the sign
    """
    return as_array("positive", x)


def reciprocal(x: ArrayLike, /) -> Array:
    """The reciprocal :math:`1 / x`, elementwise.

    Args:
      x: an array or scalar; integers and bool become floating point numbers.
    Returns:
      A floating point or complex array of the shape of ``x``; inf for zero.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.reciprocal(gnp.array([2, 4, 0]))
      Array([0.5 , 0.25,  inf], dtype=float32)
    """
    (x,) = promoted_dtypes("reciprocal", INEXACT_KIND, x)
    return bind(ops.integer_pow, x, y=-1)


# -------------------------------------------------------------------------------------- comparisons

equal = binary("equal", "eq", ANY_KIND, ANY_DTYPE, "Elementwise :math:`x = y`; nan equals nothing.")
not_equal = binary("not_equal", "ne", ANY_KIND, ANY_DTYPE, "Elementwise :math:`x \\neq y`.")


def _ordering(name: str, op_name: str, ufunc: Any, sign: str) -> Any:
    op = getattr(ops, op_name)

    def general(x: ArrayLike, y: ArrayLike) -> Array:
        x, y = promoted_operands(name, ANY_KIND, x, y)
        if is_complex(x.dtype):
            # Compare the real parts, and the imaginary parts if those are equal.
            real_x, real_y = bind(ops.real, x), bind(ops.real, y)
            by_imag = bind(op, bind(ops.imag, x), bind(ops.imag, y))
            tie = bind(ops.eq, real_x, real_y)
            return bind(ops.select, tie, by_imag, bind(op, real_x, real_y))
        accept(name, x, REAL)
        return bind(op, x, y)

    return binary(
        name,
        op_name,
        ANY_KIND,
        REAL,
        f"Elementwise :math:`x {sign} y`; complex numbers by real part first.",
        direct_function=ufunc,
        direct_dtypes=_WIDE_OR_BOOL,
        general=general,
    )


less = _ordering("less", "lt", np.less, "<")
less_equal = _ordering("less_equal", "le", np.less_equal, "\\leq")
greater = _ordering("greater", "gt", np.greater, ">")
greater_equal = _ordering("greater_equal", "ge", np.greater_equal, "\\geq")

# --------------------------------------------------------------------------------------------- bits

_BITS: Dtypes = BOOL_OR_INTEGER & _WIDE_OR_BOOL
bitwise_and = binary(
    "bitwise_and",
    "and",
    ANY_KIND,
    BOOL_OR_INTEGER,
    "Elementwise bitwise and; logical on bool.",
    direct_function=np.bitwise_and,
    direct_dtypes=_BITS,
)
bitwise_or = binary(
    "bitwise_or",
    "or",
    ANY_KIND,
    BOOL_OR_INTEGER,
    "Elementwise bitwise or; logical on bool.",
    direct_function=np.bitwise_or,
    direct_dtypes=_BITS,
)
bitwise_xor = binary(
    "bitwise_xor",
    "xor",
    ANY_KIND,
    BOOL_OR_INTEGER,
    "Elementwise bitwise exclusive or; logical on bool.",
    direct_function=np.bitwise_xor,
    direct_dtypes=_BITS,
)
left_shift = binary(
    "left_shift",
    "shift_left",
    NUMERIC_KIND,
    INTEGERS,
    "Elementwise shift to the left; 0 if the shift is at least the number of bits.",
    direct_function=np.left_shift,
    direct_dtypes=frozenset(),
)


def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise shift to the right: arithmetic for signed integers, logical for unsigned ones.

    Args:
      x1: an array or scalar of integers.
      x2: the number of bits, an array or scalar of integers that broadcasts with ``x1``.
    Returns:
      An array of the broadcast shape: ``x1`` divided by ``2 ** x2`` and rounded down.
    Raises:
      TypeError: an argument does not hold integers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.right_shift(gnp.array([20, -20]), 2)
      Array([ 5, -5], dtype=int32)
      >>> gnp.right_shift(gnp.uint8(255), 4)
      Array(15, dtype=uint8)

    See also:
      `left_shift`
    """
    x, y = promoted_operands("right_shift", NUMERIC_KIND, x1, x2)
    accept("right_shift", x, INTEGERS)
    logical = x.dtype in UNSIGNED
    return bind(ops.shift_right_logical if logical else ops.shift_right_arithmetic, x, y)


def bitwise_count(x: ArrayLike, /) -> Array:
    """The number of bits that are set in ``|x|``, elementwise.

    Args:
      x: an array or scalar of integers; of a negative number the bits of its absolute value count.
    Returns:
      A uint8 array of the shape of ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.bitwise_count(gnp.array([0, 7, 8, -7]))
      Array([0, 3, 1, 3], dtype=uint8)
    """
    (x,) = promoted_dtypes("bitwise_count", NUMERIC_KIND, x)
    accept("bitwise_count", x, INTEGERS)
    return converted(bind(ops.population_count, absolute(x)), np.dtype("uint8"))


# ------------------------------------------------------------------------------------------- logic


def as_bool(x: Array) -> Array:
    """True where ``x`` is not zero."""
    if x.dtype == BOOL:
        return x
    return bind(ops.ne, x, constant_like(x, 0))


def _logical(name: str, op_name: str, word: str) -> Callable[[ArrayLike, ArrayLike], Array]:
    op = getattr(ops, op_name)

    def function(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = promoted_operands(name, ANY_KIND, x, y)
        return bind(op, as_bool(x), as_bool(y))

    return document(
        function,
        name,
        f"Elementwise logical {word}; elements that are not zero are true.",
        "x, y: arrays or scalars that broadcast together.",
        "A bool array of the broadcast shape.",
    )


logical_and = _logical("logical_and", "and", "and")
logical_or = _logical("logical_or", "or", "or")
logical_xor = _logical("logical_xor", "xor", "exclusive or")


def logical_not(x: ArrayLike, /) -> Array:
    """Whether elements are zero, elementwise.

    Args:
      x: an array or scalar of any dtype.
    Returns:
      A bool array of the shape of ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.logical_not(gnp.array([0, 1, 2]))
      Array([ True, False, False], dtype=bool)
      >>> gnp.logical_not(gnp.array([True, False]))
      Array([False,  True], dtype=bool)

    See also:
      `bitwise_not`, which is ``~x``
    """
    return bind(getattr(ops, "not"), as_bool(as_array("logical_not", x)))


# The names of the array API standard, and the aliases of NumPy.
acos, acosh, asin, asinh = arccos, arccosh, arcsin, arcsinh
atan, atanh, atan2 = arctan, arctanh, arctan2
bitwise_not = invert = bitwise_invert
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift
