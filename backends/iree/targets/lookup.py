"""Lookup of targets by name, such as `cuda:sm_90` or `x86-64-v3`."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from types import MappingProxyType

from gnomon.backends.iree.targets.model import Family, Target
from gnomon.backends.iree.targets.table import CPUS, FAMILIES

__all__ = ["TARGETS", "find_target", "target_names"]

_FAMILIES: Mapping[str, Family] = {family.target.name: family for family in FAMILIES}

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        **{target.name: target for target in CPUS},
        **{name: family.member(family.default) for name, family in _FAMILIES.items()},
    }
)
"""One target for each name without an architecture; a family's is its default one."""


def target_names() -> list[str]:
    """All names that `find_target` accepts."""
    names = [target.name for target in CPUS]
    for name, family in _FAMILIES.items():
        names += [name, *(f"{name}:{a.name}" for a in family.architectures)]
    return names


@functools.cache
def find_target(name: str) -> Target:
    """The target with a name.

    Args:
      name: the name of a processor ("cpu" for this machine's, "x86-64-v3", "aarch64-linux", ...),
        or of a family of GPUs, with an architecture ("cuda:sm_90") or alone ("cuda", which
        means the architecture of this machine's GPU, or else the family's default).

    Raises:
      ValueError: there is no such target; the message lists the known ones.

    Example:
      >>> find_target("cuda:sm_90").code
      'ptx'
      >>> find_target("x86-64-v3").platform
      'cpu'
    """
    head, colon, architecture = name.partition(":")
    family = _FAMILIES.get(head)
    if family is None or (colon and not architecture):
        if name in TARGETS:
            return TARGETS[name]
        raise ValueError(f"unknown target {name!r}{_guess(name)}; there are {_listing()}")
    if not colon:
        detected = family.detect()
        known = {a.name for a in family.architectures}
        return family.member(detected if detected in known else family.default)
    try:
        return family.member(architecture)
    except KeyError:
        there_are = ", ".join(f"{a.name} ({a.meaning})" for a in family.architectures)
        raise ValueError(
            f"unknown target {name!r}{_guess(name)}; of {head!r} there are {there_are}"
        ) from None


def _guess(name: str) -> str:
    close = difflib.get_close_matches(name, target_names(), n=1)
    return f": did you mean {close[0]!r}?" if close else ""


def _listing() -> str:
    return ", ".join(
        f"{name}[:{'|'.join(a.name for a in _FAMILIES[name].architectures)}]"
        if name in _FAMILIES
        else name
        for name in TARGETS
    )
