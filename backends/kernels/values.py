"""The values of a program while its code is written.

A value is either in memory, or is an expression that is evaluated where an element is needed.
Consumers ask for the element at an index, so that chains of elementwise and index-mapping
operations become one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from gnomon.backends.kernels.code import Code, Element, Place
from gnomon.dialects.types import TensorType

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder

__all__ = ["Buffer", "Flat", "Index", "Lazy", "Stored", "Value", "flattened"]

Index: TypeAlias = "tuple[Place, ...]"
"""A place along each dimension."""


@dataclass(frozen=True)
class Flat:
    """The row-major position of an element, for values that need no index of each dimension."""

    position: Place


@dataclass(eq=False)
class Buffer:
    """Memory that holds an array in row-major order.

    Attributes:
      memory: the name of its memref, which has one dimension.
      type: the array's type.
      owned: whether it may be overwritten: arguments and constants may not.
      scope: the number of the scope that owns it.
      offset: its place in the workspace; None outside of it.
      holders: how many values read it.
    """

    memory: str
    type: TensorType
    owned: bool = False
    scope: int = -1
    offset: int | None = None
    holders: int = 0


class Value:
    """An array of the program.

    Attributes:
      type: its type.
      reads: the buffers that evaluating an element reads.
      is_flat: whether `element` accepts a row-major position.
      is_cheap: whether evaluating an element costs no more than reading memory.
    """

    type: TensorType
    reads: frozenset[Buffer]
    is_flat: bool
    is_cheap: bool

    def element(self, builder: Builder, index: Index | Flat) -> Element:
        """An element; may write statements into the current loop."""
        raise NotImplementedError


@dataclass(eq=False)
class Stored(Value):
    """A value in memory; its shape may differ from that of the buffer."""

    buffer: Buffer
    type: TensorType
    reads: frozenset[Buffer] = field(init=False)
    is_flat: bool = field(init=False, default=True)
    is_cheap: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        self.reads = frozenset({self.buffer})

    def element(self, builder: Builder, index: Index | Flat) -> Element:
        """A read of memory."""
        return builder.load(self.buffer, flattened(builder.code, index, self.type.shape))


@dataclass(eq=False)
class Lazy(Value):
    """A value that is evaluated where an element is needed."""

    type: TensorType
    evaluate: Callable[[Builder, Index | Flat], Element]
    reads: frozenset[Buffer]
    is_flat: bool
    is_cheap: bool = False

    def element(self, builder: Builder, index: Index | Flat) -> Element:
        """The element; see `Code.once`."""
        if isinstance(index, Flat) and self.type.rank == 1:
            index = (index.position,)
        return builder.code.once((self, index), lambda: self.evaluate(builder, index))


def flattened(code: Code, index: Index | Flat, shape: Sequence[int]) -> Place:
    """The row-major position of an element."""
    if isinstance(index, Flat):
        return index.position
    position: Place = 0
    for place, size in zip(index, shape, strict=True):
        # A dimension of one element has the index 0.
        position = code.plus(code.times(position, size), place if size != 1 else 0)
    return position
