"""Elementwise ops: most have one counterpart with the same operands."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from gnomon.dialects.emit import broadcast_scalar, constant, convert, full_like, ops, reshape
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.source import RaiseError, Source, raises
from gnomon.dialects.types import (
    BOOL,
    SIGNED,
    TensorType,
    is_complex,
    is_floating,
    is_integer,
    type_of,
)

# The op of the gnomon dialect with the same operands and meaning.
SAME = {
    "abs": "abs",
    "add": "add",
    "and": "and",
    "atan2": "atan2",
    "ceil": "ceil",
    "complex": "complex",
    "cosine": "cos",
    "count_leading_zeros": "clz",
    "divide": "div",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "floor": "floor",
    "is_finite": "is_finite",
    "log": "log",
    "log_plus_one": "log1p",
    "logistic": "logistic",
    "maximum": "max",
    "minimum": "min",
    "multiply": "mul",
    "negate": "neg",
    "not": "not",
    "or": "or",
    "popcnt": "population_count",
    "remainder": "rem",
    "rsqrt": "rsqrt",
    "select": "select",
    "shift_left": "shift_left",
    "shift_right_arithmetic": "shift_right_arithmetic",
    "shift_right_logical": "shift_right_logical",
    "sign": "sign",
    "sine": "sin",
    "sqrt": "sqrt",
    "subtract": "sub",
    "tan": "tan",
    "tanh": "tanh",
    "xor": "xor",
    "chlo.acos": "acos",
    "chlo.acosh": "acosh",
    "chlo.asin": "asin",
    "chlo.asinh": "asinh",
    "chlo.atan": "atan",
    "chlo.atanh": "atanh",
    "chlo.bessel_i1e": "bessel_i1e",
    "chlo.cosh": "cosh",
    "chlo.digamma": "digamma",
    "chlo.erf": "erf",
    "chlo.erf_inv": "erf_inv",
    "chlo.erfc": "erfc",
    "chlo.lgamma": "lgamma",
    "chlo.mulhi": "mulhi",
    "chlo.next_after": "nextafter",
    "chlo.polygamma": "polygamma",
    "chlo.sinh": "sinh",
    "chlo.square": "square",
    "chlo.tan": "tan",
    "chlo.zeta": "zeta",
}


def _raise_same(name: str) -> None:
    @raises(name)
    def rule(source: Source) -> list[ir.Value]:
        results: list[ir.Value] = getattr(ops, SAME[name]).build(source.operands, {})
        return results


for _name in SAME:
    _raise_same(_name)


# ------------------------------------------------------------------------------------- comparisons


def total_order_key(x: ir.Value) -> ir.Value:
    """Integers in the total order of IEEE 754: -nan, -inf, ..., -0, 0, ..., inf, nan."""
    type_ = type_of(x)
    if not is_floating(type_.dtype):
        return x
    dtype = np.dtype(f"int{8 * type_.dtype.itemsize}")
    bits = ops.bitcast_convert(x, dtype=dtype)
    limits = np.iinfo(dtype)
    sign = ops.shift_right_arithmetic(bits, full_like(bits, limits.bits - 1))
    return ops.xor(bits, ops.and_(sign, full_like(bits, limits.max)))


def is_total_order(operation: ir.Operation) -> bool:
    """Whether a comparison is by the total order of IEEE 754."""
    attributes = operation.attributes
    return "compare_type" in attributes and "TOTALORDER" in str(attributes["compare_type"])


@raises("compare")
def _compare(source: Source) -> ir.Value:
    operands = source.operands
    if is_total_order(source.operation):
        operands = [total_order_key(x) for x in operands]
    compared: ir.Value = getattr(ops, source.word("comparison_direction").lower())(*operands)
    return compared


@raises("clamp")
def _clamp(source: Source) -> ir.Value:
    low, x, high = source.operands
    if not is_complex(source.type.dtype):
        clamped: ir.Value = ops.clamp(low, x, high)
        return clamped
    low, high = (
        v if type_of(v).shape == source.type.shape else broadcast_scalar(v, source.type.shape)
        for v in (low, high)
    )
    limited: ir.Value = ops.min(ops.max(low, x), high)
    return limited


# ------------------------------------------------------------------------------------- conversions


@raises("convert")
def _convert(source: Source) -> ir.Value:
    x, dtype = source.operand, source.type.dtype
    if is_complex(type_of(x).dtype) and dtype == BOOL:
        x = ops.real(x)
    return convert(x, dtype)


@raises("bitcast_convert")
def _bitcast(source: Source) -> ir.Value:
    x, dtype = source.operand, source.type.dtype
    given = type_of(x).dtype
    if given == dtype:
        return x
    if given == BOOL:
        return _joined_bits(x, source.type)
    if dtype == BOOL:
        return _split_bits(x, source.type)
    bits: ir.Value = ops.bitcast_convert(x, dtype=dtype)
    return bits


def _word_dtype(dtype: np.dtype) -> np.dtype:
    """The unsigned dtype of the same size; bits are counted in it."""
    return np.dtype(f"uint{8 * dtype.itemsize}")


def _joined_bits(x: ir.Value, type_: TensorType) -> ir.Value:
    """Numbers from the bits in the last dimension of bools, the lowest first."""
    word = _word_dtype(type_.dtype)
    bits = ops.convert(x, dtype=word)
    place = iota(type_of(bits), type_of(bits).rank - 1)
    words = ops.reduce_sum(ops.shift_left(bits, place), axes=(type_.rank,))
    return words if word == type_.dtype else ops.bitcast_convert(words, dtype=type_.dtype)


def _split_bits(x: ir.Value, type_: TensorType) -> ir.Value:
    """The bits of numbers along a new last dimension, the lowest first."""
    dtype = type_of(x).dtype
    word = _word_dtype(dtype)
    words = x if word == dtype else ops.bitcast_convert(x, dtype=word)
    repeated = ops.broadcast_in_dim(words, shape=type_.shape, dims=tuple(range(type_.rank - 1)))
    shifted = ops.shift_right_logical(repeated, iota(type_of(repeated), type_.rank - 1))
    one = full_like(shifted, 1)
    return ops.eq(ops.and_(shifted, one), one)


@raises("real")
def _real(source: Source) -> ir.Value:
    x = source.operand
    return ops.real(x) if is_complex(type_of(x).dtype) else x


@raises("imag")
def _imag(source: Source) -> ir.Value:
    x = source.operand
    return ops.imag(x) if is_complex(type_of(x).dtype) else full_like(x, 0)


@raises("chlo.conj")
def _conj(source: Source) -> ir.Value:
    x = source.operand
    return ops.conj(x) if is_complex(type_of(x).dtype) else x


@raises("reduce_precision")
def _reduce_precision(source: Source) -> ir.Value:
    bits = {name: source.integer(name) for name in ("exponent_bits", "mantissa_bits")}
    x = source.operand
    rounded: ir.Value = ops.reduce_precision(x, **bits)
    if bits["mantissa_bits"]:
        return rounded
    # A format without mantissa has no nan.
    return ops.select(ops.ne(x, x), full_like(x, np.inf), rounded)


@raises("round_nearest_afz")
def _round_away(source: Source) -> ir.Value:
    rounded: ir.Value = ops.round(source.operand, rounding_method="AWAY_FROM_ZERO")
    return rounded


@raises("round_nearest_even")
def _round_even(source: Source) -> ir.Value:
    rounded: ir.Value = ops.round(source.operand, rounding_method="TO_NEAREST_EVEN")
    return rounded


# ------------------------------------------------------------------------------------------- powers


@raises("cbrt")
def _cbrt(source: Source) -> ir.Value:
    x = source.operand
    dtype = type_of(x).dtype
    if not is_complex(dtype):
        root: ir.Value = ops.cbrt(x)
        return root
    # The principal root: a third of the angle.
    real, imaginary = ops.real(x), ops.imag(x)
    angle = ops.div(ops.atan2(imaginary, real), full_like(real, 3))
    size = ops.cbrt(ops.abs(x))
    return ops.complex(ops.mul(size, ops.cos(angle)), ops.mul(size, ops.sin(angle)))


@raises("power")
def _power(source: Source) -> ir.Value:
    x, y = source.operands
    if not is_integer(source.type.dtype):
        power: ir.Value = ops.pow(x, y)
        return power
    return _integer_power(x, y)


def _integer_power(x: ir.Value, y: ir.Value) -> ir.Value:
    """Integers to integers by repeated squaring; negative powers of |x| > 1 are 0."""
    type_ = type_of(x)
    zero, one = full_like(x, 0), full_like(x, 1)
    if type_.dtype in SIGNED:
        negative = ops.lt(y, zero)
        is_unit = ops.or_(ops.eq(x, one), ops.eq(x, full_like(x, -1)))
        magnitude = ops.select(negative, ops.neg(y), y)
    result, base = one, x
    exponent = magnitude if type_.dtype in SIGNED else y
    for bit in range(int(ml_dtypes.iinfo(type_.dtype).bits)):
        shifted = ops.shift_right_logical(exponent, full_like(x, bit)) if bit else exponent
        is_set = ops.ne(ops.and_(shifted, one), zero)
        result = ops.select(is_set, ops.mul(result, base), result)
        base = ops.mul(base, base)
    if type_.dtype in SIGNED:
        result = ops.select(ops.and_(negative, ops.not_(is_unit)), zero, result)
    return result


# -------------------------------------------------------------------------------------------- CHLO


@raises("chlo.is_inf")
def _is_inf(source: Source) -> ir.Value:
    magnitude = ops.abs(source.operand)
    return ops.eq(magnitude, full_like(magnitude, np.inf))


@raises("chlo.is_pos_inf")
def _is_positive_inf(source: Source) -> ir.Value:
    return ops.eq(source.operand, full_like(source.operand, np.inf))


@raises("chlo.is_neg_inf")
def _is_negative_inf(source: Source) -> ir.Value:
    return ops.eq(source.operand, full_like(source.operand, -np.inf))


# ---------------------------------------------------------------------------------------- literals


@raises("constant", "chlo.constant")
def _constant(source: Source) -> ir.Value:
    return constant(source.elements())


@raises("chlo.constant_like")
def _constant_like(source: Source) -> ir.Value:
    attribute = source.attribute("value")
    dtype = source.type.dtype
    if is_complex(dtype):
        raise RaiseError("complex values of chlo.constant_like are not read")
    value = attribute.value
    return full_like(source.operand, bool(value) if dtype == BOOL else value)


@raises("iota")
def _iota(source: Source) -> ir.Value:
    return iota(source.type, source.integer("iota_dimension"))


def iota(type_: TensorType, dimension: int) -> ir.Value:
    """0, 1, 2, ... along a dimension; of any dtype that numbers convert to."""
    numbered: ir.Value = ops.iota(dtype=type_.dtype, shape=type_.shape, dimension=dimension)
    return numbered


def scalar(x: ir.Value) -> ir.Value:
    """A value of one element as a scalar."""
    return reshape(x, ())
