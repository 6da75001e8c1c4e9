"""How arrays are printed."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["shown"]


def shown(value: np.ndarray[Any, Any], weak_type: bool) -> str:
    """The ``repr`` of an array."""
    prefix = "Array("
    threshold = np.get_printoptions()["threshold"]
    if value.size == 0:
        text = f"[], shape={value.shape}"
    else:
        text = np.array2string(
            value, separator=", ", prefix=prefix, suffix=",", threshold=threshold
        )
    details = f"dtype={value.dtype.name}{', weak_type=True' if weak_type else ''})"
    last_line = len(text) - (text.rfind("\n") + 1)
    start = len(prefix) if "\n" not in text else 0
    # The dtype is on a separate line if it does not fit on the last line of the value.
    fits = start + last_line + len(details) + 2 <= np.get_printoptions()["linewidth"]
    return f"{prefix}{text},{' ' if fits else chr(10) + ' ' * len(prefix)}{details}"
