"""Writing artifacts: `Writer`, and the packing of sections into a file."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gnomon_runtime.artifact import Entry, HostFunction, Module, TensorType, from_bytes
from gnomon_runtime.container import (
    ENTRY,
    ENTRY_END,
    FORMAT_VERSION,
    HEADER,
    HEADER_END,
    HEADER_SIZE,
    MAGIC,
    MAX_SECTIONS,
    aligned,
    digest_of,
)
from gnomon_runtime.dtypes import NAMES

__all__ = ["Writer", "pack", "write_file"]


def pack(sections: Iterable[tuple[str, Any]]) -> list[Any]:
    """The parts of a file, one after another.

    Args:
      sections: pairs of a kind and contents, which are anything with the buffer protocol.
    """
    given = [(kind, memoryview(data).cast("B")) for kind, data in sections]
    if len(given) > MAX_SECTIONS:
        raise ValueError(f"an artifact has at most {MAX_SECTIONS} sections, got {len(given)}")
    offset = HEADER_SIZE + ENTRY.size * len(given)
    table, parts = b"", []
    for kind, data in given:
        name = kind.encode("ascii")
        if not 0 < len(name) <= 16:
            raise ValueError(f"a kind of section has 1 to 16 characters, got {kind!r}")
        start = aligned(offset)
        parts += [bytes(start - offset), data]
        table += ENTRY.pack(start, len(data), digest_of(data), name, ENTRY_END)
        offset = start + len(data)
    header = HEADER.pack(MAGIC, FORMAT_VERSION, len(given), offset, len(table), digest_of(table))
    return [header, digest_of(header), HEADER_END, table, *parts]


def write_file(path: str | os.PathLike[str], parts: Sequence[Any]) -> None:
    """Write a file atomically: at any time it is either the old one or the new one, complete.

    A path that is not a regular file, such as a pipe or ``/dev/stdout``, is written in place.

    Raises:
      OSError: the file cannot be written; the error names it.
    """
    # A link is kept, and the file that it names is replaced.
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            with open(target, "wb") as file:
                file.writelines(parts)
        else:
            _replace(target, parts)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from error


def _replace(target: Path, parts: Sequence[Any]) -> None:
    with tempfile.NamedTemporaryFile(
        dir=target.parent, prefix=f".{target.name}.", delete=False
    ) as file:
        try:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
            # A temporary file is its owner's alone; this one gets the usual permissions.
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(file.name, 0o666 & ~mask)
            file.close()
            os.replace(file.name, target)
        except BaseException:
            os.unlink(file.name)
            raise


class Writer:
    """Builds an artifact.

    Args:
      producer: versions of the packages that write it, by name.

    Example:
      >>> writer = Writer({"example": "1"})
      >>> writer.add_weight("w", np.ones(3, np.float32))
      >>> from_bytes(writer.to_bytes()).weight("w")
      array([1., 1., 1.], dtype=float32)
    """

    def __init__(self, producer: Mapping[str, str]) -> None:
        self._sections: list[tuple[str, Any]] = [("metadata", b"")]
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._entries: dict[str, Any] = {}
        self._weights: dict[str, Any] = {}
        self._producer = dict(producer)

    def _add(self, kind: str, data: Any) -> int:
        """The number of the section with these contents; equal ones are kept once."""
        key = kind, digest_of(data)
        if key not in self._numbers:
            self._numbers[key] = len(self._sections)
            self._sections.append((kind, data))
        return self._numbers[key]

    def add_weight(self, name: str, array: np.ndarray[Any, Any]) -> None:
        """Add an array, to which entries refer by its name.

        Raises:
          ValueError: the name is taken, or artifacts have no such dtype.
        """
        if name in self._weights:
            raise ValueError(f"there is already a weight named {name!r}")
        array = np.asarray(array)
        if array.dtype.name not in NAMES:
            raise ValueError(f"artifacts do not support arrays of dtype {array.dtype}")
        plain = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
        data: Any = plain.reshape(-1).view(np.uint8) if plain.size else b""
        type_ = TensorType(array.shape, array.dtype.name)
        self._weights[name] = {**_type_as_json(type_), "section": self._add("weight", data)}

    def add_entry(
        self,
        entry: Entry,
        *,
        portable: Mapping[str, bytes] | None = None,
        program: Mapping[str, bytes] | None = None,
        modules: Sequence[tuple[Module, bytes]] = (),
    ) -> None:
        """Add a function.

        Args:
          entry: its name and signature; ``modules`` and ``sections`` of it are not used.
          portable: portable artifacts of StableHLO by platform.
          program: programs in gnomon's dialect by platform.
          modules: the compiled modules.

        Raises:
          ValueError: the name is taken, or two modules are for the same target.
        """
        if entry.name in self._entries:
            raise ValueError(f"there is already an entry named {entry.name!r}")
        compiled = {}
        for module, data in modules:
            if module.target in compiled:
                raise ValueError(
                    f"the entry {entry.name!r} has two modules for the target {module.target!r}"
                )
            fields = module._asdict()
            del fields["target"]
            fields["versions"] = dict(module.versions)
            fields["host"] = list(map(_host_function_as_json, module.host))
            compiled[module.target] = {**fields, "section": self._add("module", data)}
        self._entries[entry.name] = {
            "function": entry.function,
            "inputs": list(map(_type_as_json, entry.inputs)),
            "outputs": list(map(_type_as_json, entry.outputs)),
            "in_tree": entry.in_tree.data,
            "out_tree": entry.out_tree.data,
            "donated": list(entry.donated),
            "weights": list(entry.weights),
            "platforms": list(entry.platforms),
            "vjp": entry.vjp,
            "notes": dict(entry.notes),
            "portable": {p: self._add("portable", d) for p, d in (portable or {}).items()},
            "program": {p: self._add("program", d) for p, d in (program or {}).items()},
            "modules": compiled,
        }

    def _parts(self) -> list[Any]:
        metadata = {
            "producer": self._producer,
            "entries": self._entries,
            "weights": self._weights,
        }
        text = json.dumps(metadata, separators=(",", ":"), allow_nan=False)
        return pack([("metadata", text.encode()), *self._sections[1:]])

    def to_bytes(self) -> bytes:
        """The artifact in memory."""
        data = b"".join(self._parts())
        from_bytes(data)  # never return an artifact that cannot be read
        return data

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically: at any time it is either the old one or the new one."""
        write_file(path, self._parts())


def _host_function_as_json(function: HostFunction) -> dict[str, Any]:
    return {
        "name": function.name,
        "op": function.op,
        "params": dict(function.params),
        "operands": list(map(_type_as_json, function.operands)),
        "results": list(map(_type_as_json, function.results)),
    }


def _type_as_json(type_: TensorType) -> dict[str, Any]:
    return {"shape": list(type_.shape), "dtype": type_.dtype, "weak": type_.weak_type}
