"""Attributes that only an unknown dialect can read are replaced in bytecode."""

from __future__ import annotations

import io
import random

from gnomon.backends.bytecode_attributes import without_unknown
from gnomon.dialects.mlir import context, ensure_context, ir

TEXT = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> attributes {
    other.kind = #stablehlo<fft_type RFFT>, other.number = 7 : i64} {
  return %x : tensor<3xf32>
}
"""


def written() -> bytes:
    ensure_context()
    data = io.BytesIO()
    ir.Module.parse(TEXT, context()).operation.write_bytecode(data)
    return data.getvalue()


def test_they_are_replaced_by_unit() -> None:
    """StableHLO plays the unknown dialect: it writes its attributes in an encoding of its own."""
    data = written()
    replaced = without_unknown(data, lambda name: name != "stablehlo")
    text = str(ir.Module.parse(replaced, context()))
    assert "other.kind, other.number = 7" in text.replace("attributes {", "")
    assert "fft_type" not in text


def test_other_bytecode_is_not_changed() -> None:
    """If the reader has all dialects, the bytes are the same."""
    data = written()
    assert without_unknown(data, lambda name: True) == data


def test_damaged_bytecode_is_an_error_or_is_read() -> None:
    """Never another exception, and never an endless loop."""
    drawn, data = random.Random(0), written()
    for _ in range(2000):
        mutant = bytearray(data)
        for _ in range(drawn.choice([1, 2, 4])):
            mutant[drawn.randrange(4, len(mutant))] = drawn.randrange(256)
        try:
            without_unknown(
                bytes(mutant[: drawn.randrange(5, len(mutant) + 1)]), lambda name: False
            )
        except ValueError:
            continue
