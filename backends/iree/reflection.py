"""The keys of our data among the reflection data of a compiled program's ``main``."""

from __future__ import annotations

__all__ = ["HOST", "STEPS"]

HOST = "gnomon.host"
"""The table of the host functions; see `host`."""

STEPS = "gnomon.steps"
"""The steps that Python runs; see `steps`."""
