"""Aligned columns of text."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["columns", "size"]


def columns(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Rows with their cells in columns; the last column is not padded."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(indent + line.rstrip() for line in lines)


def size(count: float) -> str:
    """A number of bytes in a unit that fits it."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError
