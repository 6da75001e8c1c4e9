"""The C types of elements: in the parameters of a function, and in its body."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon.backends.kernels.types import kind_of
from gnomon.dialects.types import TensorType, is_complex

__all__ = ["COMPLEX_TYPES", "C_TYPES", "float_literal", "integer_literal", "parameter_type"]


# Their layout is that of C's `float complex` and `double complex`, and of C++'s `std::complex`.
COMPLEX_TYPES = """\
#ifndef GNOMON_COMPLEX
#define GNOMON_COMPLEX
typedef struct { float re, im; } gnomon_complex_float;
typedef struct { double re, im; } gnomon_complex_double;
#endif
"""

# The C type of each scalar type of MLIR. 16-bit floats are their bits.
C_TYPES = {
    "i1": "bool",
    **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    "index": "int64_t",
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "f32": "float",
    "f64": "double",
}


def parameter_type(type_: TensorType) -> str:
    """The C type of the elements of an argument or result."""
    dtype: np.dtype[Any] = type_.dtype
    stored = C_TYPES[kind_of(dtype).stored]
    if is_complex(dtype):
        return f"gnomon_complex_{stored}"
    return f"u{stored}" if dtype.kind in "bu" else stored


def integer_literal(value: int, bits: int) -> str:
    """A constant of a signed integer type."""
    # The least integer is an expression: C reads -2147483648 as the negation of a number that int
    # does not hold.
    if bits == 64:
        return f"(-{-(value + 1)}LL - 1)" if value == -(2**63) else f"{value}LL"
    return "(-2147483647 - 1)" if value == -(2**31) else str(value)


def float_literal(number: float, type_: str) -> str:
    """A constant of ``float`` or ``double``."""
    if math.isnan(number):
        return f"(({type_})NAN)"
    if math.isinf(number):
        return f"({'-' if number < 0 else ''}({type_})INFINITY)"
    text = repr(number) if number.is_integer() and abs(number) < 2**24 else number.hex()
    suffix = "f" if type_ == "float" else ""
    return f"({text}{suffix})" if text.startswith("-") else f"{text}{suffix}"
