"""Arrays of devices for `gnomon.sharding.Mesh`, in an order that suits the hardware."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._sharding.device import Device, devices_of
from gnomon._sharding.topology_order import arranged

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Device] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:
    """An array of devices for a mesh; `gnomon.make_mesh` makes the mesh itself.

    Args:
      mesh_shape: the size of each axis.
      devices: the devices; by default all `devices`.
      contiguous_submeshes: must be False.
      allow_split_physical_axes: ignored: a dimension of the hardware may always be divided among
        several axes, where no other order exists.
    Raises:
      ValueError: the number of devices is not the product of the sizes.

    Example:
      >>> from gnomon.experimental import mesh_utils
      >>> mesh_utils.create_device_mesh((1, 1)).shape
      (1, 1)
    """
    if contiguous_submeshes:
        raise NotImplementedError("create_device_mesh: contiguous_submeshes is not supported")
    found = devices_of(None) if devices is None else list(devices)
    sizes = tuple(mesh_shape)
    if math.prod(sizes) != len(found):
        raise ValueError(
            f"create_device_mesh: the number of devices, {len(found)}, must equal the product of "
            f"mesh_shape {sizes}"
        )
    return arranged(found, sizes)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Device] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:
    """An array of devices for a mesh over several groups with a slower network between them.

    Args:
      mesh_shape: the size of each axis inside of a group.
      dcn_mesh_shape: the number of groups along each axis.
      devices: the devices; by default all `devices`.
      process_is_granule: whether a group is the devices of a process, rather than those with one
        ``slice_index``.
      should_sort_granules_by_key: whether groups are ordered by their index, rather than as they
        occur among the devices.
      allow_split_physical_axes: ignored, see `create_device_mesh`.
    Returns:
      An array whose axes have the sizes ``mesh_shape[i] * dcn_mesh_shape[i]``.
    Raises:
      ValueError: the number of groups or of their devices does not fit the shapes.

    Example:
      >>> from gnomon.experimental import mesh_utils
      >>> mesh_utils.create_hybrid_device_mesh((1, 1), (1, 1), process_is_granule=True).shape
      (1, 1)
    """
    found = devices_of(None) if devices is None else list(devices)
    attribute = "process_index" if process_is_granule else "slice_index"
    groups: dict[Any, list[Device]] = {}
    for device in found:
        if not hasattr(device, attribute):
            raise ValueError(
                f"create_hybrid_device_mesh: the device {device!r} has no {attribute}; with "
                "process_is_granule=True the devices of a process are a group"
            )
        groups.setdefault(getattr(device, attribute), []).append(device)
    inner, outer = tuple(mesh_shape), tuple(dcn_mesh_shape)
    if len(inner) != len(outer):
        raise ValueError(
            f"create_hybrid_device_mesh: mesh_shape {inner} and dcn_mesh_shape {outer} must have "
            "the same number of axes"
        )
    if math.prod(outer) != len(groups):
        raise ValueError(
            f"create_hybrid_device_mesh: the number of groups, {len(groups)}, must equal the "
            f"product of dcn_mesh_shape {outer}"
        )
    keys = sorted(groups) if should_sort_granules_by_key else list(groups)
    meshes = np.stack([create_device_mesh(inner, groups[key]) for key in keys])
    rank = len(inner)
    # Axes: those of the groups, then those inside of a group; each pair becomes one.
    pairs = [axis for i in range(rank) for axis in (i, rank + i)]
    whole = [a * b for a, b in zip(outer, inner, strict=True)]
    return meshes.reshape(*outer, *inner).transpose(pairs).reshape(whole)
