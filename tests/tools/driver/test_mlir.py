"""The driver on MLIR: StableHLO in, binary files refused, errors at the line of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gnomon as gn
import gnomon_runtime as gr
from gnomon import export
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


@pytest.mark.smoke
def test_stablehlo_is_run_and_compiled(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(program), "--input=0"]) == 0
    assert capsys.readouterr().out == "result: f32[3]\n[1. 1. 1.]\n"
    assert main(["compile", str(program), "--emit=vmfb"]) == 0
    assert program.with_suffix(".vmfb").stat().st_size > 1000


def test_a_portable_artifact_is_run(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = program.with_suffix(".mlirbc")
    assert main(["compile", str(program), "--emit=vhlo", "-o", str(artifact)]) == 0
    assert main(["run", str(artifact), "--input=0"]) == 0
    assert capsys.readouterr().out == "result: f32[3]\n[1. 1. 1.]\n"


DIALECT = """
func.func public @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<f32>) {
  %c = "gnomon.cos"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %s = "gnomon.reduce_sum"(%c) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  return %c, %s : tensor<3xf32>, tensor<f32>
}
"""


@pytest.mark.sampled(0.34)
@pytest.mark.parametrize("form", ["dialect", "stablehlo", "vhlo"])
def test_a_program_becomes_an_artifact(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, artifact = tmp_path / "program.mlir", tmp_path / "program.gnm"
    path.write_text(DIALECT)
    if form != "dialect":
        given, path = path, tmp_path / {"stablehlo": "s.mlir", "vhlo": "v.mlirbc"}[form]
        assert main(["compile", str(given), f"--emit={form}", "-o", str(path)]) == 0
    targets = "--target=cpu,aarch64-linux"
    assert main(["compile", str(path), targets, "-o", str(artifact)]) == 0
    capsys.readouterr()
    assert main(["run", str(artifact), "--input=0"]) == 0
    assert capsys.readouterr().out == "0: f32[3]\n[1. 1. 1.]\n1: f32[]\n3.0\n"
    assert main(["inspect", f"{artifact}:{path.stem}"]) == 0
    assert "gnomon " in capsys.readouterr().out
    entry = gr.read(artifact).entry()
    assert list(entry.sections["program"]) == ["cpu"]
    assert list(entry.sections["portable"]) == ["cpu"]
    assert "aarch64-linux" in entry.modules
    (exported,) = export.load_exported(artifact).values()
    np.testing.assert_array_equal(exported.call(np.zeros(3, np.float32))[1], 3)


@pytest.mark.slow
def test_stablehlo_in_an_artifact_is_compiled_where_it_has_no_module(
    program: Path, tmp_path: Path
) -> None:
    artifact = tmp_path / "program.gnm"
    assert main(["compile", str(program), "--target=riscv64-linux", "-o", str(artifact)]) == 0
    found = gn.load(artifact)(np.zeros(3, np.float32))
    np.testing.assert_array_equal(np.asarray(found), [1, 1, 1])


def test_a_file_that_is_not_a_program_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "binary"
    path.write_bytes(bytes(range(256)))
    assert main(["run", str(path)]) == 1
    assert "neither MLIR text nor a portable artifact" in capsys.readouterr().err
    assert opt([str(path)]) == 1
    assert "is not MLIR text" in capsys.readouterr().err
    assert main(["opt", str(path)]) == 1
    assert "is not MLIR text" in capsys.readouterr().err
    path.write_bytes(b"ML\xefR and nothing of that")
    assert main(["run", str(path)]) == 1
    assert main(["run", str(tmp_path / "absent.mlir")]) == 1


def test_stablehlo_is_raised(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All stages and the evaluator are for StableHLO too, and all legalizations."""
    assert main(["run", str(program), "--input=0", "--evaluate"]) == 0
    assert capsys.readouterr().out == "result: f32[3]\n[1. 1. 1.]\n"
    assert main(["compile", str(program), "--emit=traced"]) == 0
    assert '"gnomon.cos"(%arg0)' in capsys.readouterr().out
    assert main(["compile", str(program), "--emit=stablehlo"]) == 0
    assert "stablehlo.convert" in capsys.readouterr().out  # cosines of f32 are computed in f64
    program.write_text(STABLEHLO.replace("cosine %x", "power %x, %x"))
    assert main(["run", str(program), "--input=-2"]) == 0
    assert capsys.readouterr().out == "result: f32[3]\n[0.25 0.25 0.25]\n"


@pytest.mark.parametrize("command", [["compile", "--emit=vmfb"], ["run", "--random"], ["inspect"]])
def test_an_op_without_a_form_is_refused_at_its_line(
    program: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    text = "stablehlo.custom_call @nothing(%x) : (tensor<3xf32>) -> tensor<3xf32>"
    program.write_text(STABLEHLO.replace("stablehlo.cosine %x : tensor<3xf32>", text))
    assert main([*command, str(program)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"gnomon: {program}:3:8: stablehlo.custom_call: the call of 'nothing' has no counterpart "
        "in the gnomon dialect",
        f"    %r = {text}",
        "         ^",
    ]


def test_text_that_crashes_the_parser_is_refused(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A type that is nested so deeply that the parser's stack overflows."""
    program.write_text("func.func @main(%x: " + "tuple<" * 1_000_000 + ") { return }")
    assert main(["inspect", str(program)]) == 1
    assert f"{program}: the text is damaged: its reader crashed" in capsys.readouterr().err


@pytest.mark.slow
def test_stablehlo_is_explored(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = program.with_suffix(".html")
    assert main(["explore", str(program), "--no-code", "-o", str(page)]) == 0
    assert "Traced 1" in capsys.readouterr().err
    assert "stablehlo.cosine" in page.read_text()  # the source, next to the stages
    artifact = program.with_suffix(".gnm")
    assert main(["compile", str(program), "-o", str(artifact)]) == 0
    assert main(["explore", str(artifact)]) == 2


def test_open_sizes_are_given_as_types(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text("""
func.func @main(%n: tensor<i32>, %x: tensor<?xf32>) -> tensor<?xf32> {
  %size = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %i = stablehlo.dynamic_iota %size, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %r = stablehlo.add %x, %i : tensor<?xf32>
  return %r : tensor<?xf32>
}""")
    inputs = ["--input=3", "--input=1", "--evaluate"]
    assert main(["run", str(program), "--args=3 f32[3]", *inputs]) == 0
    assert capsys.readouterr().out == "result: f32[3]\n[1. 2. 3.]\n"
    assert main(["run", str(program), *inputs]) == 1
    assert f"{program}:2:1: the sizes of the arguments are not known" in capsys.readouterr().err
    assert main(["run", str(program), "--args=3 f32[3,1]", *inputs]) == 1
    assert "given are tensor<i32>, tensor<3x1xf32>" in capsys.readouterr().err
    assert main(["run", str(program), "--args=0.5 f32[3]", *inputs]) == 2
    program.write_text(DIALECT)
    assert main(["run", str(program), "--args=f32[3]", *inputs]) == 1
    assert "only StableHLO leaves sizes open" in capsys.readouterr().err


def test_options_of_functions_are_not_for_mlir(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", str(program), "--static=0"]) == 2
    assert "applies to Python functions" in capsys.readouterr().err


def test_stablehlo_is_transformed(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text(STABLEHLO.replace("3xf32", "f32").replace("cosine %x", "multiply %x, %x"))
    options = ["--grad", "--vmap=0", "--batch-size=3", "--input=2"]
    assert main(["run", str(program), *options]) == 0
    assert capsys.readouterr().out == "result: f32[3]\n[4. 4. 4.]\n"
    assert main(["compile", str(program), "--value-and-grad", "--emit=c", "-o", "-"]) == 0
    assert "float" in capsys.readouterr().out


def test_an_error_of_the_parser_is_at_its_line(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program.write_text(STABLEHLO.replace("cosine %x", "cosine %y"))
    assert main(["run", str(program)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"gnomon: {program}:3:25: use of undeclared SSA value name",
        "    %r = stablehlo.cosine %y : tensor<3xf32>",
        "                          ^",
    ]


def test_two_programs_are_compared(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = program.with_name("other.mlir")
    program.write_text(STABLEHLO.replace("cosine", "negate"))
    other.write_text(STABLEHLO.replace("cosine", "abs"))
    assert main(["diff", str(program), str(program)]) == 0
    assert main(["diff", str(program), str(other)]) == 3
    out = capsys.readouterr().out
    assert "-    %0 = stablehlo.negate %arg0 : tensor<3xf32>\n" in out
    assert "+    %0 = stablehlo.abs %arg0 : tensor<3xf32>\n" in out
