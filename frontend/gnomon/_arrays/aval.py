"""The type of a value before the program runs: shape, dtype, and whether the dtype is weak."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.dialects.types import TensorType

__all__ = ["ShapedArray", "shaped_array"]


class ShapedArray:
    """A shape, a dtype, and the weak-type flag.

    Interned: made by `shaped_array` only, and compared by identity, so that a signature is a tuple
    of pointers.

    Attributes:
      shape: a tuple of ints.
      dtype: a NumPy dtype.
      weak_type: the dtype came from a Python scalar and gives way to others in promotion.
      type: the `TensorType` of the dialect.
    """

    __slots__ = ("dtype", "shape", "type", "weak_type")

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak_type: bool
    type: TensorType

    def __new__(cls, *args: Any, **kwargs: Any) -> ShapedArray:
        """Calls go to `shaped_array`."""
        return shaped_array(*args, **kwargs)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an unsized value: its shape is ()")
        return self.shape[0]

    def update(
        self,
        shape: tuple[int, ...] | None = None,
        dtype: Any = None,
        weak_type: bool | None = None,
    ) -> ShapedArray:
        """The same with some parts replaced."""
        return shaped_array(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
        )

    def strip_weak_type(self) -> ShapedArray:
        """The same with a strong dtype."""
        return shaped_array(self.shape, self.dtype) if self.weak_type else self

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self}{weak})"

    def __reduce__(self) -> Any:
        return shaped_array, (self.shape, self.dtype, self.weak_type)


_interned: dict[tuple[tuple[int, ...], np.dtype[Any], bool], ShapedArray] = {}


def shaped_array(shape: tuple[int, ...], dtype: Any, weak_type: bool = False) -> ShapedArray:
    """The one `ShapedArray` of these arguments."""
    key = (shape, dtype, weak_type)
    try:
        return _interned[key]
    except (KeyError, TypeError):
        pass
    # A list of NumPy ints, a scalar type, ...: bring the key to its normal form, and look again.
    shape = tuple(int(d) for d in shape)
    dtype = np.dtype(dtype)
    weak_type = bool(weak_type)
    aval = object.__new__(ShapedArray)
    aval.shape, aval.dtype, aval.weak_type = shape, dtype, weak_type
    aval.type = TensorType(shape, dtype)
    # setdefault: another thread may have come first, and identity must hold.
    return _interned.setdefault((shape, dtype, weak_type), aval)
