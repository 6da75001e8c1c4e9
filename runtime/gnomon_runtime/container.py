"""The outer layout of an artifact: a header, a table, and sections with checksums.

All numbers are little-endian. The header has 128 bytes:

    offset  size  contents
    0       8     magic number: 89 47 4E 4D 0D 0A 1A 0A
    8       4     version of the format
    12      4     number of sections
    16      8     size of the file
    24      8     size of the table, which follows the header
    32      32    BLAKE2b-256 of the table
    64      32    BLAKE2b-256 of the 64 bytes before
    96      32    zeros

The table has an entry of 128 bytes for each section, in the order of the file:

    0       8     offset of the section, a multiple of 64
    8       8     its length
    16      32    BLAKE2b-256 of its contents
    48      16    kind, ASCII, filled up with zeros
    64      64    zeros

Bytes between sections are zeros. So each byte of a file is either a zero or covered by a checksum,
and a file has one digest, that of the header. Checksums find damage. They do not tell who wrote a
file: whoever can change it can change its checksums too.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from gnomon_runtime.errors import ArtifactDamagedError, ArtifactVersionError, NotAnArtifactError

__all__ = [
    "ALIGNMENT",
    "ENTRY",
    "FORMAT_VERSION",
    "HEADER",
    "HEADER_SIZE",
    "MAGIC",
    "MAX_SECTIONS",
    "Container",
    "Section",
    "aligned",
    "digest_of",
]

MAGIC = b"\x89GNM\r\n\x1a\n"
FORMAT_VERSION = 1
ALIGNMENT = 64

HEADER = struct.Struct("<8sIIQQ32s")
HEADER_SIZE = 128
HEADER_END = bytes(32)
ENTRY = struct.Struct("<QQ32s16s64s")
ENTRY_END = bytes(64)
MAX_SECTIONS = 1 << 20


class Section(NamedTuple):
    """A part of the file.

    Attributes:
      kind: the kind of contents: ``"metadata"``, ``"portable"``, ``"program"``, ``"module"``,
        ``"weight"``.
      offset, length: where it is.
      digest: BLAKE2b-256 of its contents.
    """

    kind: str
    offset: int
    length: int
    digest: bytes


def digest_of(data: Any) -> bytes:
    """BLAKE2b-256."""
    return hashlib.blake2b(data, digest_size=32).digest()


def aligned(offset: int) -> int:
    """The next multiple of the alignment."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


class Container:
    """An artifact's sections; each is compared with its checksum before it is returned.

    Args:
      data: the file's bytes, or a map of them.
      name: the file's name, for messages.

    Attributes:
      version: the version of the format.
      sections: the table.
      digest: the checksum of the header, and thereby of the whole file.

    Raises:
      NotAnArtifactError, ArtifactVersionError, ArtifactDamagedError: as their names say.
    """

    def __init__(self, data: Any, name: str = "the artifact") -> None:
        self.name = name
        self._data = memoryview(data).toreadonly().cast("B")
        self._verified: set[int] = set()
        size = len(self._data)
        if size < len(MAGIC) or self._data[: len(MAGIC)] != MAGIC:
            raise NotAnArtifactError(f"{name}: not a gnomon artifact, which begins with {MAGIC!r}")
        if size < HEADER_SIZE:
            raise self.damaged(f"it ends after {size} bytes, in its header")
        header = self._data[: HEADER.size]
        _, version, count, length, table_length, table_digest = HEADER.unpack(header)
        # Before the checksum, whose place another version may have chosen differently.
        if version != FORMAT_VERSION:
            raise ArtifactVersionError(
                f"{name}: the file has format {version}, but this version of gnomon_runtime reads "
                f"format {FORMAT_VERSION}"
                + ("; update the package gnomon-runtime" if version > FORMAT_VERSION else "")
            )
        self.version = version
        self.digest = bytes(self._data[HEADER.size : HEADER.size + 32])
        if digest_of(header) != self.digest or self._data[96:HEADER_SIZE] != HEADER_END:
            raise self.damaged("the checksum of its header is wrong")
        if length != size:
            raise self.damaged(f"it should have {length} bytes, but has {size}")
        if count > MAX_SECTIONS or table_length != count * ENTRY.size:
            raise self.damaged(f"a table of {table_length} bytes cannot have {count} sections")
        end = HEADER_SIZE + table_length
        if end > size:
            raise self.damaged("its table extends beyond its end")
        table = self._data[HEADER_SIZE:end]
        if digest_of(table) != table_digest:
            raise self.damaged("the checksum of its table is wrong")
        self.sections = tuple(self._read_table(table, end))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Container:
        """Map a file; nothing but its header and table is read yet."""
        name = os.fspath(path)
        with open(path, "rb") as file:
            try:
                data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:  # an empty file cannot be mapped
                data = b""
        return cls(data, name)

    def _read_table(self, table: memoryview, end: int) -> Iterable[Section]:
        for number, entry in enumerate(ENTRY.iter_unpack(table)):
            offset, length, digest, kind, rest = entry
            name = kind.rstrip(b"\0")
            if not name or not name.isalnum() or rest != ENTRY_END:
                raise self.damaged(f"entry {number} of its table is not valid in this format")
            if offset != aligned(end) or offset + length > len(self._data):
                raise self.damaged(f"section {number} is not where it should be")
            if any(self._data[end:offset]):
                raise self.damaged(
                    f"there are bytes before section {number} that belong to no section"
                )
            end = offset + length
            yield Section(name.decode("ascii"), offset, length, digest)
        if end != len(self._data):
            raise self.damaged("there are bytes after its last section")

    def damaged(self, what: str) -> ArtifactDamagedError:
        """The error to raise for damage."""
        return ArtifactDamagedError(f"{self.name}: the artifact is damaged: {what}")

    def map(self, number: int) -> memoryview:
        """The contents of a section in place, read-only; compared with the checksum once.

        Raises:
          ArtifactDamagedError: the checksum differs, or there is no such section.
        """
        section = self._section(number)
        data = self._data[section.offset : section.offset + section.length]
        if number not in self._verified:
            self._verify(number, data)
            self._verified.add(number)
        return data

    def copy(self, number: int) -> bytes:
        """A copy of a section's contents, which was compared with the checksum.

        For code: exactly the bytes that were compared run, even if the file changes meanwhile.
        """
        section = self._section(number)
        data = bytes(self._data[section.offset : section.offset + section.length])
        self._verify(number, data)
        return data

    def _section(self, number: int) -> Section:
        if not 0 <= number < len(self.sections):
            raise self.damaged(f"it refers to section {number} of {len(self.sections)}")
        return self.sections[number]

    def _verify(self, number: int, data: Any) -> None:
        section = self.sections[number]
        if digest_of(data) != section.digest:
            raise self.damaged(f"the checksum of section {number} ({section.kind}) is wrong")
