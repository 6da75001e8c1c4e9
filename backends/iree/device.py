"""Devices, as users see them.

To the user, the CPU is one device, or as many as the configuration asks for. To IREE it is two:
`local-sync` runs a program inline in the calling thread, `local-task` on a pool of threads. Each is
created when the first program needs it. A GPU is one device to both.
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
      target: the target for which its programs are compiled.
      process_index: the number of its process; 0 if there is only one process.

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
        """The driver's name for the kind of machine; for a CPU just "cpu"."""
        return self.target.platform if self._info is None else self._info.kind

    @property
    def shares_memory(self) -> bool:
        """Whether it computes in Python's memory."""
        return self._info is None

    def memory_stats(self) -> dict[str, int] | None:
        """The bytes of the device's own memory that arrays use.

        ``bytes_in_use``, ``peak_bytes_in_use`` and ``largest_alloc_size`` count arrays, but not
        temporary values of programs. ``num_allocs`` is the number of arrays so far, and
        ``bytes_limit`` the size of the memory, if the driver reports it. None for a CPU, whose
        memory is that of the process and is not counted.
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
        """IREE's device for programs of `execution_model`, created on first use.

        Raises:
          BackendUnavailable: it cannot be created.
        """
        number = None if self._info is None else self._info.number
        return driver_state(self.target.drivers[execution_model], number)


def devices_of(target: Target) -> tuple[Device, ...]:
    """The devices of a target, at least one and always the same objects.

    Raises:
      BackendUnavailable: the driver is missing, or finds no device.
    """
    with ProcessState.lock:
        if target.name not in _devices:
            if target.capabilities.host_memory:
                # All of them share the memory and the processor of this process.
                others = range(1, platforms.host_device_count())
                found = (_first_device(target), *(Device(id, target) for id in others))
            else:
                infos = available_devices(target.drivers["async"])
                found = tuple(Device(id, target, info=info) for id, info in enumerate(infos))
            _devices[target.name] = found
        return _devices[target.name]


def cpu_device() -> Device:
    """The CPU; the first of its devices if there are several."""
    return _first_device(TARGETS["cpu"])


def _first_device(target: Target) -> Device:
    """The first device of a target that computes in Python's memory."""
    with ProcessState.lock:
        if target.name not in _first_devices:
            _first_devices[target.name] = Device(0, target)
        return _first_devices[target.name]


def _device_by_number(target: str, id: int) -> Device:
    """The device with a number, for pickles."""
    return devices_of(TARGETS[target])[id]
