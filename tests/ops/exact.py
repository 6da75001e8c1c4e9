"""References of elementwise ops in exact or wider arithmetic: whole numbers, long doubles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from gnomon.dialects.types import is_complex, is_floating, real_dtype, short_name

Reference = Callable[..., np.ndarray]

INTEGERS = "i2 i4 i8 i16 i32 i64 u2 u4 u8 u16 u32 u64"
FLOATS = "f16 bf16 f32 f64 f8_e3m4 f8_e4m3 f8_e4m3fn f8_e5m2 f8_e4m3b11fnuz f8_e4m3fnuz f8_e5m2fnuz"
COMPLEX = "c64 c128"
EDGES = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)


def bits_of(dtype: np.dtype) -> int:
    """The width of an integer dtype, from its name."""
    return int(short_name(dtype)[1:])


def is_signed(dtype: np.dtype) -> bool:
    """Whether an integer dtype is signed, from its name."""
    return short_name(dtype)[0] == "i"


def wrapped(values: list[int], shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Integers modulo the dtype's range."""
    if dtype == np.bool_:
        return np.array(values, np.bool_).reshape(shape)
    modulus = 1 << bits_of(dtype)
    half = modulus // 2 if is_signed(dtype) else 0
    reduced = [(v + half) % modulus - half for v in values]
    return np.array(reduced, np.int64 if half else np.uint64).astype(dtype).reshape(shape)


def whole(function: Callable[..., int], *, to: Any = None, width: bool = False) -> Reference:
    """A function of Python integers, element by element; results wrap.

    Args:
      function: the function of integers.
      to: the dtype of the result; by default that of the operands.
      width: pass the width in bits too, as the keyword ``bits``.
    """

    def reference(*arrays: np.ndarray) -> np.ndarray:
        dtype, shape = arrays[0].dtype, arrays[0].shape
        extra = {"bits": bits_of(dtype)} if width else {}
        columns = [[int(v) for v in a.reshape(-1)] for a in arrays]
        values = [function(*row, **extra) for row in zip(*columns, strict=True)]
        return wrapped(values, shape, np.dtype(to) if to is not None else dtype)

    return reference


def wide(function: Callable[..., Any]) -> Reference:
    """A function in long double or complex long double, rounded to the operands' dtype."""

    def reference(*arrays: np.ndarray) -> np.ndarray:
        dtype = arrays[0].dtype
        result = np.asarray(function(*(widened(a) for a in arrays)))
        if result.dtype == np.bool_:
            return result
        return rounded(result, dtype if np.iscomplexobj(result) else real_dtype(dtype))

    return reference


def widened(array: np.ndarray) -> np.ndarray:
    """An array in long double precision; integers and bools are unchanged."""
    if is_complex(array.dtype):
        return array.astype(np.clongdouble)
    if not is_floating(array.dtype):
        return array
    return array.astype(np.float64 if array.dtype.itemsize < 8 else array.dtype).astype(
        np.longdouble
    )


def rounded(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A long double array in another dtype."""
    if dtype in (np.float32, np.float64) or is_complex(dtype):
        return array.astype(dtype)
    return array.astype(np.float64).astype(dtype)


def integer_edges(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Integers at which functions tend to fail: ends of the range, small ones, the width."""
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    values = {low, low + 1, high, high - 1, high // 2, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7}
    values |= {bits_of(dtype), bits_of(dtype) - 1, bits_of(dtype) + 1, 100}
    fitting = sorted(v for v in values if low <= v <= high)
    chosen = rng.integers(0, len(fitting), shape)
    return wrapped([fitting[i] for i in chosen.reshape(-1)], shape, dtype)


def nonzero_edges(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """`integer_edges` without zeros and minus ones: divisors that every machine divides by."""
    edges = integer_edges(rng, shape, dtype)
    as_int = edges.astype(np.int64 if is_signed(dtype) else np.uint64)
    bad = (as_int == 0) | (as_int == -1) if is_signed(dtype) else as_int == 0
    return np.where(bad, np.array(3, dtype), edges)
