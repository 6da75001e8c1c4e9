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
    """The number of dimensions of an array.

    Args:
      a: an array, a scalar or a nested list.
    Returns:
      A Python int; 0 for scalars.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.ndim(gnp.zeros((2, 3))), gnp.ndim(1.0)
      (2, 0)
    """
    found = getattr(a, "ndim", None)
    return len(_shape("ndim", a)) if found is None else found


def shape(a: ArrayLike) -> tuple[int, ...]:
    """The size of each dimension of an array.

    Args:
      a: an array, a scalar or a nested list.
    Returns:
      A tuple of Python ints; empty for scalars.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.shape(gnp.zeros((2, 3))), gnp.shape(1.0)
      ((2, 3), ())
    """
    found = getattr(a, "shape", None)
    return _shape("shape", a) if found is None else found


def size(a: ArrayLike, axis: int | tuple[int, ...] | None = None) -> int:
    """The number of elements of an array, or the product of the sizes of some dimensions.

    Args:
      a: an array, a scalar or a nested list.
      axis: the dimension or dimensions to count; None means all.
    Returns:
      A Python int.
    Raises:
      ValueError: there is no such dimension, or one is given twice.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.size(gnp.zeros((2, 3))), gnp.size(gnp.zeros((2, 3)), axis=1)
      (6, 3)
    """
    found = getattr(a, "shape", None)
    sizes = _shape("size", a) if found is None else found
    if axis is None:
        return math.prod(sizes)
    return math.prod(sizes[i] for i in axis_tuple("size", axis, len(sizes)))
