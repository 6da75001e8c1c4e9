"""The C types of elements: how they are stored, computed with, and written as literals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.dialects.types import (
    TensorType,
    bfloat16,
    is_complex,
    is_floating,
    real_dtype,
    short_name,
)

__all__ = ["COMPLEX_TYPES", "CType", "c_type", "initializer", "literal", "of_type", "part_of"]


# Their layout is that of C's `float complex` and `double complex`, and of C++'s `std::complex`.
COMPLEX_TYPES = """\
#ifndef GNOMON_COMPLEX
#define GNOMON_COMPLEX
typedef struct { float re, im; } gnomon_complex_float;
typedef struct { double re, im; } gnomon_complex_double;
#endif
"""


@dataclass(frozen=True)
class CType:
    """How an element is stored and computed with.

    Attributes:
      stored: the C type in memory.
      computed: the C type of expressions.
      half: the name of a 16-bit float, which is computed in ``float`` and rounded after each
        operation; empty for other types.
      unsigned: the unsigned type in which integers are added, so that they wrap.
      suffix: the suffix of math functions and literals of the type.
    """

    stored: str
    computed: str
    half: str = ""
    unsigned: str = ""
    suffix: str = ""

    def rounded(self, expression: str) -> str:
        """An expression of the computed type, rounded to the precision of the stored one."""
        return f"gnomon_round_{self.half}({expression})" if self.half else expression


def _integer(signed: bool, bits: int) -> CType:
    name = f"{'int' if signed else 'uint'}{bits}_t"
    # Narrower operands would be promoted to int, in which overflow is undefined.
    return CType(name, name, unsigned=f"uint{max(bits, 32)}_t")


_TYPES: dict[np.dtype[Any], CType] = {
    np.dtype(np.bool_): CType("uint8_t", "bool"),
    **{np.dtype(f"int{n}"): _integer(True, n) for n in (8, 16, 32, 64)},
    **{np.dtype(f"uint{n}"): _integer(False, n) for n in (8, 16, 32, 64)},
    np.dtype(np.float16): CType("uint16_t", "float", half="f16", suffix="f"),
    bfloat16: CType("uint16_t", "float", half="bf16", suffix="f"),
    np.dtype(np.float32): CType("float", "float", suffix="f"),
    np.dtype(np.float64): CType("double", "double"),
    **{
        np.dtype(f"complex{bits}"): CType(f"gnomon_complex_{part}", f"gnomon_complex_{part}")
        for bits, part in ((64, "float"), (128, "double"))
    },
}


def c_type(dtype: np.dtype[Any]) -> CType:
    """The C type of a dtype.

    Raises:
      UnsupportedOnTarget: C programs do not support the dtype.
    """
    try:
        return _TYPES[dtype]
    except KeyError:
        raise UnsupportedOnTarget(
            f"programs in C do not compute with {short_name(dtype)}; they take bool, integers of "
            "8 to 64 bits, f16, bf16, f32, f64, c64 and c128"
        ) from None


def of_type(type_: TensorType) -> CType:
    """The C type of an array's elements."""
    return c_type(type_.dtype)


def part_of(dtype: np.dtype[Any]) -> str:
    """The C type of the parts of a complex number."""
    return c_type(real_dtype(dtype)).computed


def initializer(value: Any, dtype: np.dtype[Any]) -> str:
    """A constant of the computed type, as the initial value of a variable or an element."""
    if not is_complex(dtype):
        return literal(value, dtype)
    number, part = complex(value), real_dtype(dtype)
    return f"{{{literal(number.real, part)}, {literal(number.imag, part)}}}"


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """A constant of the computed type."""
    kind = c_type(dtype)
    if is_complex(dtype):
        return f"({kind.computed}){initializer(value, dtype)}"
    if dtype == np.bool_:
        return "true" if value else "false"
    if not is_floating(dtype):
        integer = int(value)
        # The least integer is an expression: C reads -2147483648 as the negation of a number that
        # int does not hold.
        if dtype == np.int64:
            return f"(-{-(integer + 1)}LL - 1)" if integer == -(2**63) else f"{integer}LL"
        if dtype == np.uint64:
            return f"{integer}ULL"
        if dtype == np.uint32:
            return f"{integer}u"
        return "(-2147483647 - 1)" if integer == -(2**31) else str(integer)
    number = float(value)
    if math.isnan(number):
        return f"(({kind.computed})NAN)"
    if math.isinf(number):
        return f"({'-' if number < 0 else ''}({kind.computed})INFINITY)"
    text = repr(number) if number.is_integer() and abs(number) < 2**24 else number.hex()
    return f"({text}{kind.suffix})" if text.startswith("-") else f"{text}{kind.suffix}"
