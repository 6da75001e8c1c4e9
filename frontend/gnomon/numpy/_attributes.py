"""Shape, size and rank of anything array-like."""

from __future__ import annotations

import operator
from typing import Any

from gnomon.numpy._arguments import as_array


def ndim(a: Any) -> int:
    """The number of dimensions."""
    found = getattr(a, "ndim", None)
    return as_array("ndim", a).ndim if found is None else found


def shape(a: Any) -> tuple[int, ...]:
    """The length of each dimension."""
    found = getattr(a, "shape", None)
    return as_array("shape", a).shape if found is None else found


def size(a: Any, axis: int | None = None) -> int:
    """The number of elements, or the length of one dimension."""
    sizes = shape(a)
    if axis is not None:
        return sizes[operator.index(axis)]
    result = 1
    for n in sizes:
        result *= n
    return result
