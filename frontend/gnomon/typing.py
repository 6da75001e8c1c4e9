"""Types for annotations of functions that take arrays."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from gnomon._arrays.array import Array


@runtime_checkable
class SupportsDType(Protocol):
    """What has a dtype, such as the scalar types of `gnomon.numpy`."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""


# What functions take where they want an array: arrays and scalars, no lists. Use it for arguments,
# and `gnomon.Array` for results.
ArrayLike = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex

# What names a dtype: "float32", gnomon.numpy.float32, np.dtype("float32"), float.
DTypeLike = str | type[Any] | np.dtype | SupportsDType

__all__ = ["ArrayLike", "DTypeLike"]
