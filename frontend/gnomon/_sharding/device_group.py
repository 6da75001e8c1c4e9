"""Several devices that hold the parts of one array."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from gnomon._sharding.device import Device, in_host_memory

__all__ = ["DeviceGroup", "is_spread", "place_of_devices"]


class DeviceGroup:
    """An ordered group of devices of one platform.

    Equal groups are the same object, so groups are compared by identity.

    Attributes:
      devices: the devices in their order.
    """

    __slots__ = ("__weakref__", "devices")

    def __init__(self, devices: tuple[Device, ...]) -> None:
        self.devices = devices

    @property
    def id(self) -> int:
        """The number of the first device."""
        return self.devices[0].id

    @property
    def platform(self) -> str:
        """The platform's name."""
        return self.devices[0].platform

    @property
    def device_kind(self) -> str:
        """The model, as the driver names it."""
        return self.devices[0].device_kind

    @property
    def process_index(self) -> int:
        """The index of the process to which the first device belongs."""
        return self.devices[0].process_index

    @property
    def shares_memory(self) -> bool:
        """Whether the devices compute in the memory of Python."""
        return getattr(self.devices[0], "shares_memory", False)

    @property
    def backend(self) -> Any:
        """The backend of the devices."""
        return self.devices[0].backend

    def memory_stats(self) -> dict[str, int] | None:
        """None: each device reports its own."""
        return None

    def __repr__(self) -> str:
        return f"the devices {[device.id for device in self.devices]} of {self.platform!r}"


def is_spread(place: Device) -> bool:
    """Whether arrays of a place are in parts: its devices are several and share no memory."""
    return isinstance(place, DeviceGroup) and not in_host_memory(place)


_groups: dict[tuple[Device, ...], DeviceGroup] = {}
_lock = threading.Lock()


def place_of_devices(devices: Sequence[Device]) -> Device:
    """The place of an array on some devices: a single device, or a group of several."""
    key = tuple(devices)
    if len(key) == 1:
        return key[0]
    found = _groups.get(key)
    if found is None:
        with _lock:
            found = _groups.setdefault(key, DeviceGroup(key))
    return found
