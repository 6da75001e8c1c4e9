"""The keys of our data among the reflection data of a compiled program's ``main``."""

from __future__ import annotations

from gnomon.backends.iree.inside.planned_memory import KEY

__all__ = ["HOST", "MEMORY", "STEPS"]

HOST = "gnomon.host"
"""The table of the host functions; see `host`."""

MEMORY = KEY
"""The memory that calls need; see `planned_memory`."""

STEPS = "gnomon.steps"
"""The steps that Python runs; see `steps`."""
