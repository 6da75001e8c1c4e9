"""The subset of protocol buffers that PJRT needs: writing and reading messages field by field.

A message is a sequence of fields. A field is a key (field number and wire type) and a value, which
is a variable-length integer or length-prefixed bytes. The field numbers are the interface.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

__all__ = ["compile_options", "field", "fields", "varints"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | bytes | str) -> bytes:
    """One field: an integer (64 bits if negative), bytes, a string, or a message as bytes."""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value & (1 << 64) - 1)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in order, as number and value; fixed-size numbers are bytes."""
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    while position < len(message):
        key = varint()
        if key & 7 == _VARINT:
            yield key >> 3, varint()
            continue
        size = _FIXED_SIZES[key & 7] if key & 7 in _FIXED_SIZES else varint()
        yield key >> 3, message[position : position + size]
        position += size


def varints(data: int | bytes) -> list[int]:
    """The integers of a repeated field, packed or single."""
    if isinstance(data, int):
        return [data]
    return [value for _, value in fields(b"".join(_unpacked(data))) if isinstance(value, int)]


def _unpacked(data: bytes) -> Iterator[bytes]:
    start = 0
    for end, byte in enumerate(data, 1):
        if byte < 128:
            yield b"\x08" + data[start:end]
            start = end


# Fields of xla.CompileOptionsProto and of the messages in it.
_BUILD_OPTIONS, _OVERRIDES = 3, 7
_DEVICE_ORDINAL, _REPLICAS, _PARTITIONS, _SPMD, _ASSIGNMENT, _SHARDY = 1, 4, 5, 6, 9, 19
_COMPUTATION_DEVICES = 3
_NO_DEVICE = -1
_OVERRIDE_TEXT, _OVERRIDE_BOOL, _OVERRIDE_INT = 1, 2, 3


def compile_options(
    device_ids: Sequence[int],
    *,
    replicas: int = 1,
    partitions: int = 1,
    shardy: bool = False,
    flags: Mapping[str, bool | int | str] | None = None,
) -> bytes:
    """An ``xla.CompileOptionsProto``.

    Args:
      device_ids: the devices in replica-major order: ``replica * partitions + partition``.
      replicas, partitions: the number of replicas, and of partitions in each.
      shardy: whether the program describes partitions in the dialect ``sdy``.
      flags: options of XLA by name, such as ``xla_backend_optimization_level``.
    """
    assignment = field(1, replicas) + field(2, partitions)
    for partition in range(partitions):
        ids = device_ids[partition : replicas * partitions : partitions]
        assignment += field(_COMPUTATION_DEVICES, field(1, b"".join(map(_varint, ids))))
    build = (
        field(_DEVICE_ORDINAL, _NO_DEVICE)
        + field(_REPLICAS, replicas)
        + field(_PARTITIONS, partitions)
        + field(_SPMD, int(partitions > 1))
        + field(_ASSIGNMENT, assignment)
        + field(_SHARDY, int(shardy))
    )
    return field(_BUILD_OPTIONS, build) + b"".join(
        field(_OVERRIDES, field(1, name) + field(2, _override(value)))
        for name, value in sorted((flags or {}).items())
    )


def _override(value: bool | int | str) -> bytes:
    if isinstance(value, bool):
        return field(_OVERRIDE_BOOL, int(value))
    return field(_OVERRIDE_INT if isinstance(value, int) else _OVERRIDE_TEXT, value)
