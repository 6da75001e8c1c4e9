"""Examples of generated functions of `gnomon.scipy.special`."""

from __future__ import annotations

SCIPY: dict[str, str] = {}
