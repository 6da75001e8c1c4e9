"""Devices of jaxlib's CPU client: those of this process and those of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from gnomon.backends import platforms

__all__ = ["Device", "World"]


T = TypeVar("T")


class World(Protocol):
    """The other processes, as far as the devices of this one need to know of them."""

    @property
    def failure(self) -> Exception | None:
        """The reason why the processes cannot go on together, or None."""

    def pause(self, seconds: float) -> None:
        """Wait for a short time.

        Raises:
          DistributedError: the processes cannot go on together.
        """

    def call(self, function: Callable[[], T]) -> T:
        """Call a function of jaxlib that waits for other processes.

        Raises:
          DistributedError: one of them is gone.
        """

    def explain(self, error: Exception) -> None:
        """Raise the reason of a program's error if it is that another process is gone.

        Raises:
          DistributedError: it is.
        """

    def agree(self, what: str, digest: str, processes: tuple[int, ...]) -> None:
        """Compare a program with that of other processes, which compile it at the same time.

        Raises:
          DistributedError: theirs is another one.
        """


class Device:
    """A device of a process.

    Attributes:
      handle: jaxlib's device.
      id: its number among the devices of all processes.
      platform: the name of the platform.
      process_index: the index of the process to which it belongs.
      is_addressable: whether that is this process.
      backend: the backend that lists it.
      world: the other processes; None if there are none.
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
        """The model, as the driver names it."""
        return str(self.handle.device_kind)

    def memory_stats(self) -> dict[str, int] | None:
        """None: the memory is that of the process, and nobody counts it."""
        return None

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def __reduce__(self) -> Any:
        return _device_by_id, (self.platform, self.id)


def _device_by_id(platform: str, number: int) -> Any:
    found = {device.id: device for device in platforms.backend(platform).devices()}
    return found[number]
