"""Devices as a program sees them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HOST", "Device"]


@dataclass(frozen=True)
class Device:
    """A place where arrays live and programs run.

    Attributes:
      platform: ``"cpu"``, ``"cuda"``, ``"vulkan"``, ...
      id: its number among the devices of the platform.
      device_kind: the model, as the driver names it.
      process_index: the process that it belongs to.
    """

    platform: str
    id: int = 0
    device_kind: str = ""
    process_index: int = 0

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"


HOST = Device("cpu", 0, "cpu")
"""The device of arrays that are kept in the process's own memory."""
