"""`pmap` over the devices of several processes, each of which gives its own rows and gets its own.

The rows of all processes together are one array over all devices, which the mapped function takes.
No value moves between processes when this array is made or taken apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon._arrays.aval import shaped_array
from gnomon._arrays.concrete import ConcreteArray
from gnomon._arrays.sharded import ShardedArray, layout_of, sharded_buffer
from gnomon._sharding.device import Device, is_addressable
from gnomon._sharding.device_group import is_spread, place_of_devices
from gnomon._sharding.mesh import Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec, axes_of
from gnomon.backends.shards import ShardedBuffer

__all__ = ["local_rows", "rows_of_all"]


def rows_of_all(x: Array, place: int | None, devices: Sequence[Device], name: Any) -> Array:
    """The rows of all processes as one array, of which this process has its own.

    Args:
      x: the rows of this process, one for each of its devices; or a value that is not mapped.
      place: the mapped axis; None gives each device all of ``x``.
      devices, name: the devices of all processes, and the name of the mapped axis.
    Raises:
      ValueError: the number of rows is not the number of this process's devices.
    """
    local = [device for device in devices if is_addressable(device)]
    mesh = _mesh(devices, name)
    if not getattr(x, "is_fully_addressable", True):
        return x
    shape = list(x.shape)
    if place is not None:
        place %= x.ndim
        if shape[place] != len(local):
            raise ValueError(
                f"pmap: this process has {len(local)} of the {len(devices)} devices of all "
                f"processes, so its mapped axes have size {len(local)}; got {shape[place]}"
            )
        shape[place] = len(devices)
    spec = PartitionSpec() if place is None else PartitionSpec(*[None] * place, name)
    sharding = NamedSharding(mesh, spec)
    parts = _known_parts(x, NamedSharding(_mesh(local, name), spec))
    if parts is None:
        assert isinstance(x, ConcreteArray)
        value = x.numpy_value()
        parts = [
            device.backend.put(
                value if place is None else value.take([row], place), device, copy=True
            )
            for row, device in enumerate(local)
        ]
    buffer = ShardedBuffer(layout_of(sharding, tuple(shape)), np.dtype(x.dtype), parts)
    return sharded_buffer(buffer, shaped_array(tuple(shape), x.dtype, x.weak_type), sharding)


def _known_parts(x: Array, sharding: NamedSharding) -> Sequence[Any] | None:
    """The buffers of the rows, if an array is sharded over this process's devices already."""
    if type(x) is not ShardedArray or x.is_only_on_host() or x._sharding != sharding:
        return None
    buffer: Any = x.device_buffer()
    return buffer.parts if isinstance(buffer, ShardedBuffer) else [buffer]


def local_rows(x: Any) -> Any:
    """The rows that this process has of a result."""
    if not isinstance(x, ShardedArray) or x.is_fully_addressable:
        return x
    whole = x._sharding
    buffer: Any = x.device_buffer()
    local = buffer.layout.local_devices
    (name,) = whole.mesh.axis_names
    shape = list(x.shape)
    for dimension, entry in enumerate(whole.spec.partitions):
        if axes_of(entry):
            shape[dimension] = shape[dimension] // len(buffer.layout.devices) * len(local)
    sharding = NamedSharding(_mesh(local, name), whole.spec)
    if is_spread(place_of_devices(local)):
        own: Any = ShardedBuffer(layout_of(sharding, tuple(shape)), x.dtype, buffer.parts)
    else:
        (own,) = buffer.parts
    return sharded_buffer(own, shaped_array(tuple(shape), x.dtype, x.weak_type), sharding)


def _mesh(devices: Sequence[Device], name: Any) -> Mesh:
    return Mesh(np.array(devices, dtype=object), (name,))
