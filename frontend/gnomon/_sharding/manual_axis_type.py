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
      unreduced: the axes along which devices have terms of the value, which is their sum.
      reduced: the axes along which the cotangent of the value is unreduced.
    """

    varying: frozenset[Any] = frozenset()
    unreduced: frozenset[Any] = frozenset()
    reduced: frozenset[Any] = frozenset()

    def __repr__(self) -> str:
        parts = [f"varying={set(self.varying) or '{}'}"]
        for name in ("unreduced", "reduced"):
            if axes := getattr(self, name):
                parts.append(f"{name}={set(axes)}")
        return f"ManualAxisType({', '.join(parts)})"
