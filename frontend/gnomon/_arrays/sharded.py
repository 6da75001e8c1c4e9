"""Arrays that are distributed over the devices of a mesh.

CPU devices share the memory of this process: there the value is in one piece, and the sharding says
which part of it each device holds. On other devices the buffer is a `ShardedBuffer`, which has the
parts.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gnomon._arrays.aval import ShapedArray, explicit_sharding, shaped_array
from gnomon._arrays.concrete import ConcreteArray, PlacedArray, placed, placed_buffer
from gnomon._arrays.shard import Shard
from gnomon._sharding.device import Device, check_partitions, is_addressable, is_described
from gnomon._sharding.device_group import is_spread, place_of_devices
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon.backends.errors import BackendUnavailable
from gnomon.backends.interface import Buffer
from gnomon.backends.shards import Layout, ShardedBuffer, put

__all__ = ["ShardedArray", "layout_of", "sharded", "sharded_buffer"]


class ShardedArray(PlacedArray):
    """An array whose parts are on the devices of a `NamedSharding`."""

    __slots__ = ("_sharding",)

    _sharding: NamedSharding

    @property
    def aval(self) -> ShapedArray:
        """Shape, dtype, weak type and the sharding over explicit axes in one interned object."""
        aval = self._aval
        if aval is None:
            value = self._value
            assert value is not None
            aval = self._aval = _typed(
                shaped_array(value.shape, value.dtype, self.weak_type), self._sharding
            )
        return aval

    @property
    def sharding(self) -> NamedSharding:
        """The sharding of the array."""
        return self._sharding

    @property
    def device(self) -> Any:
        """The device of the array, or its sharding if it is on several devices."""
        devices = self._sharding._device_tuple
        return devices[0] if len(devices) == 1 else self._sharding

    def devices(self) -> set[Device]:
        """The devices that hold the array."""
        self._check_alive()
        return self._sharding.device_set

    def platform(self) -> str:
        """The name of the platform whose devices hold the array."""
        return self._device.platform

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return self._sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        return self._sharding.is_fully_replicated

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of the array that devices of this process hold."""
        return [shard for shard in self._shards() if is_addressable(shard.device)]

    def _shards(self) -> list[Shard]:
        data = self._parts()
        seen: dict[tuple[tuple[int | None, int | None], ...], int] = {}
        found = []
        for device, index in self._sharding.devices_indices_map(self.shape).items():
            key = tuple((part.start, part.stop) for part in index)
            replica = seen[key] = seen.get(key, -1) + 1
            found.append(Shard(device, index, replica, data.get(device)))
        return found

    def _parts(self) -> dict[Device, PlacedArray]:
        """The parts that devices of this process hold."""
        weak_type = self.weak_type
        parts = self._stored_parts(weak_type)
        if self._sharding.spec.unreduced:
            # The stored value is the sum: the term of the first device. The others' terms are 0.
            for device, first in zip(
                self._sharding._device_tuple, self._sharding._holds_sum(), strict=True
            ):
                if device in parts and not first:
                    zeros = np.zeros(parts[device].shape, self.dtype)
                    parts[device] = placed(zeros, device, committed=True, weak_type=weak_type)
        return parts

    def _stored_parts(self, weak_type: bool) -> dict[Device, PlacedArray]:
        """The parts of the stored value."""
        if not is_spread(self._device):
            value = self.numpy_value()
            return {
                device: placed(
                    np.asarray(value[index]), device, committed=True, weak_type=weak_type
                )
                for device, index in self._sharding.devices_indices_map(self.shape).items()
            }
        buffer: Any = self.device_buffer()
        return {
            device: placed_buffer(
                part, shaped_array(part.shape, self.dtype, weak_type), device, True
            )
            for device, part in zip(buffer.layout.local_devices, buffer.parts, strict=True)
        }

    def addressable_data(self, index: int) -> PlacedArray:
        """The part on one of the devices of this process, by its number among them."""
        return list(self._parts().values())[index]

    def is_only_on_host(self) -> bool:
        """Whether the value is known and has not been put on the devices."""
        return self._value is not None and self._buffer is None

    def device_buffer(self) -> Buffer:
        """The buffer on the devices, to which the value is transferred if necessary."""
        if not is_spread(self._device):
            return super().device_buffer()
        buffer = self._buffer
        if (buffer is None or buffer.is_deleted()) and self._value is not None:
            self._buffer = put(self._value, layout_of(self._sharding, self._value.shape))
        return self._live_buffer()

    def __repr__(self) -> str:
        return super().__repr__() if self._is_readable() else self._described()

    def __str__(self) -> str:
        return super().__str__() if self._is_readable() else self._described()

    def _is_readable(self) -> bool:
        """Whether this process can read the value; it may have only some of the parts."""
        buffer = self._buffer
        if self._sharding.spec.unreduced:
            return False
        if self._value is not None or type(buffer) is not ShardedBuffer:
            return True
        return buffer.is_deleted() or buffer.is_readable()

    def _described(self) -> str:
        where = f", sharding={self._sharding}" if self._sharding.spec.unreduced else ""
        return f"Array(shape={self.shape}, dtype={self.dtype.name}{where})"

    def _put_like(self, result: ConcreteArray, shape: tuple[int, ...]) -> None:
        super()._put_like(result, shape)
        assert isinstance(result, ShardedArray)
        kept = shape == self.shape
        result._sharding = self._sharding if kept else self._sharding.update(spec=PartitionSpec())

    def __dlpack__(self, **kwargs: Any) -> Any:
        self._refuse_dlpack()
        return super().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        self._refuse_dlpack()
        return super().__dlpack_device__()

    def _refuse_dlpack(self) -> None:
        if self._sharding.num_devices > 1:
            raise BufferError(
                f"DLPack: the array {self.aval} is distributed over {self._sharding.num_devices} "
                "devices, and a capsule holds an array of one device; put it on one of them with "
                "gnomon.device_put, or use one part: x.addressable_data(0)"
            )


def _typed(aval: ShapedArray, sharding: NamedSharding) -> ShapedArray:
    """The type of an array that has a sharding."""
    explicit = explicit_sharding(sharding, aval.ndim)
    return aval if explicit is aval.explicit else aval.replicated().update(sharding=explicit)


@functools.lru_cache(4096)
def layout_of(sharding: NamedSharding, shape: tuple[int, ...]) -> Layout:
    """The part of an array of some shape that each device holds."""
    places = sharding.devices_indices_map(shape)
    return Layout(shape, tuple(places), tuple(places.values()))


_new = object.__new__


def _empty(sharding: NamedSharding) -> ShardedArray:
    devices = sharding._device_tuple
    if is_described(devices[0]):
        raise BackendUnavailable(
            f"the devices of {sharding} are only described, so they cannot hold arrays. Lower "
            "functions for gnomon.ShapeDtypeStruct with that sharding instead"
        )
    check_partitions(devices)
    array = _new(ShardedArray)
    array._device = place_of_devices(devices)
    array._committed = True
    array._sharding = sharding
    return array


def sharded(
    value: np.ndarray[Any, Any], sharding: NamedSharding, weak_type: bool = False
) -> ShardedArray:
    """An array with a sharding, made of a NumPy value that must not be written to any more."""
    array = _empty(sharding)
    array._value = value if type(value) is np.ndarray else np.asarray(value)
    array._buffer = None
    array._aval = None
    array.weak_type = weak_type
    return array


def sharded_buffer(buffer: Buffer, aval: ShapedArray, sharding: NamedSharding) -> ShardedArray:
    """An array with a sharding, made of a buffer."""
    array = _empty(sharding)
    array._value = None
    array._buffer = buffer
    array._aval = _typed(aval, sharding)
    array.weak_type = aval.weak_type
    return array
