"""Devices of jaxlib's CPU client: those of this process and those of the other processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from gnomon.backends import platforms

__all__ = ["Device", "World"]


T = TypeVar("T")


class World(Protocol):
    """The part of `Connection` that devices, buffers and executables use."""

    @property
    def failure(self) -> Exception | None:
        """The error that prevents the processes from continuing, or None."""

    def pause(self, seconds: float) -> None:
        """Wait for a short time.

        Raises:
          DistributedError: the processes cannot continue.
        """

    def call(self, function: Callable[[], T]) -> T:
        """Call a function of jaxlib that waits for other processes.

        Raises:
          DistributedError: another process is gone.
        """

    def explain(self, error: Exception) -> None:
        """Raise if a program's error is due to a lost process; otherwise return.

        Raises:
          DistributedError: another process is gone.
        """

    def agree(self, what: str, digest: str, processes: tuple[int, ...]) -> None:
        """Check that other processes are compiling the same program.

        Raises:
          DistributedError: another process compiles another program, or none in time.
        """


class Device:
    """A device of a process.

    Attributes:
      handle: jaxlib's device.
      id: the number of the device among the devices of all processes.
      platform: the name of the platform.
      process_index: the index of the process to which it belongs.
      is_addressable: whether it belongs to this process.
      backend: the backend that lists it.
      world: the connection to the other processes; None if there are none.
    """

    __slots__ = (
        "__weakref__",
        "backend",
        "handle",
        "id",
        "is_addressable",
        "platform",
        "process_index",
        "world",
    )

    def __init__(self, handle: Any, backend: Any, process: int, world: World | None) -> None:
        self.handle = handle
        self.id: int = handle.id
        self.platform: str = backend.platform
        self.process_index: int = handle.process_index
        self.is_addressable = self.process_index == process
        self.backend = backend
        self.world = world

    @property
    def device_kind(self) -> str:
        """The name that jaxlib gives the kind of device."""
        return str(self.handle.device_kind)

    def memory_stats(self) -> dict[str, int] | None:
        """Return None: the device uses the memory of the process, without statistics."""
        return None

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def __reduce__(self) -> Any:
        return _device_by_id, (self.platform, self.id)


def _device_by_id(platform: str, number: int) -> Any:
    devices = {device.id: device for device in platforms.backend(platform).devices()}
    return devices[number]
