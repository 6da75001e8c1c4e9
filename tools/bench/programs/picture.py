"""The ratios of a run as a picture: one bar for each program, on a logarithmic scale, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

__all__ = ["as_picture"]

_ROW, _BAR, _NAMES, _SCALE, _HEAD = 16, 10, 190, 420, 40
_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10)
_FASTER, _SLOWER = "#2a7f62", "#b5532a"


def as_picture(ratios: Mapping[str, float], title: str) -> str:
    """Draw ratios; bars to the left of 1 are faster than JAX.

    Args:
      ratios: gnomon's figure divided by JAX's, by program.
      title: the heading.

    Returns:
      The text of an SVG file.
    """
    low, high = math.log(_TICKS[0]), math.log(_TICKS[-1])

    def place(ratio: float) -> float:
        at = (math.log(ratio) - low) / (high - low)
        return _NAMES + _SCALE * min(max(at, 0.0), 1.0)

    bottom = _HEAD + _ROW * len(ratios)
    width, height = _NAMES + _SCALE + 60, bottom + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_NAMES}" y="14" font-weight="bold">{escape(title)}</text>',
    ]
    for tick in _TICKS:
        x = place(tick)
        colour = "#555" if tick == 1 else "#ddd"
        parts += [
            f'<line x1="{x:.1f}" y1="{_HEAD - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>',
            f'<text x="{x:.1f}" y="{_HEAD - 10}" text-anchor="middle">{tick:g}</text>',
        ]
    for number, (name, ratio) in enumerate(ratios.items()):
        y = _HEAD + number * _ROW
        start, end = sorted((place(1), place(ratio)))
        colour = _FASTER if ratio <= 1 else _SLOWER
        parts += [
            f'<text x="{_NAMES - 8}" y="{y + 11}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="bar" x="{start:.1f}" y="{y + 3}" width="{end - start:.1f}" '
            f'height="{_BAR}" fill="{colour}"/>',
            f'<text x="{_NAMES + _SCALE + 8}" y="{y + 11}">{ratio:.2f}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
