"""The three ways in which the axes of a mesh take part in a program."""

from __future__ import annotations

import enum

__all__ = ["AxisType"]


class AxisType(enum.Enum):
    """How programs treat an axis of a mesh.

    Attributes:
      Auto: the shardings of intermediate values are chosen for the program.
      Explicit: shardings are a part of types, and checked while a function is traced.
      Manual: the program computes with the local part of each device, as in `shard_map`.
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name
