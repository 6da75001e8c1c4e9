"""Examples of generated layers of `gnomon.example_libraries.stax`."""

from __future__ import annotations

LIBRARIES: dict[str, str] = {}
