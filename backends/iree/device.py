"""Devices, as users see them.

The CPU is one device to the user, or as many as the configuration asks for, and two to IREE:
`local-sync` runs a program inline in the calling thread, `local-task` on a pool of threads. Each is
made when the first program needs it. A GPU is one device to both.
"""

from __future__ import annotations

from typing import Any

from gnomon.backends import platforms
from gnomon.backends.iree.driver import (
    DeviceInfo,
    DriverState,
    ProcessState,
    available_devices,
    driver_state,
    forks,
    runtime_generation,
)
from gnomon.backends.iree.targets import TARGETS, Target

__all__ = ["Device", "DriverState", "cpu_device", "devices_of", "forks", "runtime_generation"]

_devices: dict[str, tuple[Device, ...]] = {}
_first_devices: dict[str, Device] = {}


class Device:
    """A device of a platform, as users see it.

    Attributes:
        id: its number among the devices of its platform.
        target: how programs are compiled for it.
        process_index: the process that it belongs to, 0 in a program of one process.

    Example:
        >>> cpu_device()
        CpuDevice(id=0)
    """

    __slots__ = ("__weakref__", "_info", "id", "process_index", "target")

    def __init__(
        self, id: int, target: Target, process_index: int = 0, info: DeviceInfo | None = None
    ) -> None:
        self.id = id
        self.target = target
        self.process_index = process_index
        self._info = info

    @property
    def backend(self) -> Any:
        """The backend whose device it is."""
        return platforms.backend_of_device(self.target.platform)

    @property
    def platform(self) -> str:
        """The platform's name, such as "cpu"."""
        return self.target.platform

    @property
    def device_kind(self) -> str:
        """The kind of machine, as its driver names it; for a CPU just "cpu"."""
        return self.target.platform if self._info is None else self._info.kind

    @property
    def shares_memory(self) -> bool:
        """Whether it computes in the memory of Python."""
        return self._info is None

    def memory_stats(self) -> dict[str, int] | None:
        """The bytes of the device's own memory that arrays use.

        ``bytes_in_use``, ``peak_bytes_in_use`` and ``largest_alloc_size`` count arrays, not the
        temporary values of programs; ``num_allocs`` how many there were; ``bytes_limit`` is the
        size of the memory, where the driver tells it. None for a CPU: the memory is the process's
        own, and nobody counts it.
        """
        if self._info is None:
            return None
        figures = self.driver_state("async").memory.figures()
        if self._info.memory is not None:
            figures["bytes_limit"] = self._info.memory
        return figures

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def __reduce__(self) -> Any:
        return _device_by_number, (self.target.name, self.id)

    def driver_state(self, execution_model: str) -> DriverState:
        """Returns IREE's device for programs of `execution_model`, made on first use.

        Raises:
            BackendUnavailable: it cannot be made.
        """
        number = None if self._info is None else self._info.number
        return driver_state(self.target.drivers[execution_model], number)


def devices_of(target: Target) -> tuple[Device, ...]:
    """Returns the devices of a target, at least one and always the same objects.

    Raises:
        BackendUnavailable: the driver is not there, or finds no device.
    """
    with ProcessState.lock:
        if target.name not in _devices:
            if target.capabilities.host_memory:
                # All of them are this process's memory and processor.
                others = range(1, platforms.host_device_count())
                found = (_first_device(target), *(Device(id, target) for id in others))
            else:
                infos = available_devices(target.drivers["async"])
                found = tuple(Device(id, target, info=info) for id, info in enumerate(infos))
            _devices[target.name] = found
        return _devices[target.name]


def cpu_device() -> Device:
    """Returns the CPU, the first device where there are several."""
    return _first_device(TARGETS["cpu"])


def _first_device(target: Target) -> Device:
    """The first device of a target that computes in the memory of Python."""
    with ProcessState.lock:
        if target.name not in _first_devices:
            _first_devices[target.name] = Device(0, target)
        return _first_devices[target.name]


def _device_by_number(target: str, id: int) -> Device:
    """The device with a number, for pickles."""
    return devices_of(TARGETS[target])[id]
