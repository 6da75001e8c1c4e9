"""The storage of 8-bit floats and sub-byte integers in bytes, with encoding and decoding.

An 8-bit float is stored as its code in a ``ui8`` and computed in f32. An integer of 4 or 2 bits is
stored as its value in an ``i8`` or ``ui8`` and computed in that dtype; results wrap to its range.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import ml_dtypes
import numpy as np

from gnomon.dialects.combinators import highest, lowest
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import FLOAT8, SUB_BYTE, UNSIGNED, type_of

__all__ = [
    "bits_of",
    "clamped",
    "computed",
    "from_memory",
    "from_typed",
    "is_narrow",
    "narrowed",
    "storage",
    "to_memory",
    "to_typed",
    "widened",
]

_I8, _I32, _I64 = (np.dtype(f"int{n}") for n in (8, 32, 64))
_U8 = np.dtype(np.uint8)
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def is_narrow(dtype: np.dtype) -> bool:
    """Whether values of a dtype are stored in a byte of another dtype."""
    return dtype in SUB_BYTE or dtype in FLOAT8


def bits_of(dtype: np.dtype) -> int:
    """The number of bits of a narrow integer."""
    return int(ml_dtypes.iinfo(dtype).bits)


def storage(dtype: np.dtype) -> np.dtype:
    """The dtype in which values of a dtype are stored."""
    if not is_narrow(dtype):
        return dtype
    return _U8 if dtype in FLOAT8 or dtype in UNSIGNED else _I8


def computed(dtype: np.dtype) -> np.dtype:
    """The dtype in which values of a dtype are computed."""
    return _F32 if dtype in FLOAT8 else storage(dtype)


# ---------------------------------------------------------------------------------------- integers


def _wrapped(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """Wrap a byte to the range of a narrow integer."""
    if dtype in UNSIGNED:
        return ops.and_(x, full_like(x, 2 ** bits_of(dtype) - 1))
    unused = full_like(x, 8 - bits_of(dtype))
    return ops.shift_right_arithmetic(ops.shift_left(x, unused), unused)


def from_memory(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """Convert from the form in arrays, where narrow integers are the low bits of a byte."""
    return _wrapped(x, dtype) if dtype in SUB_BYTE else x


def to_memory(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """The inverse of `from_memory`; unused bits are zero."""
    if dtype not in SUB_BYTE or dtype in UNSIGNED:
        return x
    return ops.and_(x, full_like(x, 2 ** bits_of(dtype) - 1))


# ------------------------------------------------------------------------------- values of a type


def from_typed(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """Convert a value of a narrow dtype to its stored form."""
    if dtype in FLOAT8:
        return ops.bitcast_convert(x, dtype=storage(dtype))
    return ops.optimization_barrier(convert(x, storage(dtype)))[0] if dtype in SUB_BYTE else x


def to_typed(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """The inverse of `from_typed`."""
    if dtype in SUB_BYTE:
        x = convert(ops.optimization_barrier(x)[0], dtype)
    return ops.bitcast_convert(x, dtype=dtype) if dtype in FLOAT8 else x


# ------------------------------------------------------------------------------------------ floats


class _Format(NamedTuple):
    """An 8-bit floating point format: a sign bit, exponent bits and ``mantissa`` bits.

    Attributes:
      mantissa: the number of mantissa bits.
      bias: the bias of the exponent.
      overflow: the code, without sign, for numbers out of range: that of infinity or nan.
      nan: a code of nan.
      infinite: whether the format has infinities.
      signed_zero: whether the format has a negative zero; otherwise its code is the only nan.
    """

    mantissa: int
    bias: int
    overflow: int
    nan: int
    infinite: bool
    signed_zero: bool


@cache
def _format(dtype: np.dtype) -> _Format:
    """The format of a dtype, derived from its codes."""
    mantissa = int(ml_dtypes.finfo(dtype).nmant)
    one = int(np.array(1, dtype).view(_U8))
    overflow, nan, negative_zero = (
        int(np.array(x, np.float32).astype(dtype).view(_U8)) for x in (np.inf, np.nan, -0.0)
    )
    return _Format(
        mantissa,
        one >> mantissa,
        overflow,
        nan,
        bool(np.isinf(np.array(overflow, _U8).view(dtype).astype(np.float32))),
        negative_zero != 0,
    )


def _decoded(code: ir.Value, dtype: np.dtype) -> ir.Value:
    """Decode codes to f32."""
    if dtype == _EXPONENTS:
        return _decoded_exponent(code)
    form = _format(dtype)
    code = convert(code, _I32)
    magnitude = ops.and_(code, full_like(code, 127))
    shifted = ops.shift_left(magnitude, full_like(code, 23 - form.mantissa))
    normal = ops.add(shifted, full_like(code, (127 - form.bias) << 23))
    unit = 2.0 ** (1 - form.bias - form.mantissa)
    subnormal = ops.mul(convert(magnitude, _F32), full_like(convert(magnitude, _F32), unit))
    is_subnormal = ops.lt(magnitude, full_like(code, 1 << form.mantissa))
    value = ops.select(is_subnormal, subnormal, ops.bitcast_convert(normal, dtype=_F32))
    if form.infinite:
        infinite = ops.eq(magnitude, full_like(code, form.overflow))
        value = ops.select(infinite, full_like(value, np.inf), value)
        is_nan = ops.gt(magnitude, full_like(code, form.overflow))
    elif form.signed_zero:
        is_nan = ops.eq(magnitude, full_like(code, form.overflow & 127))
    else:
        is_nan = ops.eq(code, full_like(code, form.nan))
    negative = ops.gt(code, full_like(code, 127))
    value = ops.select(negative, ops.neg(value), value)
    return ops.select(is_nan, full_like(value, np.nan), value)


def _encoded(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """Encode f32 or f64 numbers; round to nearest even, once."""
    if dtype == _EXPONENTS:
        return _encoded_exponent(x)
    form = _format(dtype)
    wide = type_of(x).dtype == _F64
    integer, mantissa, bias = (_I64, 52, 1023) if wide else (_I32, 23, 127)
    bits = ops.bitcast_convert(x, dtype=integer)
    magnitude = ops.and_(bits, full_like(bits, np.iinfo(integer).max))
    # Round to nearest even: add half a unit minus one, plus one if the last bit kept is odd.
    dropped = mantissa - form.mantissa
    odd = ops.and_(ops.shift_right_logical(magnitude, full_like(bits, dropped)), full_like(bits, 1))
    rounded = ops.add(ops.add(magnitude, odd), full_like(bits, (1 << (dropped - 1)) - 1))
    rounded = ops.shift_right_logical(rounded, full_like(bits, dropped))
    normal = ops.sub(rounded, full_like(bits, (bias - form.bias) << form.mantissa))
    # Adding a number whose last place is the format's smallest number rounds to a multiple of it.
    anchor = np.array(2.0 ** (1 - form.bias - form.mantissa + mantissa), type_of(x).dtype)
    sum_ = ops.add(ops.abs(x), full_like(x, anchor))
    subnormal = ops.sub(
        ops.bitcast_convert(sum_, dtype=integer), full_like(bits, int(anchor.view(integer)))
    )
    least = np.array(2.0 ** (1 - form.bias), type_of(x).dtype).view(integer)
    code = ops.select(ops.lt(magnitude, full_like(bits, int(least))), subnormal, normal)
    overflow = form.overflow if form.infinite or form.signed_zero else 128
    code = ops.min(code, full_like(bits, overflow & 127 if form.signed_zero else overflow))
    negative = ops.lt(bits, full_like(bits, 0))
    if not form.signed_zero:
        negative = ops.and_(
            negative,
            ops.and_(ops.gt(code, full_like(bits, 0)), ops.lt(code, full_like(bits, 128))),
        )
    code = ops.select(negative, ops.or_(code, full_like(bits, 128)), code)
    code = ops.select(ops.ne(x, x), full_like(bits, form.nan), code)
    return convert(code, _U8)


# The format of powers of two: negative numbers, zero and infinity become nan.
_EXPONENTS = np.dtype(ml_dtypes.float8_e8m0fnu)
_NAN = 255


def _decoded_exponent(code: ir.Value) -> ir.Value:
    code = convert(code, _I32)
    bits = ops.shift_left(code, full_like(code, 23))
    # The smallest power of two is subnormal in f32.
    bits = ops.select(ops.eq(code, full_like(code, 0)), full_like(code, 1 << 22), bits)
    value = ops.bitcast_convert(bits, dtype=_F32)
    return ops.select(ops.eq(code, full_like(code, _NAN)), full_like(value, np.nan), value)


def _encoded_exponent(x: ir.Value) -> ir.Value:
    """Encode as the nearest power of two; ties round up."""
    wide = type_of(x).dtype == _F64
    integer, mantissa, bias = (_I64, 52, 1023) if wide else (_I32, 23, 127)
    bits = ops.bitcast_convert(x, dtype=integer)
    rounded = ops.add(bits, full_like(bits, 1 << (mantissa - 1)))
    code = ops.shift_right_logical(rounded, full_like(bits, mantissa))
    code = ops.sub(code, full_like(bits, bias - 127))
    # Numbers below 1.5 * 2**-127 become the smallest power of two, 2**-127.
    least = int(np.array(1.5 * 2.0**-127, type_of(x).dtype).view(integer))
    code = ops.select(ops.lt(bits, full_like(bits, least)), full_like(bits, 0), code)
    code = ops.min(code, full_like(bits, _NAN))
    positive = ops.gt(bits, full_like(bits, 0))
    code = ops.select(positive, code, full_like(bits, _NAN))
    return convert(ops.select(ops.ne(x, x), full_like(bits, _NAN), code), _U8)


# --------------------------------------------------------------------------------------------- both


def widened(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """Decode a stored value to the dtype in which it is computed."""
    return _decoded(x, dtype) if dtype in FLOAT8 else x


def narrowed(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """Encode a computed value for storage: round floats, wrap integers."""
    if dtype in FLOAT8:
        return _encoded(x if type_of(x).dtype == _F64 else convert(x, _F32), dtype)
    return _wrapped(convert(x, storage(dtype)), dtype)


def clamped(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """Clamp a computed value to the range of a narrow dtype; nan stays nan."""
    if dtype in SUB_BYTE:
        info = ml_dtypes.iinfo(dtype)
        low, high = int(info.min), int(info.max)
        return ops.clamp(full_like(x, low), x, full_like(x, high))
    least, most = (full_like(x, float(end(dtype).astype(_F32))) for end in (lowest, highest))
    return ops.select(ops.lt(x, least), least, ops.select(ops.gt(x, most), most, x))
