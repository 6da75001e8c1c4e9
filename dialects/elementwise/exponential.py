"""Exponentials, logarithms, roots and powers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.dialects.attributes import INT
from gnomon.dialects.combinators import LowerTo, binary, lowered, require, stablehlo, unary
from gnomon.dialects.contract import Instance
from gnomon.dialects.elementwise.evaluation import (
    from_parts,
    of_f32_in_f64,
    through_f32,
    through_f64,
)
from gnomon.dialects.elementwise.expansion import widen_bytes, widened
from gnomon.dialects.emit import full_like, ops, scale
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost
from gnomon.dialects.types import (
    FLOATING,
    INEXACT,
    NUMERIC,
    is_complex,
    is_floating,
    is_integer,
    short_name,
)

LN2 = float(np.log(2.0))

# ------------------------------------------------------------------------ exponentials, logarithms


def _lower_exp2(inst: Instance) -> list[ir.Value]:
    x = inst.operand
    if is_complex(inst.type.dtype):
        return [lowered.exp(lowered.mul(x, lowered.full_like(x, LN2)))]
    # A power is exact at integers; exp(x ln 2) is not.
    return [lowered.pow(lowered.full_like(x, 2), x)]


_evaluate_real_expm1 = of_f32_in_f64(np.expm1)


def _evaluate_expm1(x: np.ndarray) -> np.ndarray:
    if not is_complex(x.dtype):
        return _evaluate_real_expm1(x)
    # NumPy's expm1 loses the real part near 0, and gives nan for 0 * inf; its exp does neither.
    # In complex128, no power of a complex64 overflows whose product with a cosine is finite.
    z = x.astype(np.complex128)
    a, b = z.real, z.imag
    power = np.exp(z)
    sine = np.sin(b * 0.5)
    near = np.expm1(a) * np.cos(b) - 2 * sine * sine
    real = np.where(np.abs(a) < 1, near, power.real - 1)
    return from_parts(real, np.where(b == 0, b, power.imag), x.dtype)


def _evaluate_log1p(x: np.ndarray) -> np.ndarray:
    if not is_complex(x.dtype):
        return np.log1p(x)
    # |1 + z|² - 1 = a (2 + a) + b² does not cancel near 0, but would overflow for large z.
    a, b = x.real, x.imag
    half, one, two = (a.dtype.type(n) for n in (0.5, 1, 2))
    near = half * np.log1p(a * (two + a) + b * b)
    is_near = np.maximum(np.abs(a), np.abs(b)) < half
    real = np.where(is_near, near, np.log(np.hypot(one + a, b)))
    return from_parts(real, np.arctan2(b, one + a), x.dtype)


@through_f64
def _evaluate_real_logistic(x: np.ndarray) -> np.ndarray:
    # Use the exponential that does not overflow.
    one = x.dtype.type(1)
    decayed = np.exp(-np.abs(x))
    return np.divide(np.where(x < 0, decayed, one), one + decayed)


def _evaluate_logistic(x: np.ndarray) -> np.ndarray:
    if not is_complex(x.dtype):
        return _evaluate_real_logistic(x)
    one = x.dtype.type(1)
    # Use the decaying exponential: the quotient of an overflowing complex one would be nan.
    negative = x.real < 0
    decaying = np.exp(np.where(negative, x, -x))
    return np.where(negative, decaying, one) / (one + decaying)


exp = unary(
    "exp",
    doc="e to the power x",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=of_f32_in_f64(np.exp),
    jvp=lambda x, out: out,
    lower="exponential",
)
exp2 = unary(
    "exp2",
    doc="2 to the power x",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=of_f32_in_f64(np.exp2),
    jvp=lambda x, out: scale(out, LN2),
    lower=_lower_exp2,
)
expm1 = unary(
    "expm1",
    doc="e to the power x, minus 1, accurate near 0",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=_evaluate_expm1,
    jvp=lambda x, out: ops.add(out, full_like(out, 1)),
    lower="exponential_minus_one",
)
log = unary(
    "log",
    doc="natural logarithm",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=of_f32_in_f64(np.log),
    rule=lambda inst, outs, tangents: [ops.div(tangents[0], inst.operand)],
    lower="log",
)
log1p = unary(
    "log1p",
    doc="natural logarithm of 1 + x, accurate near 0",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=_evaluate_log1p,
    rule=lambda inst, outs, tangents: [
        ops.div(tangents[0], ops.add(inst.operand, full_like(inst.operand, 1)))
    ],
    lower="log_plus_one",
)
logistic = unary(
    "logistic",
    doc="1 / (1 + exp(-x))",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=_evaluate_logistic,
    jvp=lambda x, out: ops.mul(out, ops.sub(full_like(out, 1), out)),
    stablehlo=("logistic",),
    lower=widen_bytes(LowerTo("logistic")),
)

# -------------------------------------------------------------------------------------------- roots


@through_f32
def _evaluate_rsqrt(x: np.ndarray) -> np.ndarray:
    if is_complex(x.dtype):
        return ops.div.evaluate(np.ones(x.shape, x.dtype), np.sqrt(x))
    return np.divide(x.dtype.type(1), np.sqrt(x))


sqrt = unary(
    "sqrt",
    doc="square root",
    cost=Cost.ROOT,
    dtypes=INEXACT,
    evaluate=np.sqrt,
    jvp=lambda x, out: ops.div(full_like(x, 0.5), out),
    lower="sqrt",
)
rsqrt = unary(
    "rsqrt",
    doc="1 / sqrt(x)",
    cost=Cost.ROOT,
    dtypes=INEXACT,
    evaluate=_evaluate_rsqrt,
    jvp=lambda x, out: scale(ops.div(out, x), -0.5),
    lower="rsqrt",
)


def _evaluate_cbrt(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The cube root, within one unit.

    That of a C library may be two units off, so that of f64 gets a step of Newton's method.
    """
    root = np.cbrt(x)
    if root.dtype != np.float64:
        return root
    is_plain = np.isfinite(root) & (root != 0)
    safe = np.where(is_plain, root, 1)
    return np.where(is_plain, root - (safe - x / (safe * safe)) / 3, root)


cbrt = unary(
    "cbrt",
    doc="cube root, negative for negative x",
    cost=Cost.FUNCTION,
    dtypes=FLOATING,
    evaluate=_evaluate_cbrt,
    # Written as one power, so that its own derivative is infinite at zero and zero at infinity.
    jvp=lambda x, out: scale(ops.integer_pow(out, y=-2), 1 / 3),
    lower="cbrt",
)

# ------------------------------------------------------------------------------------------- powers


def _pow_by_base(x: ir.Value, y: ir.Value, out: ir.Value) -> ir.Value:
    # If y is 0, the power is 1 for every x including zero, so its derivative is 0, not 0 * inf.
    # The exponent is replaced only there, because this expression is itself differentiated in y.
    zero, one = full_like(y, 0), full_like(y, 1)
    at_origin = ops.and_(ops.eq(x, zero), ops.eq(y, zero))
    return ops.mul(y, ops.pow(x, ops.select(at_origin, one, ops.sub(y, one))))


def _pow_by_exponent(x: ir.Value, y: ir.Value, out: ir.Value) -> ir.Value:
    zero, one = full_like(x, 0), full_like(x, 1)
    return ops.mul(ops.log(ops.select(ops.eq(x, zero), one, x)), out)


def _evaluate_pow(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not is_complex(x.dtype):
        is_one = y.size == 1 or (y.size and not any(y.strides))
        if is_one and y.reshape(-1)[0] == 0.5:
            # NumPy takes the square root, whose value is nan at -inf, and -0 at -0.
            x = np.where((x == 0) | (x == -np.inf), np.abs(x), x)
        return np.power(x, y)
    result = np.power(x, y)
    # For integer exponents NumPy multiplies, and gives nan if an intermediate product overflows.
    lost = np.isnan(result) & np.isfinite(x) & np.isfinite(y) & (x != 0)
    return np.where(lost, np.exp(y * np.log(x)), result) if lost.any() else result


pow_ = binary(
    "pow",
    doc="x to the power y",
    cost=Cost.FUNCTION,
    dtypes=INEXACT,
    evaluate=_evaluate_pow,
    jvp=(_pow_by_base, _pow_by_exponent),
    lower="power",
)


def _integer_pow_dtype(dtype: np.dtype, y: int) -> np.dtype:
    require(
        y >= 0 or not is_integer(dtype),
        "integer_pow",
        f"{short_name(dtype)} to the power {y}: integers have no negative powers; convert the "
        "operand to a floating dtype first",
    )
    return dtype


def _is_narrow(dtype: np.dtype) -> bool:
    return dtype.itemsize < np.dtype(np.float32).itemsize and is_floating(dtype)


def _evaluate_integer_pow(x: np.ndarray, y: int) -> np.ndarray:
    if y == 2:
        return np.multiply(x, x)
    return _power_by_squaring(x, y=y)


def _power_by_squaring(x: np.ndarray, y: int) -> np.ndarray:
    dtype = x.dtype
    narrow = _is_narrow(dtype)
    base = x.astype(np.float32) if narrow else x
    result: Any = None
    exponent = abs(y)
    while exponent:
        if exponent & 1:
            result = base if result is None else np.multiply(result, base)
        exponent >>= 1
        if exponent:
            base = np.multiply(base, base)
    if result is None:
        return np.ones(x.shape, dtype)
    if y < 0:
        one = np.ones(x.shape, base.dtype)
        result = ops.div.evaluate(one, result)
    return result.astype(dtype, copy=False)


def _jvp_integer_pow(inst: Instance, outs: Any, tangents: Any) -> list[ir.Value | None]:
    y = inst.params["y"]
    if y == 0:
        return [None]
    if y == 1:
        return [tangents[0]]
    slope = scale(ops.integer_pow(inst.operand, y=y - 1), y)
    return [ops.mul(tangents[0], slope)]


def _lower_integer_pow(inst: Instance) -> list[ir.Value]:
    y, type_ = inst.params["y"], inst.type
    if y == 0:
        return [lowered.full_like(inst.operand, 1)]
    narrow = _is_narrow(type_.dtype)
    base = widened(inst.operand) if narrow else inst.operand
    result = None
    exponent = abs(y)
    while exponent:
        if exponent & 1:
            result = base if result is None else lowered.mul(result, base)
        exponent >>= 1
        if exponent:
            base = lowered.mul(base, base)
    if y < 0:
        result = lowered.div(lowered.full_like(result, 1), result)
    return stablehlo("convert", [result], [type_]) if narrow else [result]


integer_pow = unary(
    "integer_pow",
    doc="x to the power of a constant integer, by repeated squaring; 0 ** 0 is 1",
    cost=Cost.OPERATION,
    dtypes=NUMERIC,
    evaluate=_evaluate_integer_pow,
    rule=_jvp_integer_pow,
    lower=_lower_integer_pow,
    result_dtype=_integer_pow_dtype,
    attributes={"y": INT},
    example='%r = "gnomon.integer_pow"(%x) {y = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>',
)
