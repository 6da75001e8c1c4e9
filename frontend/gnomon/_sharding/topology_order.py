"""The order of devices in a mesh: neighbours along an axis are neighbours in the hardware."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gnomon._sharding.device import Device

__all__ = ["arranged"]


def arranged(devices: Sequence[Device], shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """The devices as an array of a shape, in an order that suits their topology.

    Devices that report coordinates, such as the chips of a TPU, form a grid. Each axis of the
    shape gets dimensions of the grid, the last axis first: as many whole dimensions as multiply
    to its size, or parts of them. A single axis over a flat grid is a ring of neighbours. Other
    devices keep their order.

    Args:
      devices: as many as the shape has elements.
      shape: the size of each axis.
    """
    sizes = tuple(shape)
    grid = _grid(devices)
    if grid is None:
        flat = np.empty(len(devices), dtype=object)
        flat[:] = list(devices)
        return flat.reshape(sizes)
    ring = _ring([n for n in grid.shape if n > 1]) if max(sizes) == len(devices) else None
    if ring is not None:
        squeezed = grid.reshape([n for n in grid.shape if n > 1])
        flat = np.empty(len(devices), dtype=object)
        flat[:] = [squeezed[place] for place in ring]
        return flat.reshape(sizes)
    parts = _assignment(sizes, grid.shape)
    return grid.reshape(sizes) if parts is None else _transposed(grid, sizes, parts)


def _grid(devices: Sequence[Device]) -> np.ndarray[Any, Any] | None:
    """The devices by their coordinates; None unless they fill a box, one at each place."""
    places = [tuple(getattr(device, "coords", ())) for device in devices]
    if not places or not places[0] or len({len(place) for place in places}) > 1:
        return None
    low = np.min(places, axis=0)
    extent = tuple(int(n) for n in np.max(places, axis=0) - low + 1)
    if math.prod(extent) != len(devices) or len(set(places)) != len(devices):
        return None
    grid = np.empty(extent, dtype=object)
    for device, place in zip(devices, places, strict=True):
        grid[tuple(int(n) for n in place - low)] = device
    return grid


def _ring(sizes: Sequence[int]) -> list[tuple[int, int]] | None:
    """A closed walk over a flat grid from neighbour to neighbour; None if there is none."""
    if len(sizes) != 2:
        return None
    columns, rows = sizes
    if rows % 2:
        walk = _ring((rows, columns)) if columns % 2 == 0 else None
        return None if walk is None else [(column, row) for row, column in walk]
    there = [(column, 0) for column in range(columns)]
    for row in range(1, rows):
        inner = range(1, columns) if row % 2 == 0 else range(columns - 1, 0, -1)
        there += [(column, row) for column in inner]
    return there + [(0, row) for row in range(rows - 1, 0, -1)]


def _assignment(sizes: Sequence[int], grid: Sequence[int]) -> list[tuple[int, ...]] | None:
    """For each axis, the factor that it takes of each dimension of the grid; None if impossible."""
    if not sizes:
        return []
    *others, last = sizes
    for factors in _factors(last, grid):
        rest = [n // factor for n, factor in zip(grid, factors, strict=True)]
        found = _assignment(others, rest)
        if found is not None:
            return [*found, factors]
    return None


def _factors(size: int, grid: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The ways to take a size from a grid: few divided dimensions first, then many whole ones."""
    divisors = [[d for d in range(n, 0, -1) if n % d == 0] for n in grid]
    ways = [way for way in itertools.product(*divisors) if math.prod(way) == size]

    def cost(way: tuple[int, ...]) -> tuple[int, int, list[bool]]:
        divided = sum(1 < d < n for d, n in zip(way, grid, strict=True))
        used = [d > 1 for d in way]
        return divided, -sum(used), [not u for u in used]

    return iter(sorted(ways, key=cost))


def _transposed(
    grid: np.ndarray[Any, Any], sizes: Sequence[int], parts: Sequence[tuple[int, ...]]
) -> np.ndarray[Any, Any]:
    """The grid with its dimensions divided, and put together again as axes.

    The part of a dimension that a later axis takes varies faster.
    """
    axes = len(sizes)
    divided = [parts[axis][dimension] for dimension in range(grid.ndim) for axis in range(axes)]
    order = [dimension * axes + axis for axis in range(axes) for dimension in range(grid.ndim)]
    return grid.reshape(divided).transpose(order).reshape(sizes)
