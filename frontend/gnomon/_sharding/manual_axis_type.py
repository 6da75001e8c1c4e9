"""The part of a type that concerns the manual axes of a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ManualAxisType"]


@dataclass(frozen=True)
class ManualAxisType:
    """How a value inside of a `shard_map` depends on the device.

    Attributes:
      varying: the axes along which devices may have different values.
      unreduced, reduced: empty: values whose parts are still to be summed are not supported.
    """

    varying: frozenset[Any] = frozenset()
    unreduced: frozenset[Any] = frozenset()
    reduced: frozenset[Any] = frozenset()

    def __repr__(self) -> str:
        return f"ManualAxisType(varying={set(self.varying) or '{}'})"
