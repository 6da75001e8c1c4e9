"""Shards: the part of an array that one device holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnomon._sharding.device import Device

__all__ = ["Shard"]


@dataclass(frozen=True)
class Shard:
    """The part of an array that a device holds.

    Attributes:
      device: the device.
      index: the position of the part in the array, one slice for each dimension.
      replica_id: the number of earlier devices that hold the same part.
      data: the part as an array on the device; None where it belongs to another process.
    """

    device: Device
    index: tuple[slice, ...]
    replica_id: int
    data: Any

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data})"
        )
