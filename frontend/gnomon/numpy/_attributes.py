"""Shape, size and rank of anything array-like."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon._arrays.annotations import ArrayLike
from gnomon._diagnostics.errors import warn_user
from gnomon.numpy._arguments import as_array, axis_tuple


def _shape(function: str, a: Any) -> tuple[int, ...]:
    try:
        return as_array(function, a).shape
    except TypeError:
        # Of anything else, the shape that NumPy sees, as in JAX.
        warn_user(
            f"{function} of a {type(a).__name__} is deprecated: make an array of it with "
            "gnomon.numpy.array",
            DeprecationWarning,
        )
        return np.shape(a)


def ndim(a: ArrayLike) -> int:
    """The number of dimensions."""
    found = getattr(a, "ndim", None)
    return len(_shape("ndim", a)) if found is None else found


def shape(a: ArrayLike) -> tuple[int, ...]:
    """The length of each dimension."""
    found = getattr(a, "shape", None)
    return _shape("shape", a) if found is None else found


def size(a: ArrayLike, axis: int | tuple[int, ...] | None = None) -> int:
    """The number of elements, or the product of the lengths of some dimensions.

    Raises:
      ValueError: there is no such dimension, or one is given twice.
    """
    found = getattr(a, "shape", None)
    sizes = _shape("size", a) if found is None else found
    if axis is None:
        return math.prod(sizes)
    return math.prod(sizes[i] for i in axis_tuple("size", axis, len(sizes)))
