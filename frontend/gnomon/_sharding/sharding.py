"""Shardings: the base class, and the sharding of arrays on a single device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gnomon._sharding.device import Device, in_host_memory, is_addressable, is_device

__all__ = ["Sharding", "SingleDeviceSharding", "checked_memory_kind", "make_single_device_sharding"]

Index = tuple[slice, ...]
Shape = tuple[int, ...]

# A CPU has one memory, which goes by all three names that programs for accelerators use.
_HOST_KINDS = ("device", "pinned_host", "unpinned_host")


def checked_memory_kind(device: Device, kind: str | None) -> str:
    """Check a memory kind; None means the device's own memory.

    Raises:
      ValueError: the device has no memory of this kind.
    """
    kinds = _HOST_KINDS if in_host_memory(device) else _HOST_KINDS[:1]
    if kind is None:
        return kinds[0]
    if kind not in kinds:
        raise ValueError(
            f"a device of platform {device.platform!r} has the memory kinds {', '.join(kinds)}, "
            f"got {kind!r}"
        )
    return kind


class Sharding:
    """The base of all shardings."""

    @property
    def _device_tuple(self) -> tuple[Device, ...]:
        """The devices in their order."""
        raise NotImplementedError(f"{type(self).__name__} does not define its devices")

    @property
    def device_set(self) -> set[Device]:
        """The devices that hold an array of this sharding."""
        return set(self._device_tuple)

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.device_set)

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the array."""
        raise NotImplementedError(f"{type(self).__name__} does not define its memory kind")

    def with_memory_kind(self, kind: str) -> Any:
        """The same sharding in another memory of the devices."""
        raise NotImplementedError(f"{type(self).__name__} has only one memory")

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return all(is_addressable(device) for device in self.device_set)

    @property
    def has_addressable_devices(self) -> bool:
        """Whether a device belongs to this process."""
        return any(is_addressable(device) for device in self.device_set)

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices that belong to this process."""
        return {device for device in self.device_set if is_addressable(device)}

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        raise NotImplementedError(f"{type(self).__name__} does not define shards")

    def devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        """The part of an array that each device holds, as one slice for each dimension."""
        raise NotImplementedError(f"{type(self).__name__} does not define shards")

    def addressable_devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        """`devices_indices_map` of the devices that belong to this process."""
        found = self.devices_indices_map(global_shape)
        return {device: index for device, index in found.items() if is_addressable(device)}

    def shard_shape(self, global_shape: Shape) -> Shape:
        """The shape of the part that each device holds."""
        raise NotImplementedError(f"{type(self).__name__} does not define shards")

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether another sharding distributes an array in the same way."""
        raise NotImplementedError(f"{type(self).__name__} does not define shards")


class SingleDeviceSharding(Sharding):
    """The sharding of an array that is on a single device.

    Args:
      device: one of `gnomon.devices`.
      memory_kind: the kind of its memory; by default the device's own.

    Example:
      >>> import gnomon as gn
      >>> gn.numpy.zeros(3).sharding
      SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)
    """

    __slots__ = ("_device", "_memory_kind")

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        if not is_device(device):
            raise TypeError(
                f"SingleDeviceSharding takes a device, one of gnomon.devices(), got {device!r}"
            )
        self._device = device
        self._memory_kind = checked_memory_kind(device, memory_kind)

    @property
    def _device_tuple(self) -> tuple[Device, ...]:
        return (self._device,)

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the array."""
        return self._memory_kind

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        """The same sharding in another memory of the device."""
        return SingleDeviceSharding(self._device, memory_kind=kind)

    @property
    def is_fully_replicated(self) -> bool:
        """True: the device holds the whole array."""
        return True

    def devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        """The part of an array that each device holds, as one slice for each dimension."""
        return {self._device: (slice(None),) * len(global_shape)}

    def shard_shape(self, global_shape: Shape) -> Shape:
        """The shape of the whole array, which the device holds."""
        return tuple(global_shape)

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Do nothing: arrays of all shapes fit on one device."""

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether another sharding distributes an array in the same way."""
        return (
            isinstance(other, Sharding)
            and other._device_tuple == (self._device,)
            and other.memory_kind == self._memory_kind
        )

    def __reduce__(self) -> Any:
        return make_single_device_sharding, (self._device, self._memory_kind)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SingleDeviceSharding)
            and self._device is other._device
            and self._memory_kind == other._memory_kind
        )

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self._device, self._memory_kind))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self._memory_kind})"


def make_single_device_sharding(
    device: Device, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The sharding of arrays on one device.

    Args:
      device: the device.
      memory_kind: the memory of the device; None means its default.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> device = gn.devices("cpu")[0]
      >>> gn.device_put(gnp.arange(3), gn.sharding.make_single_device_sharding(device))
      Array([0, 1, 2], dtype=int32)
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)
