"""The bits of numbers: casts that keep them, and rounding to fewer of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon.backends.kernels.code import Code, Element, Pair, Place, Scalar
from gnomon.backends.kernels.integers import signed
from gnomon.backends.kernels.types import kind_of
from gnomon.backends.kernels.values import Flat, Index, Lazy, Value
from gnomon.dialects.types import TensorType, is_complex

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder

__all__ = ["bit_cast", "reduced_precision"]

DType = np.dtype[Any]


def _width(dtype: DType) -> int:
    """The bits of an element: those of a part of a complex number, and 1 of a bool."""
    return 1 if dtype == np.bool_ else 8 * dtype.itemsize // (2 if is_complex(dtype) else 1)


def _bits(code: Code, x: Scalar, dtype: DType) -> Scalar:
    """The bits of a real number."""
    kind = kind_of(dtype)
    if kind.stored.startswith("i"):
        return x
    return code.cast(
        "arith.bitcast", code.cast("arith.truncf", x, kind.stored), f"i{_width(dtype)}"
    )


def _number(code: Code, bits: Scalar, dtype: DType) -> Scalar:
    """The real number with the given bits."""
    kind = kind_of(dtype)
    if kind.stored.startswith("i"):
        return bits
    return code.cast("arith.extf", code.cast("arith.bitcast", bits, kind.stored), kind.computed)


def bit_cast(x: Value, type_: TensorType) -> Value:
    """A value whose memory is read as elements of another type.

    If the elements are narrower, the last dimension numbers the parts of each element; if they are
    wider, the last dimension of the operand numbers the parts of an element of the result.
    """
    source, target = x.type.dtype, type_.dtype
    kind_of(source), kind_of(target)
    if source == target:
        return x
    # Parts of complex numbers are along one dimension more.
    parts = [_width(t) * (2 if is_complex(t) else 1) for t in (source, target)]

    def element(builder: Builder, index: Index | Flat) -> Element:
        code = builder.code

        def bits_at(place: Index | Flat) -> list[Scalar]:
            value = x.element(builder, place)
            each = (value.re, value.im) if isinstance(value, Pair) else (value,)
            return [_bits(code, part, source) for part in each]

        if x.type.rank == type_.rank:
            bits = bits_at(index)
        elif parts[0] > parts[1]:
            assert not isinstance(index, Flat)
            bits = [_part(code, bits_at(index[:-1]), index[-1], _width(target))]
        else:
            assert not isinstance(index, Flat)
            bits = [b for k in range(x.type.shape[-1]) for b in bits_at((*index, k))]
        wanted = 2 if is_complex(target) else 1
        if len(bits) != wanted or int(bits[0].type[1:]) != _width(target):
            per_part = len(bits) // wanted
            bits = [
                _joined(code, bits[i : i + per_part], _width(target))
                for i in range(0, len(bits), per_part)
            ]
        numbers = [_number(code, b, target) for b in bits]
        return Pair(*numbers) if is_complex(target) else numbers[0]

    is_flat = type_.rank == 1 or (x.is_flat and x.type.rank == type_.rank)
    return Lazy(type_, element, x.reads, is_flat)


def _part(code: Code, wholes: list[Scalar], number: Place, width: int) -> Scalar:
    """One of the parts of an element, the lowest bits first."""
    whole = wholes[0]
    per_whole = int(whole.type[1:]) // width
    if len(wholes) == 2:
        half, number = code.divided(number, per_whole)
        is_first = code.compare("eq", code.at(half), code.at(0))
        whole = code.select(is_first, *wholes)
    if per_whole == 1:
        return whole
    amount = code.cast("arith.index_castui", code.at(code.times(number, width)), whole.type)
    return code.cast("arith.trunci", code.same("arith.shrui", whole, amount), f"i{width}")


def _joined(code: Code, parts: list[Scalar], width: int) -> Scalar:
    """The integer that consists of parts, the lowest bits first."""
    each, type_ = int(parts[0].type[1:]), f"i{width}"
    total = code.cast("arith.extui", parts[0], type_)
    for k, part in enumerate(parts[1:], 1):
        wide = code.cast("arith.extui", part, type_)
        shifted = code.same("arith.shli", wide, code.constant(k * each, type_))
        total = code.same("arith.ori", total, shifted)
    return total


def reduced_precision(code: Code, x: Scalar, dtype: DType, exponent: int, mantissa: int) -> Scalar:
    """A float rounded to fewer bits of exponent and mantissa, in the computed type."""
    width = _width(dtype)
    fraction = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[kind_of(dtype).stored]
    own = width - 1 - fraction
    bits, type_ = _bits(code, x, dtype), f"i{width}"

    def number(value: int) -> Scalar:
        return code.constant(signed(value, width), type_)

    def same(name: str, *operands: Scalar) -> Scalar:
        return code.same(f"arith.{name}", *operands)

    infinity = ((1 << own) - 1) << fraction
    sign = same("andi", bits, number(1 << (width - 1)))
    size = start = same("xori", bits, sign)
    if mantissa < fraction:
        dropped = number(fraction - mantissa)
        last = same("andi", same("shrui", size, dropped), number(1))
        bias = number((1 << (fraction - mantissa - 1)) - 1)
        size = same("addi", same("addi", size, bias), last)
        size = same("shli", same("shrui", size, dropped), dropped)
    if exponent < own:
        center, largest = (1 << (own - 1)) - 1, (1 << (exponent - 1)) - 1
        field = same("shrui", size, number(fraction))
        too_large = code.compare("ugt", field, number(center + largest))
        too_small = code.compare("ule", field, number(center - largest))
        size = code.select(too_large, number(infinity), size)
        size = code.select(too_small, number(0), size)
    is_nan = code.compare("ugt", start, number(infinity))
    result = code.select(is_nan, bits, same("ori", sign, size))
    return _number(code, result, dtype)
