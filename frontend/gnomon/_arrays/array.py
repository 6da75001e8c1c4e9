"""`Array`, the type of every value of gnomon.

Operators, methods such as ``sum`` and indexing are installed on it by `gnomon.numpy`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon._arrays.aval import ShapedArray
from gnomon._arrays.methods import ArrayMethods

__all__ = ["Array"]


class Array(ArrayMethods):
    """An immutable array: the type of every value of gnomon, traced ones included.

    ``isinstance(x, gnomon.Array)`` is the test for one. Arrays are made by `gnomon.numpy.array`,
    `gnomon.numpy.asarray`, `gnomon.numpy.zeros` and so on, not by calling this class.
    """

    __slots__ = ()
    # NumPy's binary operators step back in favour of ours: np.ones(3) + x is an Array.
    __array_priority__ = 100

    def __new__(cls, *args: Any, **kwargs: Any) -> Array:
        if cls is Array:
            raise TypeError(
                "gnomon.Array is for isinstance checks and annotations; make arrays with "
                "gnomon.numpy.array or gnomon.numpy.asarray"
            )
        return object.__new__(cls)

    @property
    def aval(self) -> ShapedArray:
        """Shape, dtype and weak type in one interned object."""
        raise NotImplementedError

    def numpy_value(self) -> np.ndarray[Any, Any]:
        """The value, which must not be written to; raises if it is not known."""
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        raise NotImplementedError

    def block_until_ready(self) -> Array:
        """Wait until the value is computed; return the array itself."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self.aval.dtype

    @property
    def weak_type(self) -> bool:
        """Whether the dtype came from a Python scalar, and so gives way to others in promotion."""
        return self.aval.weak_type

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of unsized object: the array has no dimensions")
        return shape[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "arrays are immutable and take no item assignment: instead of x[idx] = y write "
            "x = x.at[idx].set(y) (for x[idx] += y: x = x.at[idx].add(y))"
        )

    def __delitem__(self, index: Any) -> None:
        raise TypeError("arrays are immutable: elements cannot be deleted; see gnomon.numpy.delete")
