"""Aligned columns of text."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["columns", "size"]


def columns(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Format rows as aligned columns; the last column is not padded."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(indent + line.rstrip() for line in lines)


def size(count: float) -> str:
    """Format a number of bytes with a suitable unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError
