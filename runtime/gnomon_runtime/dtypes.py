"""Dtypes by name. NumPy has most; the others come from `ml_dtypes`, as in IREE's runtime."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["FLOAT0", "NAMES", "NARROW", "dtype_named", "item_bits"]

_PLAIN = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
NARROW = (
    *("bfloat16", "int2", "int4", "uint2", "uint4", "float4_e2m1fn"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
"""Those that NumPy lacks."""

FLOAT0 = np.dtype([("float0", "V")])
"""The dtype of the tangents of integers; programs neither take nor give such arrays."""

NAMES = frozenset((*_PLAIN, *NARROW, "float0"))
"""All dtypes that an artifact may have."""


@functools.cache
def dtype_named(name: str) -> np.dtype[Any]:
    """The dtype of a name in an artifact.

    Raises:
      ValueError: artifacts have no such dtype.
    """
    if name in _PLAIN:
        return np.dtype(name)
    if name == "float0":
        return FLOAT0
    if name not in NARROW:
        raise ValueError(f"artifacts do not support arrays of dtype {name!r}")
    return np.dtype(getattr(ml_dtypes, name))


def item_bits(name: str) -> int:
    """The bits that an element takes in memory; narrower elements take a whole byte."""
    if name in _PLAIN:
        return np.dtype(name).itemsize * 8
    return {"bfloat16": 16, "float0": 0}.get(name, 8)
