"""The memory for the intermediate values of a function, planned while its code is written."""

from __future__ import annotations

__all__ = ["ALIGNMENT", "Workspace"]

ALIGNMENT = 64


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Workspace:
    """Assigns an offset to each buffer: that of the first free range that is large enough.

    Attributes:
      size: the size in bytes that the workspace needs for the buffers so far.
    """

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []

    def place(self, nbytes: int) -> int:
        """The offset of a new buffer, whose range is in use until `free`."""
        size = _aligned(nbytes)
        for i, (start, end) in enumerate(self._free):
            if end - start >= size:
                self._free[i : i + 1] = [(start + size, end)] if end - start > size else []
                return start
        start = self.size
        if self._free and self._free[-1][1] == start:
            # The free range at the end grows.
            start = self._free.pop()[0]
        self.size = start + size
        return start

    def free(self, offset: int, nbytes: int) -> None:
        """Make a buffer's range free for later buffers."""
        ranges = sorted([*self._free, (offset, offset + _aligned(nbytes))])
        merged: list[tuple[int, int]] = []
        for start, end in ranges:
            if merged and merged[-1][1] == start:
                merged[-1] = (merged[-1][0], end)
            else:
                merged.append((start, end))
        self._free = merged
