"""Examples of generated functions of `gnomon.lax`."""

from __future__ import annotations

LAX: dict[str, str] = {}
