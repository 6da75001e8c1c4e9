"""The types of arguments: anything that is read as an array, a dtype, a shape.

`gnomon.typing` exports those for arrays and dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, SupportsIndex, runtime_checkable

import numpy as np

from gnomon._arrays.array import Array
from gnomon._sharding.device import Device
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._sharding.sharding import Sharding

__all__ = [
    "ArrayLike",
    "ArraysLike",
    "DTypeLike",
    "DeviceLike",
    "OutSharding",
    "ShapeLike",
    "SupportsDType",
]


@runtime_checkable
class SupportsDType(Protocol):
    """Anything that has a dtype, such as the scalar types of `gnomon.numpy`."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""


ArrayLike = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
"""An array or a scalar. A list is neither: convert it with `gnomon.numpy.array`."""

ArraysLike = Array | np.ndarray | Sequence[ArrayLike]
"""Several arrays: a sequence of them, or the slices of one along its first dimension."""

DTypeLike = str | type[Any] | np.dtype | SupportsDType
"""Anything that names a dtype: ``"float32"``, ``gnomon.numpy.float32``, ``float``."""

ShapeLike = SupportsIndex | Sequence[SupportsIndex] | np.ndarray
"""The length of one dimension, or of each."""

DeviceLike = Device | Sharding
"""The place of an array: a device, or a sharding."""

OutSharding = Sharding | PartitionSpec
"""The distribution of a result over devices."""
