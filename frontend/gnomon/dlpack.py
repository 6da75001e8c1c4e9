"""Exchange of arrays with other libraries, without a copy where possible."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import gnomon.numpy
from gnomon._arrays.array import Array

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

__all__ = ["from_dlpack", "is_supported_dtype"]


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """Convert an array of another library by the DLPack protocol.

    Args:
      external_array: anything with ``__dlpack__``.
      device: where the result is placed; None means the default device.
      copy: False shares the memory, which must not be written to any more; otherwise it is copied.

    Example:
      >>> import numpy as np
      >>> from gnomon import dlpack
      >>> dlpack.from_dlpack(np.arange(3, dtype=np.float32))
      Array([0., 1., 2.], dtype=float32)

    See also:
      `gnomon.numpy.from_dlpack`, the same function
    """
    return gnomon.numpy.from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be exchanged by DLPack.

    Args:
      dtype: anything that ``np.dtype`` takes.

    Example:
      >>> from gnomon import dlpack
      >>> dlpack.is_supported_dtype("float32"), dlpack.is_supported_dtype("int4")
      (True, False)
    """
    found = np.dtype(dtype)
    return found.kind in "biuc" or found == _BFLOAT16 or (found.kind == "f" and found.itemsize > 1)
