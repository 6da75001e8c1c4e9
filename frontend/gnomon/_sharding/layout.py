"""The order of an array's elements in the memory of a device, and its pairing with a sharding.

Programs read and write arrays in row-major order on all backends, so no other order can be used.
The types name this order for programs that ask the compiler for layouts and pass them on.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, ClassVar

from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.sharding import Sharding, SingleDeviceSharding

__all__ = ["Format", "Layout", "check_layout", "row_major", "sharding_of"]


class _AutoLayout:
    """The type of `Layout.AUTO`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "AUTO"

    def __reduce__(self) -> str:
        return "_AUTO"


_AUTO = _AutoLayout()


class Layout:
    """The order of an array's elements in the memory of each device that holds it.

    Args:
      major_to_minor: the dimensions, from the one whose neighbours are farthest apart in memory to
        the one whose neighbours are next to each other. ``(0, 1)`` is a row-major matrix.
    Raises:
      ValueError: ``major_to_minor`` is not a permutation of the dimensions.
      TypeError: ``major_to_minor`` has something else than integers.

    Attributes:
      AUTO: the layout that the compiler chooses, which is the row-major one.

    Example:
      >>> import gnomon as gn
      >>> gn.experimental.layout.Layout((0, 1))
      Layout(major_to_minor=(0, 1))
    """

    __slots__ = ("major_to_minor",)

    AUTO: ClassVar[Any] = _AUTO

    def __init__(self, major_to_minor: Iterable[int]) -> None:
        order = tuple(map(operator.index, major_to_minor))
        if sorted(order) != list(range(len(order))):
            raise ValueError(
                f"Layout: major_to_minor must have each of 0 to {len(order) - 1} once, got {order}"
            )
        self.major_to_minor = order

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.major_to_minor == other.major_to_minor

    def __hash__(self) -> int:
        return hash((Layout, self.major_to_minor))

    def __repr__(self) -> str:
        return f"Layout(major_to_minor={self.major_to_minor})"

    def __reduce__(self) -> Any:
        return Layout, (self.major_to_minor,)


class Format:
    """A layout and a sharding: where all elements of an array are.

    `gnomon.jit` and `gnomon.device_put` take formats in the place of shardings.

    Args:
      layout: a `Layout`, ``Layout.AUTO``, or None, which means the same.
      sharding: a `gnomon.sharding.Sharding`; None where the sharding is not to be changed.
    Raises:
      TypeError: an argument is of another type.
      ValueError: there is a `Layout`, but no sharding.

    Example:
      >>> import gnomon as gn
      >>> gn.numpy.zeros((2, 3)).format.layout
      Layout(major_to_minor=(0, 1))
    """

    __slots__ = ("layout", "sharding")

    def __init__(self, layout: Any = None, sharding: Sharding | None = None) -> None:
        if not (layout is None or layout is _AUTO or isinstance(layout, Layout)):
            raise TypeError(f"Format takes a Layout, Layout.AUTO or None, got {layout!r}")
        if not (sharding is None or isinstance(sharding, Sharding)):
            raise TypeError(
                "Format takes a sharding, such as gnomon.NamedSharding(mesh, spec), or None, got "
                f"{sharding!r}"
            )
        if isinstance(layout, Layout) and not isinstance(
            sharding, (NamedSharding, SingleDeviceSharding)
        ):
            raise ValueError(
                "Format: a Layout needs a gnomon.NamedSharding or a "
                f"gnomon.sharding.SingleDeviceSharding, got {sharding!r}"
            )
        self.layout = layout
        self.sharding = sharding

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Format)
            and self.layout == other.layout
            and self.sharding == other.sharding
        )

    def __hash__(self) -> int:
        return hash((Format, self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout!r}, sharding={self.sharding!r})"

    def __reduce__(self) -> Any:
        return Format, (self.layout, self.sharding)


def row_major(rank: int, sharding: Sharding) -> Format:
    """The format of an array of a rank."""
    return Format(Layout(range(rank)), sharding)


def check_layout(what: str, layout: Any, shape: tuple[int, ...]) -> None:
    """Check that an array can have a layout.

    Raises:
      ValueError: the layout is that of another rank.
      NotImplementedError: the layout is not row-major.
    """
    if not isinstance(layout, Layout):
        return
    order = layout.major_to_minor
    if len(order) != len(shape):
        raise ValueError(
            f"{what}: {layout} has {len(order)} dimensions, but the array has shape {shape}"
        )
    if order != tuple(range(len(order))):
        raise NotImplementedError(
            f"{what}: {layout} is not supported: arrays are row-major on all devices. Use "
            "Layout.AUTO, or transpose the array"
        )


def sharding_of(target: Any) -> Any:
    """The sharding of a format; anything else unchanged."""
    return target.sharding if isinstance(target, Format) else target
