"""Damaged bytecode is refused, and never ends or stops the process that reads it."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon_runtime as gr
from gnomon._export import programs
from gnomon.backends import bytecode
from gnomon.backends.bytecode import BytecodeError, read_bytecode
from gnomon.backends.compilation import serialize
from gnomon.dialects.mlir import context, ensure_context, ir, stablehlo
from gnomon.passes.raise_stablehlo import raise_stablehlo
from gnomon.tools.driver.command_line import main

TEXT = """
func.func public @main(%x: tensor<3x4xf32>, %y: tensor<4x5xf32>) -> tensor<f32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
      : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %1 = stablehlo.exponential %0 : tensor<3x5xf32>
  %c = stablehlo.constant dense<[0.5, 1.0, 1.5, 2.0, 2.5]> : tensor<5xf32>
  %b = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<5xf32>) -> tensor<3x5xf32>
  %2 = stablehlo.add %1, %b : tensor<3x5xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%2 init: %z) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<3x5xf32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}
"""
FORMS = ("module", "portable")


def program() -> ir.Module:
    ensure_context()
    return ir.Module.parse(TEXT, context())


def written(form: str) -> bytes:
    if form == "portable":
        return serialize(program(), stablehlo.get_current_version())
    data = io.BytesIO()
    program().operation.write_bytecode(data)
    return data.getvalue()


def mutants(data: bytes, count: int) -> Iterator[bytes]:
    """Damaged copies: bits and bytes that changed, pieces that are missing, added or zero."""
    drawn = random.Random(0)
    for _ in range(count):
        mutant = bytearray(data)
        kind = drawn.choice(["bit", "byte", "missing", "added", "zero"])
        for _ in range(drawn.choice([1, 1, 2, 5])):
            at = drawn.randrange(4, len(mutant))
            if kind == "bit":
                mutant[at] ^= 1 << drawn.randrange(8)
            elif kind == "byte":
                mutant[at] = drawn.randrange(256)
            elif kind == "missing":
                del mutant[at : at + drawn.randrange(1, 20)]
            elif kind == "added":
                mutant[at:at] = drawn.randbytes(drawn.randrange(1, 9))
            else:
                mutant[at : at + 8] = bytes(len(mutant[at : at + 8]))
        yield bytes(mutant)


@pytest.mark.smoke
@pytest.mark.parametrize("form", FORMS)
def test_intact_bytecode_is_read(form: str) -> None:
    assert str(read_bytecode(written(form))) == str(program())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", FORMS)
def test_damaged_bytecode_is_refused_by_every_reader(
    form: str,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Long enough for a program of these sizes.
    monkeypatch.setattr(bytecode, "_SECONDS", 4.0)
    crashing = b""
    for mutant in mutants(written(form), count):
        try:
            assert read_bytecode(mutant).operation.verify()
        except BytecodeError as error:
            if "crashed" in str(error):
                crashing = mutant
    assert crashing, "MLIR reads all of these without a crash: is the child process still needed?"
    file = tmp_path / "damaged.mlirbc"
    file.write_bytes(crashing)
    for command in (["inspect"], ["run", "--input=0"], ["compile", "-o", str(tmp_path / "a.gnm")]):
        assert main([command[0], str(file), *command[1:]]) == 1
        # What the reader makes of it may depend on its memory, and so does whether it names a line.
        assert f"{file}:" in capsys.readouterr().err
    if form == "portable" and count == 40:
        check_artifact(crashing, tmp_path / "damaged.gnm", monkeypatch, capsys)


def check_artifact(
    damaged: bytes,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Check that damaged bytecode in an artifact with the right checksums is refused."""
    make = programs.Exported

    def exported(**fields: Any) -> Any:
        return make(**{**fields, "programs": {}, "_portable": {"cpu": damaged}})

    monkeypatch.setattr(programs, "Exported", exported)
    raised = raise_stablehlo(program())
    programs.save_program(str(path), "f", raised, targets=["aarch64-linux"])
    with pytest.raises(gr.ArtifactDamagedError, match=f"{path}: "):
        gn.load(path)["f"].call_flat([[[0.0] * 4] * 3, [[0.0] * 5] * 4])
    exported = gn.export.export(gn.jit(lambda x: x + 1))(np.zeros(3, np.float32))
    with pytest.raises(BytecodeError):
        replace(exported, _portable={"cpu": damaged}).mlir_module()
    assert main(["inspect", f"{path}:f"]) == 1
    assert f"{path}:f: " in capsys.readouterr().err
