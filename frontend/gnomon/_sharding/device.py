"""Devices as a program sees them: which there are, and which one is the default."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from gnomon._config.current import Config, config
from gnomon.backends import platforms
from gnomon.backends.interface import Device
from gnomon.backends.shards import NUMBERS, is_addressable

__all__ = [
    "HOST",
    "Device",
    "as_device",
    "check_partitions",
    "compiler_of",
    "default_device",
    "devices_of",
    "in_host_memory",
    "is_addressable",
    "is_described",
    "is_device",
    "memory_of",
    "number_of",
]

HOST: Device = platforms.host_device()
"""The device of arrays that are kept in the process's own memory."""


def devices_of(platform: str | None) -> list[Device]:
    """The devices of a platform, by default of the default platform; its driver is started."""
    return list(platforms.backend(platform).devices())


def default_device() -> Device:
    """The device of arrays that are not committed to one, and of programs on such arrays."""
    if not Config.placed_somewhere:
        return HOST
    chosen = config.default_device
    if chosen is None or isinstance(chosen, str):
        return next(filter(is_addressable, devices_of(chosen)))
    return as_device(chosen)


def is_device(x: Any) -> bool:
    """Whether a value is a device, as a backend's ``devices()`` returns them."""
    return hasattr(x, "memory_stats") and hasattr(x, "device_kind")


def in_host_memory(device: Device) -> bool:
    """Whether a device computes in the memory of Python, as the CPU's devices do."""
    # The platform's name is not enough: that of several processes is "cpu", too.
    return device is HOST or getattr(device, "shares_memory", False)


def is_described(device: Device) -> bool:
    """Whether a device is only described by a topology: it can be compiled for but not used."""
    return not in_host_memory(device) and getattr(device.backend, "is_described", False)


def compiler_of(device: Device) -> Any:
    """What lowers and compiles programs for a device; the CPU has several, see ``cpu_compiler``."""
    if in_host_memory(device):
        return platforms.host_compiler(config.cpu_compiler)
    return device.backend


def check_partitions(devices: Sequence[Device]) -> None:
    """Raise `NotImplementedError` unless a program can be split over some devices."""
    first = devices[0]
    if len(devices) == 1 or in_host_memory(first):
        return
    if not getattr(first.backend, "partitions_programs", False):
        raise NotImplementedError(
            f"programs and arrays over several devices of the platform {first.platform!r} are not "
            "supported: the CPU and the platforms of PJRT plugins have them (docs/parallelism.md)"
        )


def number_of(device: Device) -> int:
    """The number by which programs name a device; all devices of a program have different ones.

    For a device of the host's platform it is the device's id. For others it is the sum of the id
    and a multiple of `NUMBERS` that depends on the platform's name only, so that programs are the
    same in each process.
    """
    number: int | None = getattr(device, "number", None)
    if number is not None:
        return number
    if in_host_memory(device):
        return device.id
    return device.id + NUMBERS * (_PLATFORMS + zlib.crc32(device.platform.encode()) % _PLATFORMS)


# The least multiple of `NUMBERS` for a platform; those for described devices are lower.
_PLATFORMS = 1 << 20


def memory_of(device: Device) -> Device:
    """The device that owns the memory of a device; all CPU devices use the memory of the first."""
    return HOST if in_host_memory(device) else device


def as_device(x: Any) -> Device:
    """A device unchanged, or the device of a sharding on one device.

    Raises:
      TypeError: ``x`` is neither.
    """
    if not is_device(x):
        x = getattr(x, "_device", x)
    if not is_device(x):
        raise TypeError(
            "a device must be one of gnomon.devices(), or a gnomon.sharding.SingleDeviceSharding, "
            f"got {x!r} of type {type(x).__name__}"
        )
    device: Device = x
    return device
