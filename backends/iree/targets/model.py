"""The types of the table of targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

__all__ = ["Architecture", "Capabilities", "Family", "Flag", "Target"]


@dataclass(frozen=True)
class Flag:
    """A command-line flag of the compiler, and why we pass it."""

    name: str
    reason: str


@dataclass(frozen=True)
class Capabilities:
    """The ops and dtypes that a target has, and the kind of its memory.

    The legalizations depend on these properties of a target and on no others.

    Attributes:
        dtypes: short names of the dtypes that compiled code computes with. A program that has
            another one is refused; none is ever computed in a narrower one.
        widened: short names of those that it only stores, because it lacks some of their
            arithmetic.
        complex_selects: it can choose between complex numbers.
        libm: where functions come from that the compiler has no code for. "system": the C library,
            by name. "device": a library of the GPU's vendor, linked by the compiler. "none":
            nowhere, they are written out in arithmetic.
        rounds: the compiler itself has code for rounding to integers and for remainders.
        atomics: threads may update one element at the same time, so updates of a scatter with
            equal indices run in parallel. IREE 3.13 generates none; without them such a scatter
            goes through its updates one after the other.
        host_memory: NumPy arrays can be read and written in place.
        host_calls: compiled programs may call Python, the operands copied to the host and the
            results back where the memory is not shared.
        import_alignment: bytes to which the address of an imported array must be aligned.
        max_bindings: buffers that one dispatch can take.
    """

    dtypes: frozenset[str]
    widened: frozenset[str]
    complex_selects: bool
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
    def f64(self) -> bool:
        """Whether there are 64-bit floats, also for intermediate values."""
        return "f64" in self.dtypes

    @property
    def stores_more(self) -> bool:
        """Whether there are dtypes that are stored and not computed with."""
        return bool(self.widened)

    @property
    def i64(self) -> bool:
        """Whether there are 64-bit integers."""
        return "i64" in self.dtypes


@dataclass(frozen=True)
class Target:
    """A kind of machine: how to compile for it and how to run there.

    Attributes:
        name: what `find_target` finds it by, such as "cuda:sm_90".
        meaning: the machines that it is, in words.
        platform: the name of the device's platform that users see.
        hal_backend: IREE's name for the code generator.
        code: what the artifact holds for the device: "elf", "wasm", "ptx", "hsaco", "spirv", "msl".
        memory: "host" where the device computes in the memory of Python, otherwise "device".
        drivers: IREE's runtime driver for each execution model; empty where none can load it.
        flags: passed with each program.
        process_flags: the few that the compiler takes only once, when its process starts.
        capabilities: what the legalizations depend on.
        legalized: in words, which ops are rewritten for it, and why.
        device: the device as an attribute of the module, where the compiler knows too little of it
            by its flags; it takes the place of the flags that choose the code generator.
        is_host: compiled for the processor that it is compiled on.
        machine: the processor's family as `platform.machine` names it, where artifacts run on no
            other; empty where the device decides.
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
        name: as the compiler takes it.
        meaning: the hardware that it names.
        changes: capabilities in which it differs from its family.
        device: see `Target`.
    """

    name: str
    meaning: str
    changes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    device: str = ""


@dataclass(frozen=True)
class Family:
    """Targets that differ in their architecture: `cuda:sm_80`, `cuda:sm_90`.

    Attributes:
        target: what they have in common; its name is the family's.
        flag: the compiler's flag for the architecture, with `{}` in its place.
        architectures: those that there are.
        default: the one that the family's bare name means where none is detected.
        detect: finds the architecture of a device on this machine; None where there is none.
    """

    target: Target
    flag: Flag
    architectures: tuple[Architecture, ...]
    default: str
    detect: Callable[[], str | None]

    def member(self, name: str) -> Target:
        """The target of one architecture.

        Raises:
            KeyError: there is none of that name.
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
