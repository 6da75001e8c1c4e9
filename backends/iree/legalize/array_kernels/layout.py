"""Where the elements of an array are: views of flat memory, ramps, and numbers repeated.

The position of an element in memory is linear in its indices. So broadcasts, transposes, slices and
most reshapes move nothing: they only change strides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from gnomon.dialects.mlir import ir

__all__ = ["Buffer", "Layout", "Splat", "View", "dense", "merged_dims", "reshaped"]


@dataclass(eq=False)
class Buffer:
    """Flat memory.

    Attributes:
      memory: a ``memref`` of rank 1.
      element: the type of its elements in StableHLO.
      owner: the depth of the region that may overwrite it; None if nothing may.
      viewers: the values of the program that are views of it.
      spare: for memory of two arrays that take turns, the position of the one to be written.
    """

    memory: ir.Value
    element: ir.Type
    owner: int | None = None
    viewers: list[ir.Value] = field(default_factory=list)
    spare: ir.Value | None = None


class Splat(NamedTuple):
    """One number, repeated.

    Attributes:
      value: the number.
      shape: the shape of the array.
    """

    value: ir.Value
    shape: tuple[int, ...]

    @property
    def strides(self) -> tuple[int, ...]:
        """The distances between neighbours, all zero."""
        return (0,) * len(self.shape)

    def with_layout(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Splat:
        """The same number in another shape."""
        del strides, offset
        return Splat(self.value, tuple(shape))


class View(NamedTuple):
    """Elements of a buffer; without a buffer, the positions themselves: a ramp of integers.

    Attributes:
      buffer: the memory, or None.
      shape, strides: the sizes, and the distances between neighbours in memory.
      element: the type of the elements in StableHLO.
      offset: the position of the first element.
      moved: a number to be added to the offset, computed by the program.
    """

    buffer: Buffer | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: ir.Type
    offset: int = 0
    moved: ir.Value | None = None

    def with_layout(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> View:
        """The same memory with another shape, and the first element further on."""
        return self._replace(
            shape=tuple(shape), strides=tuple(strides), offset=self.offset + offset
        )

    def may_overlap(self, written: View) -> bool:
        """Whether it may have elements in common with a view that is about to be written."""
        if self.buffer is None or written.buffer is None:
            return False
        if self.buffer.memory != written.buffer.memory:
            return False
        spare = written.buffer.spare
        return spare is None or (self.moved == spare) == (written.moved == spare)

    @property
    def is_dense(self) -> bool:
        """Whether it is a whole buffer, in order."""
        return (
            self.buffer is not None
            and self.offset == 0
            and self.moved is None
            and self.strides == dense(self.shape)
            and self.buffer.memory.type.shape[0] == math.prod(self.shape)
        )


Layout: TypeAlias = "Splat | View"


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array whose rows follow each other; dimensions of size 1 have 0."""
    return tuple(0 if n == 1 else math.prod(shape[d + 1 :]) for d, n in enumerate(shape))


def reshaped(
    shape: Sequence[int], strides: Sequence[int], new: Sequence[int]
) -> tuple[int, ...] | None:
    """The strides of a view in another shape; None if the elements are not evenly spaced."""
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    new_strides: list[int] = []
    # Pieces of the old dimensions, the inner ones last, are consumed by the new ones.
    for size in reversed(new):
        if size == 1:
            new_strides.append(0)
            continue
        left, step = size, 0
        stride: int | None = None
        while left > 1:
            if not old:
                return None
            n, s = old.pop()
            if stride is None:
                stride, step = s, s
            elif s != step:
                return None
            common = math.gcd(left, n)
            if common != min(left, n):
                return None
            left //= common
            step = s * common
            if common < n:
                old.append((n // common, step))
        assert stride is not None
        new_strides.append(stride)
    return tuple(reversed(new_strides)) if not old else None


def merged_dims(
    shape: Sequence[int], layouts: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Merge neighbouring dimensions through which all layouts run evenly; drop those of size 1."""
    sizes: list[int] = []
    strides: list[list[int]] = []
    for d, n in enumerate(shape):
        if n == 1:
            continue
        dim_strides = [s[d] for s in layouts]
        if sizes and all(a == b * n for a, b in zip(strides[-1], dim_strides, strict=True)):
            sizes[-1] *= n
            strides[-1] = dim_strides
        else:
            sizes.append(n)
            strides.append(dim_strides)
    return sizes, strides
