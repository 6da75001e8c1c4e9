"""Shardings: how an array is spread over devices. There is the one of arrays on a single device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gnomon._arrays.device import Device, is_device

__all__ = ["Sharding", "SingleDeviceSharding"]


class Sharding:
    """The base of all shardings."""

    @property
    def device_set(self) -> set[Device]:
        """The devices that an array of this sharding is spread over."""
        raise NotImplementedError

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.device_set)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all of them belong to this process."""
        return all(device.process_index == 0 for device in self.device_set)


class SingleDeviceSharding(Sharding):
    """The whole array is on one device.

    Args:
      device: one of `gnomon.devices`.
      memory_kind: None: the device's own memory.

    Example:
      >>> import gnomon as gn
      >>> gn.numpy.zeros(3).sharding
      SingleDeviceSharding(device=CpuDevice(id=0))
    """

    __slots__ = ("_device",)

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        if not is_device(device):
            raise TypeError(
                f"SingleDeviceSharding takes a device, one of gnomon.devices(), got {device!r}"
            )
        if memory_kind is not None:
            raise NotImplementedError(
                f"SingleDeviceSharding: memory_kind={memory_kind!r}: arrays live in the device's "
                "own memory"
            )
        self._device = device

    @property
    def device_set(self) -> set[Device]:
        """The one device."""
        return {self._device}

    @property
    def memory_kind(self) -> str | None:
        """None: the device's own memory."""
        return None

    @property
    def is_fully_replicated(self) -> bool:
        """True: the device holds the whole array."""
        return True

    def devices_indices_map(
        self, global_shape: tuple[int, ...]
    ) -> Mapping[Device, tuple[slice, ...]]:
        """The part of an array that each device holds, as one slice for each dimension."""
        return {self._device: (slice(None),) * len(global_shape)}

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what a device holds: all."""
        return tuple(global_shape)

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether an array is spread alike by another sharding."""
        return isinstance(other, Sharding) and self.device_set == other.device_set

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self._device is other._device

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self._device))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r})"
