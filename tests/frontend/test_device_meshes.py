"""The order of devices in meshes: the grid of a TPU's chips, and groups of devices."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gnomon as gn
from gnomon._sharding.topology_order import arranged
from gnomon.experimental import mesh_utils


@dataclass(frozen=True)
class Chip:
    """A device with coordinates."""

    id: int
    coords: tuple[int, ...]
    process_index: int = 0
    slice_index: int = 0


def _chips(*extent: int) -> list[Any]:
    """The chips of a grid, in another order than that of the coordinates."""
    places = list(itertools.product(*map(range, extent)))
    return [Chip(i, places[(7 * i + 3) % len(places)]) for i in range(len(places))]


def _steps(mesh: Any, axis: int) -> list[list[int]]:
    """Differences of coordinates between neighbours along an axis."""
    coords = np.array([chip.coords for chip in mesh.ravel()]).reshape(*mesh.shape, -1)
    return np.abs(np.diff(coords, axis=axis)).reshape(-1, coords.shape[-1]).tolist()


def test_a_ring_over_a_flat_grid() -> None:
    for extent in ((4, 4, 1), (2, 4, 1), (3, 4), (4, 3)):
        chips = _chips(*extent)
        ring = arranged(chips, (len(chips),))
        closed = np.array([*ring, ring[0]], dtype=object)
        assert len(set(ring)) == len(chips)
        assert all(sum(step) == 1 for step in _steps(closed, 0))


def test_axes_of_a_mesh_are_dimensions_of_the_grid() -> None:
    mesh = arranged(_chips(4, 2, 8), (8, 2, 4))
    for axis, dimension in ((0, 2), (1, 1), (2, 0)):
        unit = [int(d == dimension) for d in range(3)]
        assert all(step == unit for step in _steps(mesh, axis))


# Shapes of meshes over grids of chips, with the coordinates of the first row along the last axis.
_ROWS = {
    "two dimensions for one axis": ((4, 4, 4), (4, 16), [(0, 0, 0), (0, 1, 0), (0, 2, 0)]),
    "a divided dimension": ((4, 4, 1), (2, 8), [(0, 0, 0), (0, 1, 0), (1, 0, 0)]),
    "the other part": ((4, 4, 1), (8, 2), [(0, 0, 0), (1, 0, 0)]),
}


@pytest.mark.parametrize("case", _ROWS)
def test_axes_of_other_sizes(case: str) -> None:
    extent, shape, row = _ROWS[case]
    mesh = arranged(_chips(*extent), shape)
    assert mesh.shape == shape and len(set(mesh.ravel())) == mesh.size
    assert [chip.coords for chip in mesh[0]][: len(row)] == row


def test_other_devices_keep_their_order() -> None:
    two_cores = [Chip(i, (i // 2, 0)) for i in range(8)]
    part = [Chip(i, place) for i, place in enumerate(((0, 0), (0, 1), (1, 0)))]
    for devices in (two_cores, part, [object() for _ in range(4)]):
        assert arranged(devices, (len(devices), 1)).ravel().tolist() == devices


def test_groups_with_a_slower_network_between_them() -> None:
    devices = [Chip(i, (i % 4, 0), i // 2, i // 4) for i in range(8)]
    mesh = mesh_utils.create_hybrid_device_mesh((2, 2), (2, 1), devices)
    assert [[d.slice_index for d in row] for row in mesh] == [[0, 0], [0, 0], [1, 1], [1, 1]]
    mesh = mesh_utils.create_hybrid_device_mesh((2,), (4,), devices, process_is_granule=True)
    assert [d.process_index for d in mesh] == [0, 0, 1, 1, 2, 2, 3, 3]
    with pytest.raises(ValueError, match="number of groups, 2, must equal"):
        mesh_utils.create_hybrid_device_mesh((2, 2), (4, 1), devices)
    with pytest.raises(ValueError, match="has no slice_index"):
        mesh_utils.create_hybrid_device_mesh((1,), (1,), gn.devices("cpu")[:1])
    with pytest.raises(ValueError, match="must equal the product of mesh_shape"):
        mesh_utils.create_device_mesh((3,), devices)
