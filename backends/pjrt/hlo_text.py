"""Printing of optimized programs: the HLO that a compiler returns as a protocol buffer.

The text is for reading and cannot be parsed, unlike XLA's own text, which it resembles. It shows
computations and instructions with their shapes, operands, called computations and op names.

The field numbers are those of ``xla/service/hlo.proto`` and ``xla/xla_data.proto``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from gnomon.backends.pjrt.protobuf import fields, varints

__all__ = ["hlo_text"]

# xla.PrimitiveType.
_PRIMITIVES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64",
    10: "f16", 11: "f32", 12: "f64", 15: "c64", 16: "bf16", 17: "token", 18: "c128", 19: "f8e5m2",
    20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz", 25: "f8e4m3fnuz",
    26: "s2", 27: "u2", 28: "f8e4m3", 29: "f8e3m4", 30: "s1", 31: "u1", 32: "f4e2m1fn",
    33: "f8e8m0fnu",
}  # fmt: skip
_TUPLE = 13

Message = dict[int, list[Any]]


def _read(message: bytes) -> Message:
    found: Message = defaultdict(list)
    for number, value in fields(message):
        found[number].append(value)
    return found


def _text(message: Message, number: int) -> str:
    return bytes(message[number][-1]).decode(errors="replace") if message[number] else ""


def _number(message: Message, number: int) -> int:
    return int(message[number][-1]) if message[number] else 0


def _numbers(message: Message, number: int) -> list[int]:
    return [value for data in message[number] for value in varints(data)]


def hlo_text(kind: str, code: bytes) -> str:
    """The text of an HLO module.

    Args:
      kind: ``"hlo"``, or ``"hlo_with_config"`` for a module nested in another message.
      code: the serialized message.
    """
    module = _read(_read(code)[1][0] if kind == "hlo_with_config" else code)
    computations = [_read(c) for c in module[3]]
    names = {_number(c, 5): _text(c, 1) for c in computations}
    entry = _number(module, 6)
    parts = [f"HloModule {_text(module, 1)}"]
    parts += ["\n".join(_computation(c, names, entry)) for c in computations]
    return "\n\n".join(parts) + "\n"


def _computation(computation: Message, names: dict[int, str], entry: int) -> Iterator[str]:
    instructions = [_read(i) for i in computation[2]]
    values = {_number(i, 35): _text(i, 1) for i in instructions}
    root = _number(computation, 6)
    yield f"{'ENTRY ' if _number(computation, 5) == entry else ''}%{_text(computation, 1)} {{"
    for instruction in instructions:
        start = "  ROOT " if _number(instruction, 35) == root else "  "
        yield start + _instruction(instruction, values, names)
    yield "}"


def _instruction(instruction: Message, values: dict[int, str], names: dict[int, str]) -> str:
    opcode = _text(instruction, 2)
    operands = [f"%{values.get(i, i)}" for i in _numbers(instruction, 36)]
    if opcode == "parameter":
        operands = [str(_number(instruction, 9))]
    shape = _shape(_read(instruction[3][0]))
    text = f"%{_text(instruction, 1)} = {shape} {opcode}({', '.join(operands)})"
    dimensions = _numbers(instruction, 14)
    if dimensions:
        text += f", dimensions={{{','.join(map(str, dimensions))}}}"
    if instruction[28]:
        text += f', custom_call_target="{_text(instruction, 28)}"'
    if instruction[11]:
        text += f", kind={_text(instruction, 11)}"
    called = [f"%{names.get(i, i)}" for i in _numbers(instruction, 38)]
    if called:
        text += f", calls={', '.join(called)}"
    metadata = _read(instruction[7][0]) if instruction[7] else {}
    if metadata and metadata[2]:
        text += f', metadata={{op_name="{_text(metadata, 2)}"}}'
    return text


def _shape(shape: Message) -> str:
    element = _number(shape, 2)
    if element == _TUPLE:
        return f"({', '.join(_shape(_read(part)) for part in shape[4])})"
    name = _PRIMITIVES.get(element, f"type{element}")
    text = f"{name}[{','.join(map(str, _numbers(shape, 3)))}]"
    layout = _numbers(_read(shape[5][0]), 1) if shape[5] else []
    return f"{text}{{{','.join(map(str, layout))}}}" if layout else text
