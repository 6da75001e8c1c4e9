"""Arithmetic of integers, which wraps, and is defined where the processor's is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from gnomon.backends.kernels.code import Code, Scalar
from gnomon.dialects.types import is_integer

__all__ = ["TABLE", "of_float", "resized", "signed", "to_float"]

DType: TypeAlias = "np.dtype[Any]"


def signed(value: int, bits: int) -> int:
    """The signed number with the bits of a number."""
    value %= 2**bits
    return value - 2**bits if value >= 2 ** (bits - 1) else value


def _is_signed(dtype: DType) -> bool:
    return dtype.kind == "i"


def _number(code: Code, value: int, like: Scalar) -> Scalar:
    return code.constant(signed(value, int(like.type[1:])), like.type)


def _same(name: str) -> Callable[..., Scalar]:
    return lambda code, dtype, *operands: code.same(f"arith.{name}", *operands)


def _by_sign(name: str) -> Callable[..., Scalar]:
    """An operation that has a name for signed and another for unsigned operands."""

    def function(code: Code, dtype: DType, *operands: Scalar) -> Scalar:
        return code.same(f"arith.{name}{'s' if _is_signed(dtype) else 'u'}i", *operands)

    return function


def _quotients(code: Code, dtype: DType, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """A divisor by which the processor can divide, and whether y is 0 or -1."""
    zero, one = _number(code, 0, y), _number(code, 1, y)
    by_zero = code.compare("eq", y, zero)
    safe = code.select(by_zero, one, y)
    overflows = code.constant(False, "i1")
    if _is_signed(dtype):
        # The negation of the least number is itself: division by -1 is done apart.
        overflows = code.compare("eq", y, _number(code, -1, y))
        safe = code.select(overflows, one, safe)
    return safe, by_zero, overflows


def _divide(code: Code, dtype: DType, x: Scalar, y: Scalar) -> Scalar:
    safe, by_zero, by_minus_one = _quotients(code, dtype, x, y)
    quotient = code.same("arith.divsi" if _is_signed(dtype) else "arith.divui", x, safe)
    negated = code.same("arith.subi", _number(code, 0, x), x)
    quotient = code.select(by_minus_one, negated, quotient)
    return code.select(by_zero, _number(code, -1, x), quotient)


def _remainder(code: Code, dtype: DType, x: Scalar, y: Scalar) -> Scalar:
    safe, by_zero, by_minus_one = _quotients(code, dtype, x, y)
    rest = code.same("arith.remsi" if _is_signed(dtype) else "arith.remui", x, safe)
    rest = code.select(by_minus_one, _number(code, 0, x), rest)
    return code.select(by_zero, x, rest)


def _power(code: Code, dtype: DType, x: Scalar, y: Scalar) -> Scalar:
    """By squaring; a negative exponent gives 0 unless the base is 1 or -1."""
    zero, one = _number(code, 0, x), _number(code, 1, x)
    result, base, exponent = (code.variable(x.type, v) for v in (one, x, y))
    with code.repeat(lambda: code.compare("ne", code.value(exponent), zero)):
        rest, square = code.value(exponent), code.value(base)
        factor = code.select(
            code.compare("ne", code.same("arith.andi", rest, one), zero), square, one
        )
        code.assign(result, code.same("arith.muli", code.value(result), factor))
        code.assign(base, code.same("arith.muli", square, square))
        code.assign(exponent, code.same("arith.shrui", rest, one))
    total = code.value(result)
    if not _is_signed(dtype):
        return total
    is_odd = code.compare("ne", code.same("arith.andi", y, one), zero)
    minus_one = _number(code, -1, x)
    of_minus_one = code.select(is_odd, minus_one, one)
    below = code.select(code.compare("eq", x, minus_one), of_minus_one, zero)
    below = code.select(code.compare("eq", x, one), one, below)
    return code.select(code.compare("slt", y, zero), below, total)


def _negate(code: Code, dtype: DType, x: Scalar) -> Scalar:
    return code.same("arith.subi", _number(code, 0, x), x)


def _abs(code: Code, dtype: DType, x: Scalar) -> Scalar:
    if not _is_signed(dtype):
        return x
    is_negative = code.compare("slt", x, _number(code, 0, x))
    return code.select(is_negative, _negate(code, dtype, x), x)


def _sign(code: Code, dtype: DType, x: Scalar) -> Scalar:
    zero = _number(code, 0, x)
    least = _number(code, -1, x) if _is_signed(dtype) else zero
    positive = code.compare("sgt" if _is_signed(dtype) else "ne", x, zero)
    negative = code.select(code.compare("slt", x, zero), least, zero)
    return code.select(positive, _number(code, 1, x), negative)


def _shift(name: str) -> Callable[..., Scalar]:
    """A shift; one by as many bits as there are, or more, shifts all of them out."""

    def function(code: Code, dtype: DType, x: Scalar, y: Scalar) -> Scalar:
        bits = _number(code, 8 * dtype.itemsize, y)
        inside = code.compare("ult", y, bits)
        amount = code.select(inside, y, _number(code, 0, y))
        outside = _number(code, 0, x)
        if name == "shrsi":
            outside = code.same("arith.shrsi", x, _number(code, 8 * dtype.itemsize - 1, x))
        return code.select(inside, code.same(f"arith.{name}", x, amount), outside)

    return function


def _clamp(code: Code, dtype: DType, least: Scalar, x: Scalar, most: Scalar) -> Scalar:
    return _by_sign("min")(code, dtype, _by_sign("max")(code, dtype, x, least), most)


TABLE: dict[str, Callable[..., Any]] = {
    "add": _same("addi"),
    "subtract": _same("subi"),
    "multiply": _same("muli"),
    "divide": _divide,
    "remainder": _remainder,
    "maximum": _by_sign("max"),
    "minimum": _by_sign("min"),
    "power": _power,
    "negate": _negate,
    "abs": _abs,
    "sign": _sign,
    "and": _same("andi"),
    "or": _same("ori"),
    "xor": _same("xori"),
    "not": lambda code, dtype, x: code.same("arith.xori", x, _number(code, -1, x)),
    "shift_left": _shift("shli"),
    "shift_right_logical": _shift("shrui"),
    "shift_right_arithmetic": _shift("shrsi"),
    "popcnt": lambda code, dtype, x: code.same("math.ctpop", x),
    "count_leading_zeros": lambda code, dtype, x: code.same("math.ctlz", x),
    "clamp": _clamp,
}


def to_float(code: Code, x: Scalar, source: DType, type_: str) -> Scalar:
    """An integer or a bool as a float."""
    return code.cast("arith.sitofp" if source.kind == "i" else "arith.uitofp", x, type_)


def of_float(code: Code, x: Scalar, target: DType) -> Scalar:
    """A float as an integer: it saturates, and nan becomes 0."""
    bits, is_signed = 8 * target.itemsize, _is_signed(target)
    type_ = f"i{bits}"
    info = np.iinfo(target)
    # The first numbers beyond are powers of two, so floats of every width hold them.
    high, low = (code.constant(float(n), x.type) for n in (int(info.max) + 1, int(info.min)))
    too_large, too_small = code.compare("oge", x, high), code.compare("olt", x, low)
    is_outside = code.same("arith.ori", too_large, too_small)
    outside = code.same("arith.ori", is_outside, code.compare("uno", x, x))
    inside = code.select(outside, code.constant(0.0, x.type), x)
    number = code.cast("arith.fptosi" if is_signed else "arith.fptoui", inside, type_)
    most, least = (code.constant(signed(int(n), bits), type_) for n in (info.max, info.min))
    return code.select(too_large, most, code.select(too_small, least, number))


def resized(code: Code, x: Scalar, source: DType, type_: str) -> Scalar:
    """An integer or a bool as an integer of another width, whose bits it keeps or drops."""
    if int(type_[1:]) < int(x.type[1:]):
        return code.cast("arith.trunci", x, type_)
    extends_sign = is_integer(source) and source.kind == "i"
    return code.cast("arith.extsi" if extends_sign else "arith.extui", x, type_)
