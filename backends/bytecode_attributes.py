"""Attributes of unknown dialects in MLIR bytecode.

A dialect may write its attributes in an encoding of its own, which only that dialect reads. Files
of JAX have such attributes of Shardy, the annotations for partitioning over devices, and MLIR's
reader refuses the whole file for them. `without_unknown` replaces each of them by ``unit``.

The format is described in MLIR's documentation, "MLIR Bytecode Format". A file is a list of
sections. The attributes and types are one section, and another has the length of each of them,
grouped by dialects.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["without_unknown"]

_MAGIC = b"ML\xefR"
_STRINGS, _DIALECTS, _ATTRIBUTES, _LENGTHS = 0, 1, 2, 3
_IS_ALIGNED, _PADDING = 0x80, b"\xcb"
_MAX_ALIGNMENT = 1 << 16
# The text of an attribute, which every dialect's reader accepts.
_UNIT = b"unit\0"


class _Section(NamedTuple):
    """A section of a file.

    Attributes:
      kind: its number.
      alignment: the alignment of its data in the file, or None.
      data: its contents.
    """

    kind: int
    alignment: int | None
    data: bytes


class _Reader:
    """A position in bytes."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def is_at_end(self) -> bool:
        """Whether everything is read."""
        return self.position >= len(self.data)

    def take(self, count: int) -> bytes:
        """The next bytes."""
        end = self.position + count
        if count < 0 or end > len(self.data):
            raise ValueError("the bytecode ends early")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def number(self) -> int:
        """A number whose first byte has as many trailing zeros as bytes follow."""
        first = self.take(1)[0]
        if first == 0:
            return int.from_bytes(self.take(8), "little")
        following = (first & -first).bit_length() - 1
        whole = int.from_bytes(bytes([first]) + self.take(following), "little")
        return whole >> (following + 1)

    def text(self) -> bytes:
        """Bytes up to a zero, which is left out."""
        end = self.data.index(b"\0", self.position)
        taken = self.take(end - self.position)
        self.position += 1
        return taken

    def section(self) -> _Section:
        """The next section."""
        kind = self.take(1)[0]
        size = self.number()
        if not kind & _IS_ALIGNED:
            return _Section(kind, None, self.take(size))
        alignment = self.number()
        if not 0 < alignment <= _MAX_ALIGNMENT:
            raise ValueError(f"a section is aligned to {alignment}")
        self.position += -self.position % alignment
        return _Section(kind & ~_IS_ALIGNED, alignment, self.take(size))


def _number(value: int) -> bytes:
    """The encoding that `_Reader.number` reads."""
    for following in range(8):
        if value < 1 << 7 * (following + 1):
            return ((value << 1 | 1) << following).to_bytes(following + 1, "little")
    return b"\0" + value.to_bytes(8, "little")


def without_unknown(data: bytes, is_known: Callable[[str], bool]) -> bytes:
    """The bytecode without attributes that only unknown dialects can read.

    Args:
      data: a module's bytecode or a portable artifact.
      is_known: whether the reader has a dialect, by name.

    Raises:
      ValueError: the bytecode is damaged.
    """
    reader = _Reader(data, len(_MAGIC))
    reader.number()  # the version of the format
    reader.text()  # the producer
    start = data[: reader.position]
    sections = []
    while not reader.is_at_end:
        sections.append(reader.section())
    by_kind = {section.kind: section.data for section in sections}
    try:
        names = _dialects(by_kind[_DIALECTS], _strings(by_kind[_STRINGS]))
        lengths, attributes = _replaced(by_kind[_LENGTHS], by_kind[_ATTRIBUTES], names, is_known)
    except (KeyError, IndexError) as error:
        raise ValueError("the bytecode is damaged") from error
    if attributes == by_kind[_ATTRIBUTES]:
        return data
    new = {_LENGTHS: lengths, _ATTRIBUTES: attributes}
    written = functools.reduce(
        _append, (s._replace(data=new.get(s.kind, s.data)) for s in sections), start
    )
    return bytes(written)


def _append(written: bytes, section: _Section) -> bytes:
    size = _number(len(section.data))
    if section.alignment is None:
        return written + bytes([section.kind]) + size + section.data
    written += bytes([section.kind | _IS_ALIGNED]) + size + _number(section.alignment)
    return written + _PADDING * (-len(written) % section.alignment) + section.data


def _strings(data: bytes) -> list[str]:
    reader = _Reader(data)
    sizes = [reader.number() for _ in range(reader.number())]
    strings = []
    # The sizes are those of the strings from the last one to the first.
    for size in reversed(sizes):
        strings.append(reader.take(size)[:-1].decode(errors="replace"))
    return strings


def _dialects(data: bytes, strings: list[str]) -> list[str]:
    reader = _Reader(data)
    names = []
    for _ in range(reader.number()):
        name = reader.number()
        names.append(strings[name >> 1])
        if name & 1:
            reader.section()  # the version of the dialect
    return names


def _groups(reader: _Reader, count: int) -> Iterator[tuple[int, list[int]]]:
    """The dialect and the encoded lengths of each group of attributes or types."""
    while count > 0:
        dialect = reader.number()
        lengths = [reader.number() for _ in range(reader.number())]
        count -= max(len(lengths), 1)
        yield dialect, lengths


def _replaced(
    lengths: bytes, attributes: bytes, names: list[str], is_known: Callable[[str], bool]
) -> tuple[bytes, bytes]:
    """The sections of lengths and of attributes, with unknown attributes replaced."""
    reader, entries = _Reader(lengths), _Reader(attributes)
    counts = reader.number(), reader.number()
    new_lengths = [_number(count) for count in counts]
    new_entries = []
    for kind, count in enumerate(counts):
        for dialect, encoded in _groups(reader, count):
            new_lengths += [_number(dialect), _number(len(encoded))]
            for length in encoded:
                entry = entries.take(length >> 1)
                if kind == 0 and length & 1 and not is_known(names[dialect]):
                    entry, length = _UNIT, len(_UNIT) << 1
                new_entries.append(entry)
                new_lengths.append(_number(length))
    rest = reader.data[reader.position :], entries.data[entries.position :]
    return b"".join(new_lengths) + rest[0], b"".join(new_entries) + rest[1]
