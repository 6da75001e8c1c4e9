"""The compiler driver: StableHLO in, binary files refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnomon.tools.driver import main
from gnomon.tools.opt import main as opt

STABLEHLO = """
func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %r = stablehlo.cosine %x : tensor<3xf32>
  return %r : tensor<3xf32>
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.mlir"
    path.write_text(STABLEHLO)
    return path


def test_stablehlo_is_run_and_compiled(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(program), "--input=0"]) == 0
    assert capsys.readouterr().out == "f32[3]\n[1. 1. 1.]\n"
    assert main(["compile", str(program)]) == 0
    assert program.with_suffix(".vmfb").stat().st_size > 1000


def test_a_portable_artifact_is_run(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = program.with_suffix(".bin")
    assert main(["lower", str(program), "--emit=artifact", "-o", str(artifact)]) == 0
    assert main(["run", str(artifact), "--input=0"]) == 0
    assert capsys.readouterr().out == "f32[3]\n[1. 1. 1.]\n"


def test_a_file_that_is_no_program_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "binary"
    path.write_bytes(bytes(range(256)))
    assert main(["run", str(path)]) == 1
    assert "neither MLIR text nor a portable artifact" in capsys.readouterr().err
    assert opt([str(path)]) == 1
    assert "is not MLIR text" in capsys.readouterr().err
    path.write_bytes(b"ML\xefR and nothing of that")
    assert main(["run", str(path)]) == 1


def test_evaluation_is_of_the_dialect(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(program), "--input=0", "--evaluate"]) == 1
    assert "not StableHLO" in capsys.readouterr().err


def test_a_cache_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_CACHE_DIR", "~nobody-has-this-name/cache")
    assert main(["cache", "info"]) == 1
