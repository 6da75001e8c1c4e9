"""Arrays in Python's memory as IREE sees them: element types, and how buffers are used."""

from __future__ import annotations

from typing import Any

import iree.runtime as rt
import numpy as np

__all__ = ["ELEMENT_TYPES", "IMPORTED_USAGE_BIT", "MEMORY_TYPE", "OWNED_USAGE"]

_E = rt.HalElementType

# Of the dtypes that NumPy has itself.
ELEMENT_TYPES: dict[np.dtype[Any], Any] = {
    np.dtype(dtype): element
    for dtype, element in (
        (np.bool_, _E.BOOL_8),
        (np.int8, _E.SINT_8),
        (np.int16, _E.SINT_16),
        (np.int32, _E.SINT_32),
        (np.int64, _E.SINT_64),
        (np.uint8, _E.UINT_8),
        (np.uint16, _E.UINT_16),
        (np.uint32, _E.UINT_32),
        (np.uint64, _E.UINT_64),
        (np.float16, _E.FLOAT_16),
        (np.float32, _E.FLOAT_32),
        (np.float64, _E.FLOAT_64),
        (np.complex64, _E.COMPLEX_64),
        (np.complex128, _E.COMPLEX_128),
    )
}

MEMORY_TYPE = int(rt.MemoryType.DEVICE_LOCAL) | int(rt.MemoryType.HOST_VISIBLE)
OWNED_USAGE = int(rt.BufferUsage.DEFAULT) | int(rt.BufferUsage.MAPPING)
# No compiled program asks for this bit, and every view of a buffer inherits it: it marks memory
# that belongs to NumPy, so that a result that is a view of an argument can be distinguished.
IMPORTED_USAGE_BIT = int(rt.BufferUsage.SHARING_IMMUTABLE)
