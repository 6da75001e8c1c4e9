"""Interpolation of images of any number of dimensions."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gnomon.numpy as gnp
from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.dialects.types import is_integer

__all__ = ["map_coordinates"]


def _mirrored(index: Array, size: int) -> Array:
    """Reflect indices at the centers of the outermost elements."""
    distance = size - 1
    if not distance:
        return gnp.zeros_like(index)
    return gnp.abs((index + distance) % (2 * distance) - distance)


# For each mode, the index of the element that replaces an index beyond the edge.
_FIXED: dict[str, Callable[[Array, int], Array]] = {
    "constant": lambda index, size: index,
    "nearest": lambda index, size: gnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirrored,
    "reflect": lambda index, size: (_mirrored(2 * index + 1, 2 * size + 1) - 1) // 2,
}


def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[Any],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """The values of an array at coordinates between its elements.

    Args:
      input: an array.
      coordinates: for each dimension of ``input``, an array or a list of coordinates.
      order: 0 for the nearest element, 1 for linear interpolation.
      mode: the values beyond the edges: ``"constant"`` (``cval``), ``"nearest"``, ``"mirror"``,
        ``"wrap"`` (periodic), ``"reflect"``.
      cval: see ``mode``.
    Returns:
      An array of the dtype of ``input``, of the shape of the coordinates.
    Raises:
      ValueError: there is not one array of coordinates for each dimension.
      NotImplementedError: the order or the mode is not supported.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.arange(12.0).reshape(3, 4)
      >>> map_coordinates(x, [gnp.array([0.5, 1.5]), gnp.array([1.5, 2.5])], order=1)
      Array([3.5, 8.5], dtype=float32)
    """
    # As in JAX, lists are taken, too.
    x = gnp.asarray(input)
    places = [gnp.asarray(c) for c in coordinates]
    if len(places) != x.ndim:
        raise ValueError(
            f"coordinates must be a sequence of length input.ndim, but {len(places)} != {x.ndim}"
        )
    if mode not in _FIXED:
        raise NotImplementedError(
            f"map_coordinates does not support mode {mode!r}; supported are {', '.join(_FIXED)}"
        )
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates requires order 0 or 1, got {order}")
    outside = gnp.asarray(cval, x.dtype)
    nodes = [
        [_node(index, weight, size, mode) for index, weight in _neighbours(place, order)]
        for place, size in zip(places, x.shape, strict=True)
    ]
    total: Any = None
    for chosen in itertools.product(*nodes):
        value = x[tuple(index for index, _, _ in chosen)]
        if mode == "constant":
            inside = functools.reduce(operator.and_, (valid for _, _, valid in chosen))
            value = gnp.where(inside, value, outside)
        for _, weight, _ in chosen:
            value = weight * value
        total = value if total is None else total + value
    if is_integer(x.dtype) and not is_integer(total.dtype):
        total = lax.round(total)
    return gnp.astype(total, x.dtype)


def _neighbours(place: Array, order: int) -> list[tuple[Array, Any]]:
    """Indices next to coordinates, and their weights."""
    if order == 0:
        nearest = place if is_integer(place.dtype) else lax.round(place)
        return [(gnp.astype(nearest, np.int32), gnp.ones((), place.dtype))]
    lower = gnp.floor(place)
    part = place - lower
    index = gnp.astype(lower, np.int32)
    return [(index, 1 - part), (index + 1, part)]


def _node(index: Array, weight: Any, size: int, mode: str) -> tuple[Array, Any, Array]:
    return _FIXED[mode](index, size), weight, (index >= 0) & (index < size)
