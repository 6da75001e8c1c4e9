"""The types of the table of targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = ["Architecture", "Capabilities", "Family", "Flag", "Target"]


class Flag(NamedTuple):
    """A command-line flag of the compiler, and the reason for it."""

    name: str
    reason: str


@dataclass(frozen=True)
class Capabilities:
    """The ops and dtypes that a target supports, and the kind of its memory.

    The legalizations depend on these properties of a target and on no others.

    Attributes:
      dtypes: short names of the dtypes that compiled code computes with. A program with another
        dtype is rejected; no dtype is ever replaced by a narrower one.
      widened: short names of the dtypes that are only stored, and computed in a wider dtype,
        because the target lacks some of their arithmetic.
      libm: the source of functions that the compiler has no code for. "system": the C library,
        by name. "device": a library of the GPU's vendor, linked by the compiler. "none": the
        functions are expanded to arithmetic.
      rounds: whether the compiler itself has code for rounding to integers and for remainders.
      atomics: whether there are atomic updates, so that updates of a scatter with equal indices
        can run in parallel. IREE 3.13 generates none; without them, such a scatter performs its
        updates one after the other.
      host_memory: whether NumPy arrays can be read and written in place.
      host_calls: whether compiled programs can call Python. If the memory is not shared, operands
        are copied to the host and results back.
      import_alignment: the required alignment of an imported array's address, in bytes.
      max_bindings: the number of buffers that one dispatch can take.
    """

    dtypes: frozenset[str]
    widened: frozenset[str]
    libm: str
    rounds: bool
    atomics: bool
    host_memory: bool
    host_calls: bool
    import_alignment: int
    max_bindings: int

    def __post_init__(self) -> None:
        if self.libm not in ("system", "device", "none"):
            raise ValueError(f"libm must be 'system', 'device' or 'none', got {self.libm!r}")

    @property
    def max_buffers(self) -> int:
        """The number of buffers to plan for in a kernel; the other bindings are a reserve.

        The reserve is for what a legalization cannot see, such as results that share a kernel.
        """
        return self.max_bindings * 3 // 4

    @property
    def f64(self) -> bool:
        """Whether there are 64-bit floats, also for intermediate values."""
        return "f64" in self.dtypes

    @property
    def has_storage_only_dtypes(self) -> bool:
        """Whether some dtypes are stored but not computed with."""
        return bool(self.widened)

    @property
    def i64(self) -> bool:
        """Whether there are 64-bit integers."""
        return "i64" in self.dtypes


@dataclass(frozen=True)
class Target:
    """A kind of machine: how to compile for it and how to run there.

    Attributes:
      name: the name for `find_target`, such as "cuda:sm_90".
      meaning: a description of the machines.
      platform: the name of the device's platform that users see.
      hal_backend: IREE's name for the code generator.
      code: the format of the device code: "elf", "wasm", "ptx", "hsaco", "spirv", "msl".
      memory: "host" if the device computes in the memory of Python, otherwise "device".
      drivers: IREE's runtime driver for each execution model; empty if no driver can load the
        artifact.
      flags: the flags that are passed with each program.
      process_flags: the few flags that the compiler takes only once, when its process starts.
      capabilities: the properties that the legalizations depend on.
      legalized: descriptions of the ops that are rewritten for it, with reasons.
      device: the device as an attribute of the module, if the flags tell the compiler too little
        about it; it replaces the flags that choose the code generator.
      is_host: whether it is the processor that the compiler runs on.
      machine: the processor's family as `platform.machine` names it, if artifacts run on no
        other; otherwise empty.
      features: names in /proc/cpuinfo of the instructions that artifacts use.
    """

    name: str
    platform: str
    hal_backend: str
    code: str
    memory: str
    drivers: Mapping[str, str]
    flags: tuple[Flag, ...]
    process_flags: tuple[Flag, ...]
    capabilities: Capabilities
    legalized: tuple[str, ...] = ()
    meaning: str = ""
    device: str = ""
    is_host: bool = False
    machine: str = ""
    features: tuple[str, ...] = ()


@dataclass(frozen=True)
class Architecture:
    """One member of a family.

    Attributes:
      name: the compiler's name.
      meaning: a description of the hardware.
      changes: the capabilities in which it differs from its family.
      device: see `Target`.
    """

    name: str
    meaning: str
    changes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    device: str = ""


class Family(NamedTuple):
    """Targets that differ in their architecture: `cuda:sm_80`, `cuda:sm_90`.

    Attributes:
      target: the common properties; its name is the family's.
      flag: the compiler's flag for the architecture, with `{}` for its name.
      architectures: the architectures of the family.
      default: the architecture for the bare name of the family if none is detected.
      detect: returns the architecture of a device on this machine, or None.
    """

    target: Target
    flag: Flag
    architectures: tuple[Architecture, ...]
    default: str
    detect: Callable[[], str | None]

    def member(self, name: str) -> Target:
        """The target of one architecture.

        Raises:
          KeyError: the family has no architecture of that name.
        """
        found = {a.name: a for a in self.architectures}[name]
        flag = Flag(self.flag.name.format(name), self.flag.reason)
        return replace(
            self.target,
            name=f"{self.target.name}:{name}",
            flags=(*self.target.flags, flag),
            device=found.device,
            capabilities=replace(self.target.capabilities, **found.changes),
        )
