"""Examples of generated functions of `gnomon.scipy`, and of initializers of `gnomon.nn`."""

from __future__ import annotations

SCIPY: dict[str, str] = {}
