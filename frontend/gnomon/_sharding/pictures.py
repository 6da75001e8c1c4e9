"""Pictures of shardings in the terminal: an array as a table of the devices that hold its parts."""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gnomon._sharding.sharding import Sharding

__all__ = ["ColorMap", "visualize_sharding"]

# A function from a number in [0, 1] to red, green and blue (and perhaps opacity) in [0, 1].
ColorMap = Callable[[float], Sequence[float]]

# The height of a whole array in lines, and how much higher than wide a character is.
_LINES = 10
_ASPECT_OF_CHARACTERS = 2.5
# Text is black on colors that are brighter than this, of 255.
_BRIGHT = 186


class _Cell(NamedTuple):
    """One part of an array.

    Attributes:
      devices: the ids of the devices that hold it.
      height: its share of the array's height; None if the array has one dimension.
      width: its share of the array's width.
    """

    devices: list[int]
    height: float | None
    width: float


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: ColorMap | None = None,
) -> None:
    """Print a picture of how a sharding distributes an array over devices.

    Args:
      shape: the shape of the array, of one or two dimensions.
      sharding: a sharding with devices.
      use_color: draw the parts in colors where the terminal has them, else with lines.
      scale: how large the picture is.
      min_width: the smallest width of a part, in characters.
      max_width: the largest width of a part and of the picture.
      color_map: a function from a number in [0, 1] to red, green and blue in [0, 1], such as the
        color maps of matplotlib.
    Raises:
      ValueError: the shape does not have one or two dimensions, or the sharding does not fit it.

    Example:
      >>> import gnomon as gn
      >>> here = gn.sharding.SingleDeviceSharding(gn.devices("cpu")[0])
      >>> gn.debug.visualize_sharding((4, 8), here, use_color=False, scale=0.2)
      ┌────────┐
      │ CPU 0  │
      └────────┘
    """
    # Few programs draw pictures, and the others should not pay for importing rich.
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    if len(shape) not in (1, 2):
        raise ValueError(
            "visualize_sharding draws arrays of one or two dimensions, got the shape "
            f"{tuple(shape)}"
        )
    console = Console(width=max_width)
    colored = use_color and console.color_system is not None
    rows = _cells(tuple(shape), sharding)
    table = Table(
        show_header=False,
        show_lines=not colored,
        padding=0,
        highlight=not colored,
        pad_edge=False,
        box=None if colored else box.SQUARE,
    )
    colors = _colors(color_map or _default_colors, sum(map(len, rows))) if colored else None
    height = int(_LINES * scale)
    width = int(height * ((shape[1] if len(shape) == 2 else 1) / shape[0]))
    platform = sharding._device_tuple[0].platform.upper()
    for row in rows:
        drawn = []
        for cell in row:
            text = f"{platform} {','.join(map(str, cell.devices))}"
            across = int(cell.width * width * _ASPECT_OF_CHARACTERS)
            across = min(max(across, min_width), max_width)
            down = 1 if cell.height is None else int(cell.height * height)
            drawn.append(_drawn(text, across, down, next(colors) if colors else None))
        table.add_row(*drawn)
    console.print(table, end="\n\n")


def _cells(shape: tuple[int, ...], sharding: Sharding) -> list[list[_Cell]]:
    """The parts of an array, row by row."""
    found: dict[tuple[int, int], _Cell] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        spans = [part.indices(size)[:2] for part, size in zip(index, shape, strict=True)]
        shares = [
            (b - a) / size if size else 1.0 for (a, b), size in zip(spans, shape, strict=True)
        ]
        places = [a // (b - a) if b > a else 0 for a, b in spans]
        row, column = (0, *places)[-2:]
        cell = _Cell([], shares[0] if len(shape) == 2 else None, shares[-1])
        found.setdefault((row, column), cell).devices.append(device.id)
    for cell in found.values():
        cell.devices.sort()
    rows, columns = (max(place[i] for place in found) + 1 for i in (0, 1))
    return [[found[i, j] for j in range(columns)] for i in range(rows)]


def _drawn(text: str, width: int, height: int, color: tuple[str, str] | None) -> Any:
    """A part of the picture: text in the middle of a field with an optional color."""
    from rich.align import Align  # noqa: PLC0415
    from rich.padding import Padding  # noqa: PLC0415
    from rich.style import Style  # noqa: PLC0415

    # A line takes one character on each side; a colored field has no lines and fills this space.
    more = 1 if color else 0
    left, odd = divmod(width - len(text) - 2, 2)
    top, odd_line = divmod(height - 2, 2)
    sides = (top + more, left + odd + more, top + odd_line + more, left + more)
    background, foreground = color or (None, None)
    return Padding(
        Align(text, "center", vertical="middle"),
        (max(sides[0], 0), max(sides[1], 0), max(sides[2], 0), max(sides[3], 0)),
        style=Style(bgcolor=background, color=foreground),
    )


def _colors(color_map: ColorMap, count: int) -> Iterator[tuple[str, str]]:
    """Pairs of a background and a text color; neighbours get colors far from each other."""
    place = 0
    # Step by half the number of colors, or by one more if that would repeat colors at once.
    step = count // 2 + (count % 2 == 0)
    for _ in range(count):
        red, green, blue = (int(255 * x) for x in color_map(place / max(count - 1, 1))[:3])
        bright = 0.299 * red + 0.587 * green + 0.114 * blue > _BRIGHT
        yield f"#{red:02X}{green:02X}{blue:02X}", "#000000" if bright else "#ffffff"
        place = (place + step) % count


def _default_colors(x: float) -> tuple[float, float, float]:
    """The default color map: muted colors of all hues."""
    return colorsys.hsv_to_rgb(0.9 * x, 0.55, 0.7)
