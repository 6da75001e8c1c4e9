"""FlatBuffers: the binary format of JAX's exports, read and written without a schema compiler.

A table is a list of numbered fields. Its vtable says where each field is; an absent field has its
default value. See https://flatbuffers.dev/internals. All offsets are checked, and they only point
forward, so reading ends on any bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

__all__ = ["Bytes", "Content", "FlatBufferError", "Numbers", "Table", "root", "to_bytes"]

_MAX_TABLES = 1 << 20


class FlatBufferError(ValueError):
    """Bytes that are not the flatbuffer that is read."""


class _Buffer:
    """The bytes, and how many tables were read: damaged tables may share parts without end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tables = 0

    def number(self, code: str, offset: int) -> int:
        size = struct.calcsize(code)
        if not 0 <= offset <= len(self.data) - size:
            raise FlatBufferError(f"the offset {offset} is outside of the {len(self.data)} bytes")
        return int(struct.unpack_from("<" + code, self.data, offset)[0])

    def follow(self, offset: int) -> int:
        return offset + self.number("I", offset)

    def length(self, offset: int, item: int) -> int:
        """The length of a vector, whose items are all in the buffer."""
        count = self.number("I", offset)
        if count * item > len(self.data) - offset - 4:
            raise FlatBufferError(f"a vector of {count} items reaches beyond the end")
        return count


class Table:
    """A table of a flatbuffer. The methods take the number of a field.

    Raises:
      FlatBufferError: on reading, an offset is outside of the buffer.
    """

    def __init__(self, buffer: _Buffer, offset: int) -> None:
        buffer.tables += 1
        if buffer.tables > _MAX_TABLES:
            raise FlatBufferError(f"there are more than {_MAX_TABLES} tables")
        self._buffer, self._offset = buffer, offset
        self._vtable = offset - buffer.number("i", offset)
        self._size = buffer.number("H", self._vtable)

    def _at(self, field: int) -> int | None:
        place = 4 + 2 * field
        if place + 2 > self._size:
            return None
        offset = self._buffer.number("H", self._vtable + place)
        return self._offset + offset if offset else None

    def number(self, field: int, code: str) -> int:
        """A number of a format of `struct`; 0 if the field is absent."""
        at = self._at(field)
        return 0 if at is None else self._buffer.number(code, at)

    def table(self, field: int) -> Table | None:
        """A table; None if the field is absent."""
        at = self._at(field)
        return None if at is None else Table(self._buffer, self._buffer.follow(at))

    def data(self, field: int) -> bytes:
        """A vector of bytes, or the bytes of a string; empty if the field is absent."""
        at = self._at(field)
        return b"" if at is None else self._string(at)

    def text(self, field: int) -> str:
        """A string; empty if the field is absent."""
        return _decoded(self.data(field))

    def numbers(self, field: int, code: str) -> list[int]:
        """A vector of numbers; empty if the field is absent."""
        at = self._at(field)
        if at is None:
            return []
        start, size = self._buffer.follow(at), struct.calcsize(code)
        count = self._buffer.length(start, size)
        return [self._buffer.number(code, start + 4 + size * i) for i in range(count)]

    def tables(self, field: int) -> list[Table]:
        """A vector of tables; empty if the field is absent."""
        return [Table(self._buffer, self._buffer.follow(at)) for at in self._offsets(field)]

    def texts(self, field: int) -> list[str]:
        """A vector of strings; empty if the field is absent."""
        return [_decoded(self._string(at)) for at in self._offsets(field)]

    def _offsets(self, field: int) -> list[int]:
        at = self._at(field)
        if at is None:
            return []
        start = self._buffer.follow(at)
        return [start + 4 + 4 * i for i in range(self._buffer.length(start, 4))]

    def _string(self, at: int) -> bytes:
        start = self._buffer.follow(at)
        return self._buffer.data[start + 4 : start + 4 + self._buffer.length(start, 1)]


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FlatBufferError(f"a string is not UTF-8: {error}") from error


def root(data: bytes) -> Table:
    """The root table of a buffer."""
    buffer = _Buffer(data)
    return Table(buffer, buffer.follow(0))


# ------------------------------------------------------------------------------------------ writing


class Numbers(NamedTuple):
    """A vector of numbers, or one number if it is not a list, in a format of `struct`."""

    code: str
    values: Sequence[int] | int


class Bytes(NamedTuple):
    """A vector of bytes."""

    data: bytes


Content: TypeAlias = "Mapping[int, Any] | Sequence[Any] | str | Bytes | Numbers"
"""A table by field, a vector of such contents, a string, bytes, or a vector of numbers."""


def to_bytes(table: Mapping[int, Content]) -> bytes:
    """The buffer with a root table.

    Args:
      table: the contents by the number of the field; absent fields have their default values.
    """
    out = bytearray(4)
    struct.pack_into("<I", out, 0, _append(out, table))
    return bytes(out)


def _append(out: bytearray, content: Content) -> int:
    """Append a content, aligned to its numbers; the contents that it refers to follow.

    Returns:
      Its offset.
    """
    out.extend(bytes(-len(out) % 8))
    if isinstance(content, Mapping):
        return _append_table(out, content)
    start = len(out)
    if isinstance(content, str | Bytes):
        data = content.encode() if isinstance(content, str) else content.data
        out += struct.pack("<I", len(data)) + data + b"\0"
    elif isinstance(content, Numbers):
        assert not isinstance(content.values, int)
        values = content.values
        out += struct.pack(f"<I{len(values)}{content.code}", len(values), *values)
    else:
        out += struct.pack("<I", len(content)) + bytes(4 * len(content))
        for i, item in enumerate(content):
            _refer(out, start + 4 + 4 * i, item)
    return start


def _append_table(out: bytearray, fields: Mapping[int, Content]) -> int:
    """A vtable, then the table, with four bytes for each field."""
    vtable, count = len(out), max(fields, default=-1) + 1
    places = {field: 4 + 4 * i for i, field in enumerate(fields)}
    offsets = [places.get(field, 0) for field in range(count)]
    out += struct.pack(f"<2H{count}H", 4 + 2 * count, 4 + 4 * len(fields), *offsets)
    out.extend(bytes(-len(out) % 4))
    start = len(out)
    out += struct.pack("<i", start - vtable) + bytes(4 * len(fields))
    for field, content in fields.items():
        at = start + places[field]
        if isinstance(content, Numbers) and isinstance(content.values, int):
            struct.pack_into("<" + content.code, out, at, content.values)
        else:
            _refer(out, at, content)
    return start


def _refer(out: bytearray, at: int, content: Content) -> None:
    struct.pack_into("<I", out, at, _append(out, content) - at)
