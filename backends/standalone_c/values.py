"""The values of a program while its C code is written.

A value is either in memory, or is an expression that is evaluated where an element is needed.
Consumers ask for the C expression of an element at an index, so that chains of elementwise and
index-mapping operations become one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from gnomon.dialects.types import TensorType

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter

__all__ = ["Buffer", "Flat", "Index", "Lazy", "Stored", "Value", "flattened", "plus", "times"]

Index: TypeAlias = "tuple[str, ...]"
"""A C expression for each dimension."""


@dataclass(frozen=True)
class Flat:
    """The row-major position of an element, for values that need no index of each dimension."""

    position: str


@dataclass(eq=False)
class Buffer:
    """Memory that holds an array in row-major order.

    Attributes:
      pointer: the C expression of a pointer to the first element.
      type: the array's type.
      owned: whether it may be overwritten: arguments and constants may not.
      scope: the number of the scope that owns it.
      offset: its place in the workspace; None outside of it.
      holders: how many values read it.
    """

    pointer: str
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

    def element(self, emitter: Emitter, index: Index | Flat) -> str:
        """The C expression of an element; may write statements into the current loop."""
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

    def element(self, emitter: Emitter, index: Index | Flat) -> str:
        """A read of memory."""
        return emitter.load(self.buffer, flattened(index, self.type.shape))


@dataclass(eq=False)
class Lazy(Value):
    """A value that is evaluated where an element is needed."""

    type: TensorType
    evaluate: Callable[[Emitter, Index | Flat], str]
    reads: frozenset[Buffer]
    is_flat: bool
    is_cheap: bool = False

    def element(self, emitter: Emitter, index: Index | Flat) -> str:
        """The expression of the element; see `Writer.once`."""
        if isinstance(index, Flat) and self.type.rank == 1:
            index = (index.position,)
        return emitter.once((self, index), lambda: self.evaluate(emitter, index))


def times(expression: str, factor: int) -> str:
    """The product of an index and a constant."""
    if expression == "0" or factor == 0:
        return "0"
    if expression.isdigit():
        return str(int(expression) * factor)
    return expression if factor == 1 else f"{expression} * {factor}"


def plus(left: str, right: str | int) -> str:
    """The sum of two indices, in parentheses unless it is one of them."""
    right = str(right)
    if left == "0" or right == "0":
        return right if left == "0" else left
    if left.isdigit() and right.isdigit():
        return str(int(left) + int(right))
    return f"({left} - {right[1:]})" if right.startswith("-") else f"({left} + {right})"


def flattened(index: Index | Flat, shape: Sequence[int]) -> str:
    """The row-major position of an element."""
    if isinstance(index, Flat):
        return index.position
    position = "0"
    for place, size in zip(index, shape, strict=True):
        # A dimension of one element has the index 0.
        position = plus(times(position, size), place if size != 1 else "0")
    return position
