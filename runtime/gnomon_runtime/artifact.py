"""Artifacts: the contents of the sections of a file.

The metadata is JSON in the first section. It has the entry points with their signatures, and the
numbers of the sections that hold their programs, compiled modules and weights. `read` checks all of
it before it returns anything; `gnomon_runtime.writing` writes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from gnomon_runtime.container import Container, Section
from gnomon_runtime.dtypes import NAMES, dtype_named, item_bits
from gnomon_runtime.tree import Tree, TreeFormatError

__all__ = [
    "Artifact",
    "Entry",
    "HostFunction",
    "Module",
    "TensorType",
    "Weight",
    "from_bytes",
    "read",
]

_MAX_RANK = 64
_MAX_BYTES = 1 << 62
_MAX_METADATA = 1 << 28
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class TensorType(NamedTuple):
    """The type of an argument or a result.

    Attributes:
      shape: the length of each dimension; the text of an expression where it is symbolic.
      dtype: the dtype's name.
      weak_type: whether promotion prefers the other operand's dtype, as with a Python number.
    """

    shape: tuple[Any, ...]
    dtype: str
    weak_type: bool = False

    @property
    def nbytes(self) -> int:
        """The size of its elements in bytes; it must have no symbolic dimensions."""
        size = item_bits(self.dtype) // 8
        for length in self.shape:
            size *= length
        return size

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


class HostFunction(NamedTuple):
    """A function of NumPy that a compiled program calls.

    Attributes:
      name: its name in the program, in the module ``host``.
      op: its key in `gnomon_runtime.linear_algebra.functions`.
      params: its parameters, booleans and integers.
      operands, results: types of the arrays.
    """

    name: str
    op: str
    params: Mapping[str, int]
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]


class Module(NamedTuple):
    """A program compiled for one target.

    Attributes:
      target: the target's name, such as ``"x86-64-v3"``.
      backend: the backend that made it: ``"iree"`` or ``"pjrt"``.
      platform: the platform of the devices that run it.
      execution: ``"sync"``, ``"blocking"`` or ``"async"``, see `gnomon_runtime.running`.
      machine: the processor's family, as `platform.machine` names it; empty for other devices.
      features: names of instructions that the processor must have.
      fingerprint: identifies the only kind of machine that runs it; empty if there are others.
      versions: the versions of the compiler and of the libraries that it links with.
      host: the functions of NumPy that the program calls.
    """

    target: str
    backend: str
    platform: str
    execution: str = "sync"
    machine: str = ""
    features: tuple[str, ...] = ()
    fingerprint: str = ""
    versions: Mapping[str, str] = _NOTHING
    host: tuple[HostFunction, ...] = ()


class Weight(NamedTuple):
    """An array that a program takes from the artifact.

    Attributes:
      type: its type.
      section: the number of its section.
    """

    type: TensorType
    section: int


class Entry(NamedTuple):
    """A function of the artifact.

    Attributes:
      name: its name in the artifact.
      function: the name of the Python function.
      inputs, outputs: types of the leaves of its arguments and results.
      in_tree: the structure of ``(args, kwargs)``.
      out_tree: the structure of the results.
      donated: positions of the inputs whose memory a call takes over.
      weights: names of the weights that the program takes after its inputs.
      platforms: the platforms that it was exported for.
      vjp: the entry that computes the cotangents of its arguments; empty if there is none.
      notes: anything else, as JSON.
      modules: the compiled programs by target.
      sections: the numbers of sections. The keys are pairs of ``"portable"`` or ``"program"`` and a
        platform, and of ``"module"`` and a target.
    """

    name: str
    function: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    in_tree: Tree
    out_tree: Tree
    donated: tuple[int, ...] = ()
    weights: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ("cpu",)
    vjp: str = ""
    notes: Mapping[str, Any] = _NOTHING
    modules: Mapping[str, Module] = _NOTHING
    sections: Mapping[str, Mapping[str, int]] = _NOTHING

    @property
    def is_symbolic(self) -> bool:
        """Whether it takes arrays with symbolic dimensions."""
        return any(isinstance(n, str) for t in self.inputs for n in t.shape)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the positional arguments; empty where they are not known."""
        found = self.notes.get("parameters")
        names = found if isinstance(found, list) else []
        return tuple(name if isinstance(name, str) else "" for name in names)

    @property
    def nr_devices(self) -> int:
        """The number of devices that the program is for."""
        found = self.notes.get("nr_devices", 1)
        return found if isinstance(found, int) else 1


class Artifact:
    """An artifact that was read; see `read`.

    Attributes:
      metadata: the metadata of the file.
      entries: the functions by name.
      weights: the arrays by name, see `weight`.
      producer: versions of the packages that wrote it.
    """

    def __init__(self, container: Container) -> None:
        self._container = container
        self.metadata: Mapping[str, Any] = self._read_metadata()
        check = _Check(container)
        with check:
            meta = self.metadata
            sections = container.sections
            self.producer = MappingProxyType(check.strings(check.get(meta, "producer", dict)))
            weights = check.get(meta, "weights", dict)
            self.weights = MappingProxyType(
                {name: check.weight(data, sections) for name, data in weights.items()}
            )
            entries = check.get(meta, "entries", dict)
            self.entries = MappingProxyType(
                {name: check.entry(name, data, self) for name, data in entries.items()}
            )
            for entry in self.entries.values():
                check.that(not entry.vjp or entry.vjp in self.entries, "a missing vjp")

    def _read_metadata(self) -> Any:
        container = self._container
        sections = container.sections
        if not sections or sections[0].kind != "metadata" or sections[0].length > _MAX_METADATA:
            raise container.damaged("its first section is not metadata")
        try:
            found = json.loads(bytes(container.map(0)), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise container.damaged(f"its metadata is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise container.damaged("its metadata is not a JSON object")
        return MappingProxyType(found)

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return self._container.name

    @property
    def version(self) -> int:
        """The version of the format."""
        return self._container.version

    @property
    def digest(self) -> str:
        """The checksum of the whole file, in hexadecimal."""
        return self._container.digest.hex()

    @property
    def sections(self) -> tuple[Section, ...]:
        """The parts of the file."""
        return self._container.sections

    def entry(self, name: str | None = None) -> Entry:
        """An entry by name; by default the only one, except for those of vjps, or ``main``.

        Raises:
          KeyError: there is no such entry; the message lists the entries.
        """
        if name is None:
            public = [n for n, e in self.entries.items() if not e.notes.get("vjp_of")]
            name = public[0] if len(public) == 1 else "main"
        if name not in self.entries:
            there_are = ", ".join(map(repr, self.entries)) or "none"
            raise KeyError(f"{self.name} has no entry {name!r}; there are: {there_are}")
        return self.entries[name]

    def module(self, entry: str, target: str) -> bytes:
        """The module of an entry for a target, compared with its checksum.

        Raises:
          KeyError: there is none.
        """
        return self._bytes(entry, "module", target)

    def portable(self, entry: str, platform: str | None = None) -> bytes:
        """The portable program of an entry: an artifact of StableHLO.

        Args:
          entry: the entry's name.
          platform: the platform that it was traced for; by default the first.
        """
        return self._bytes(entry, "portable", platform)

    def program(self, entry: str, platform: str | None = None) -> bytes:
        """The program of an entry in gnomon's own dialect, as text; see `portable`."""
        return self._bytes(entry, "program", platform)

    def weight(self, name: str) -> np.ndarray[Any, Any]:
        """A weight: the file's memory, read-only, compared with its checksum at the first use.

        Raises:
          KeyError: there is none of this name.
        """
        weight = self.weights[name]
        dtype = dtype_named(weight.type.dtype)
        data = self._container.map(weight.section)
        array = np.frombuffer(data, np.uint8).view(dtype).reshape(weight.type.shape)
        array.flags.writeable = False
        return array

    def verify(self) -> None:
        """Compare every section with its checksum.

        Raises:
          ArtifactDamagedError: one is wrong.
        """
        for number in range(len(self.sections)):
            self._container.map(number)

    def _bytes(self, entry: str, kind: str, key: str | None) -> bytes:
        found = self.entry(entry).sections.get(kind, {})
        if key is None:
            key = next(iter(found), "any platform")
        if key not in found:
            raise KeyError(
                f"{self.name}: the entry {entry!r} has no {kind} for {key!r}; there are: "
                f"{', '.join(map(repr, found)) or 'none'}"
            )
        return self._container.copy(found[key])

    def __repr__(self) -> str:
        entries = ", ".join(f"{e.name}{list(e.modules)}" for e in self.entries.values())
        return f"Artifact({self.name!r}, {entries})"


def read(path: str | os.PathLike[str]) -> Artifact:
    """Open a file; programs and weights are read only when they are needed.

    Raises:
      NotAnArtifactError, ArtifactVersionError, ArtifactDamagedError: as their names say.
    """
    return Artifact(Container.open(path))


def from_bytes(data: Any, name: str = "the artifact") -> Artifact:
    """The artifact in memory; see `read`."""
    return Artifact(Container(data, name))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class _Check:
    """Reads parts of the metadata, and raises `ArtifactDamagedError` for any that is wrong."""

    def __init__(self, container: Container) -> None:
        self._container = container

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        # The other errors that a hostile file can cause while it is read.
        if isinstance(error, (KeyError, TypeError, ValueError, RecursionError, OverflowError)):
            raise self._container.damaged(f"its metadata is wrong: {error}") from None

    def that(self, holds: bool, what: str) -> None:
        """Raise unless something holds."""
        if not holds:
            raise self._container.damaged(f"its metadata has {what}")

    def get(self, data: Any, key: str, kind: type, default: Any = None) -> Any:
        """A field of an object, of a given type."""
        if not isinstance(data, Mapping):
            raise TypeError("an object was expected")
        value = data.get(key, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TypeError(f"{key!r} must be of type {kind.__name__}")
        return value

    def strings(self, data: dict[str, Any]) -> dict[str, str]:
        """An object of strings."""
        self.that(all(isinstance(value, str) for value in data.values()), "other than a string")
        return data

    def names(self, data: Any, key: str) -> tuple[str, ...]:
        """A list of strings."""
        found = self.get(data, key, list, [])
        self.that(all(isinstance(value, str) for value in found), "other than a string")
        return tuple(found)

    def type(self, data: Any, symbolic: bool = False) -> TensorType:
        """The type of an array; only arguments and results may have symbolic dimensions."""
        shape, dtype = self.get(data, "shape", list), self.get(data, "dtype", str)
        self.that(dtype in NAMES, f"the unknown dtype {dtype!r}")
        sizes = [n for n in shape if not (symbolic and isinstance(n, str))]
        valid = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in sizes)
        self.that(valid and len(shape) <= _MAX_RANK, "an invalid shape")
        found = TensorType(tuple(sizes), dtype, self.get(data, "weak", bool, False))
        # Empty arrays too have lengths that NumPy can hold.
        self.that(max(sizes, default=0) < _MAX_BYTES > found.nbytes, "an array beyond all memory")
        return found._replace(shape=tuple(shape))

    def section(self, data: Any, kind: str, sections: Sequence[Section]) -> int:
        """The number of a section of a given kind."""
        self.that(isinstance(data, int) and 0 <= data < len(sections), "a missing section")
        self.that(sections[data].kind == kind, f"a {kind} in a section of another kind")
        return int(data)

    def weight(self, data: Any, sections: Sequence[Section]) -> Weight:
        """A weight, whose section has exactly its size."""
        type_ = self.type(data)
        number = self.section(self.get(data, "section", int), "weight", sections)
        self.that(sections[number].length == type_.nbytes, "a weight of another size")
        return Weight(type_, number)

    def tree(self, data: Any, leaves: int) -> Tree:
        """A structure with a given number of leaves."""
        tree = Tree(data)
        self.that(tree.num_leaves == leaves, "a structure with another number of leaves")
        return tree

    def module(self, target: str, data: Any) -> Module:
        """A description of a module."""
        return Module(
            target,
            self.get(data, "backend", str),
            self.get(data, "platform", str),
            self.get(data, "execution", str),
            self.get(data, "machine", str, ""),
            self.names(data, "features"),
            self.get(data, "fingerprint", str, ""),
            MappingProxyType(self.strings(self.get(data, "versions", dict, {}))),
            tuple(map(self.host_function, self.get(data, "host", list, []))),
        )

    def host_function(self, data: Any) -> HostFunction:
        """A function of NumPy that a module calls."""
        params = self.get(data, "params", dict, {})
        self.that(
            all(isinstance(v, int) for v in params.values()), "a parameter that is not an integer"
        )
        return HostFunction(
            self.get(data, "name", str),
            self.get(data, "op", str),
            MappingProxyType(params),
            tuple(map(self.type, self.get(data, "operands", list))),
            tuple(map(self.type, self.get(data, "results", list))),
        )

    def entry(self, name: str, data: Any, artifact: Artifact) -> Entry:
        """A function."""
        symbolic = "scope" in self.get(data, "notes", dict, {})
        inputs = tuple(self.type(t, symbolic) for t in self.get(data, "inputs", list))
        outputs = tuple(self.type(t, symbolic) for t in self.get(data, "outputs", list))
        donated = tuple(self.get(data, "donated", list, []))
        valid = all(isinstance(i, int) and 0 <= i < len(inputs) for i in donated)
        self.that(
            valid and len(set(donated)) == len(donated), "an invalid position of a donated argument"
        )
        weights = self.names(data, "weights")
        self.that(all(w in artifact.weights for w in weights), "a missing weight")
        modules = self.get(data, "modules", dict, {})
        sections: dict[str, Mapping[str, int]] = {
            "module": {
                target: self.section(self.get(m, "section", int), "module", artifact.sections)
                for target, m in modules.items()
            }
        }
        for kind in ("portable", "program"):
            sections[kind] = MappingProxyType(
                {
                    platform: self.section(number, kind, artifact.sections)
                    for platform, number in self.get(data, kind, dict, {}).items()
                }
            )
        try:
            in_tree = self.tree(data.get("in_tree"), len(inputs))
            out_tree = self.tree(data.get("out_tree"), len(outputs))
        except TreeFormatError as error:
            raise TypeError(f"a structure is invalid: {error}") from None
        return Entry(
            name,
            self.get(data, "function", str),
            inputs,
            outputs,
            in_tree,
            out_tree,
            donated,
            weights,
            self.names(data, "platforms"),
            self.get(data, "vjp", str, ""),
            MappingProxyType(self.get(data, "notes", dict, {})),
            MappingProxyType({t: self.module(t, m) for t, m in modules.items()}),
            MappingProxyType(sections),
        )
