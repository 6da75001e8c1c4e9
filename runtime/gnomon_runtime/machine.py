"""This machine: which of an artifact's modules it can run."""

from __future__ import annotations

import functools
import platform

from gnomon_runtime.artifact import Artifact, Entry, Module
from gnomon_runtime.errors import MissingModuleError
from gnomon_runtime.linear_algebra.functions import FUNCTIONS

__all__ = ["choose_module", "drivers", "reason_against"]

# IREE's driver for each platform and execution model.
_HOST_DRIVERS = {"sync": "local-sync", "blocking": "local-task"}
_DRIVERS = {"cuda": "cuda", "rocm": "hip", "vulkan": "vulkan", "metal": "metal"}


def drivers(module: Module) -> str:
    """The name of IREE's driver for a module."""
    if module.platform == "cpu":
        return _HOST_DRIVERS[module.execution]
    return _DRIVERS[module.platform]


@functools.cache
def _cpu_features() -> frozenset[str]:
    """The names of this processor's instruction sets, as Linux reports them."""
    try:
        with open("/proc/cpuinfo", errors="replace") as file:
            line = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        line = ""
    return frozenset(line.split())


def reason_against(module: Module) -> str:
    """Why a module cannot run on this machine, as far as that is known; empty if it can."""
    if module.backend != "iree":
        return f"it is an executable of {module.backend}, which gnomon itself runs"
    unknown = sorted({f.op for f in module.host} - FUNCTIONS.keys())
    if unknown:
        return f"it calls {', '.join(unknown)}, which this version of gnomon_runtime lacks"
    if module.platform != "cpu":
        return "" if module.platform in _DRIVERS else f"there is no driver for {module.platform!r}"
    if module.execution not in _HOST_DRIVERS:
        return f"it runs {module.execution!r}, which this version does not know"
    machine = platform.machine()
    if module.machine and module.machine != machine:
        return f"it is for {module.machine}, and this machine is {machine}"
    missing = [feature for feature in module.features if feature not in _cpu_features()]
    return f"this processor lacks {', '.join(missing)}" if missing else ""


def choose_module(artifact: Artifact, entry: Entry, platform_name: str | None = None) -> Module:
    """The module of an entry to run here.

    Args:
      artifact: the artifact of the entry.
      entry: the entry.
      platform_name: ``"cpu"``, ``"vulkan"``, ...; by default the CPU if there is a module for it.

    Returns:
      The module; if several are for the CPU, the one that uses the most of its instruction sets.

    Raises:
      MissingModuleError: there is none; the message says why each was passed over.
    """
    reasons, found = [], []
    for module in entry.modules.values():
        if platform_name is not None and module.platform != platform_name:
            reasons.append(f"{module.target}: it is for {module.platform!r}")
        elif reason := reason_against(module):
            reasons.append(f"{module.target}: {reason}")
        else:
            found.append(module)
    if not found:
        raise MissingModuleError(
            f"{artifact.name}: the entry {entry.name!r} has no module that runs here"
            + "".join(f"\n  {reason}" for reason in reasons)
            + ("" if reasons else ": it has the portable program alone")
            + "\nWhere gnomon is installed, gnomon.load compiles the portable program."
        )
    return max(found, key=lambda module: (module.platform == "cpu", len(module.features)))
