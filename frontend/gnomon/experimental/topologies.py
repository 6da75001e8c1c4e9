"""Topologies of devices that need not be present, for which programs can be compiled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gnomon._sharding.axis_type import AxisType
from gnomon._sharding.device import Device, devices_of
from gnomon._sharding.mesh import Mesh
from gnomon._sharding.mesh import make_mesh as mesh_of_devices
from gnomon.backends import platforms

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]


@dataclass(frozen=True)
class TopologyDescription:
    """The devices of a topology.

    Attributes:
      devices: descriptions of the devices, for `gnomon.make_mesh` and `gnomon.sharding.Mesh`. They
        hold no arrays and run nothing; jitted functions are compiled for them by
        ``lower(...).compile()``.
    """

    devices: list[Device]


def get_topology_desc(
    topology_name: str = "", platform: str | None = None, **kwargs: Any
) -> TopologyDescription:
    """The devices of a topology, which need not be present.

    Args:
      topology_name: a name that the compiler of the platform knows, such as ``"v5e:4x4"``, or one
        with the platform, such as ``"tpu:v5e:4x4"``.
      platform: the platform, ``"tpu"`` by default.
      kwargs: options of the compiler; there are none.
    Raises:
      BackendUnavailable: the compiler is not installed.
      ValueError: the compiler does not know the topology.
      NotImplementedError: an option is given.

    Example:
      >>> import gnomon as gn
      >>> from gnomon.experimental import topologies
      >>> topology = topologies.get_topology_desc("v5e:4x4", "tpu")  # doctest: +SKIP
      >>> gn.make_mesh((4, 4), ("data", "model"), devices=topology.devices)  # doctest: +SKIP
      Mesh(axis_sizes=(4, 4), axis_names=('data', 'model'), axis_types=(Explicit, Explicit))
    """
    if kwargs:
        raise NotImplementedError(
            f"get_topology_desc: the options {sorted(kwargs)} are not supported; name a topology, "
            "such as 'v5e:4x4'"
        )
    first, _, rest = topology_name.partition(":")
    if platform is None:
        known = first in platforms.known()
        platform, topology_name = (first, rest) if known else ("tpu", topology_name)
    backend: Any = platforms.backend(platform)
    describe = getattr(backend, "described", None)
    if describe is None:
        raise ValueError(
            f"the platform {platform!r} cannot describe absent devices; platforms of PJRT "
            "plugins, such as 'tpu', can"
        )
    return TopologyDescription(list(describe(topology_name)))


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The devices of a platform that are present.

    Args:
      platform: the platform; the default one if None.
    Raises:
      BackendUnavailable: the platform has no device here.

    Example:
      >>> from gnomon.experimental import topologies
      >>> topologies.make_mesh(topologies.get_attached_topology(), (1,), ("x",))
      Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))
    """
    return TopologyDescription(devices_of(platform))


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Iterable[int],
    axis_names: Sequence[str],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """A mesh over the devices of a topology, with axes of type `AxisType.Auto`.

    Args:
      topo: the topology.
      mesh_shape: the size of each axis.
      axis_names: the name of each axis.
      contiguous_submeshes: must be False.
    Raises:
      ValueError: there are too few devices.

    Example:
      >>> from gnomon.experimental import topologies
      >>> topologies.make_mesh(topologies.get_attached_topology(), (1,), ("x",))
      Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))
    """
    if contiguous_submeshes:
        raise NotImplementedError("make_mesh: contiguous_submeshes is not supported")
    names = tuple(axis_names)
    return mesh_of_devices(mesh_shape, names, (AxisType.Auto,) * len(names), devices=topo.devices)
