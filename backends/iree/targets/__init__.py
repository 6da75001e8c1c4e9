"""The targets of IREE, with their flags and capabilities.

`table` has the data, `model` their types, and `lookup` finds a target by its name.
"""

from __future__ import annotations

from gnomon.backends.iree.targets.lookup import TARGETS, find_target, target_names
from gnomon.backends.iree.targets.machine import (
    Linker,
    bundled_linker_script,
    find_linker,
    host_fingerprint,
    incompatibility,
    linking_flags,
)
from gnomon.backends.iree.targets.model import (
    Architecture,
    Capabilities,
    Family,
    Flag,
    Target,
)
from gnomon.backends.iree.targets.table import CPU, CPUS, FAMILIES

__all__ = [
    "CPU",
    "CPUS",
    "FAMILIES",
    "TARGETS",
    "Architecture",
    "Capabilities",
    "Family",
    "Flag",
    "Linker",
    "Target",
    "bundled_linker_script",
    "find_linker",
    "find_target",
    "host_fingerprint",
    "incompatibility",
    "linking_flags",
    "target_names",
]
