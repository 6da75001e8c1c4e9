"""What ``gnomon-opt`` tells about its passes and about errors in its input."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gnomon.tools.opt import main

TEXT = """
func.func @main(%a: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = "gnomon.exp"(%a) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = "gnomon.exp"(%a) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %2 = "gnomon.add"(%0, %1) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %3 = "gnomon.cholesky"(%2) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  return %3 : tensor<3x3xf32>
}
"""
# The process dies in the pass, like a compiler in native code.
DIES = """
import os, sys
from gnomon.passes.pipeline import PASSES, Pass
from gnomon.tools.opt import main
PASSES["die"] = Pass("die", "ends the process", lambda module: os._exit(3))
main(sys.argv[1:])
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "program.mlir").write_text(TEXT)
    return str(tmp_path / "program.mlir")


def test_the_module_is_printed_before_and_after_passes(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--passes=cse,canonicalize", "--print-ir-before=cse", program]) == 0
    (before,) = capsys.readouterr().err.split("// -----// IR Dump ")[1:]
    assert before.startswith("Before cse ") and before.count("gnomon.exp") == 2
    assert main(["--passes=canonicalize,cse", "--print-ir-before-all", program]) == 0
    dumps = capsys.readouterr().err.split("// -----// IR Dump ")[1:]
    assert [dump.split(" //")[0] for dump in dumps] == ["Before canonicalize", "Before cse"]
    options = ["--print-ir-before=cse", "--print-ir-after=cse"]
    assert main(["--passes=cse,canonicalize", *options, program]) == 0
    before, after = capsys.readouterr().err.split("// -----// IR Dump ")[1:]
    assert (before.count("gnomon.exp"), after.count("gnomon.exp")) == (2, 1)


def test_the_time_of_each_pass_is_printed(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--passes=cse,canonicalize,cse", "--timing", program]) == 0
    rows = re.findall(r"^// +([\d.]+) s  (.+)$", capsys.readouterr().err, re.MULTILINE)
    assert rows[0][1] == "passes, in all"
    assert sorted(name for _, name in rows[1:]) == ["canonicalize", "cse"]
    Path(program).write_text(TEXT.replace("cholesky", "cos"))
    assert main(["--pipeline=iree", "--timing", program]) == 0
    assert "  lower-to-stablehlo\n" in capsys.readouterr().err


def test_a_failed_pass_leaves_a_reproducer(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "reproducer.mlir"
    options = ["--target=wasm32", f"--crash-reproducer={path}"]
    assert main(["--passes=cse", *options, program]) == 0
    assert not path.exists()
    assert main(["--passes=cse,host-calls", *options, program]) == 1
    error = capsys.readouterr().err
    text = path.read_text()
    command, module = text.split("\n", 1)
    assert command == f"// Run: gnomon-opt --passes=host-calls --target=wasm32 {path}"
    assert module.count("gnomon.exp") == 1  # the module after cse
    assert main(command.removeprefix("// Run: gnomon-opt ").split()) == 1
    assert "gnomon.cholesky" in error and "gnomon.cholesky" in capsys.readouterr().err


@pytest.mark.slow
def test_a_process_that_dies_in_a_pass_leaves_a_reproducer(program: str, tmp_path: Path) -> None:
    path = tmp_path / "reproducer.mlir"
    arguments = ["--passes=cse,die", f"--crash-reproducer={path}", program]
    result = subprocess.run([sys.executable, "-c", DIES, *arguments], check=False)
    assert result.returncode == 3
    text = path.read_text()
    assert text.startswith(f"// Run: gnomon-opt --passes=die --target=cpu {path}\n")
    assert text.count("gnomon.exp") == 1


def test_verification_after_each_pass_can_be_left_out(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified = []
    monkeypatch.setattr("gnomon.tools.opt.verify", lambda module, when: verified.append(when))
    assert main(["--passes=cse,canonicalize", program]) == 0
    assert verified == ["after cse", "after canonicalize"]
    assert main(["--passes=cse", "--no-verify-each", program]) == 0
    assert len(verified) == 2


def test_an_error_of_the_parser_quotes_its_line(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = TEXT.replace('"gnomon.cholesky"(%2)', '\t"gnomon.cholesky"(%9)')
    lines = [
        "use of undeclared SSA value name",
        '    %3 = \t"gnomon.cholesky"(%9) : (tensor<3x3xf32>) -> tensor<3x3xf32>',
        "         \t                  ^",
    ]
    Path(program).write_text(wrong)
    assert main([program]) == 1
    described = capsys.readouterr().err.splitlines()
    assert described == [f"gnomon-opt: {program}:6:27: {lines[0]}", *lines[1:]]
    # In a file of several parts, the number of the line is that in the file.
    Path(program).write_text(f"{TEXT}// -----{TEXT}// -----{wrong}")
    assert main([program, "--split-input-file"]) == 1
    described = capsys.readouterr().err.splitlines()
    assert described == [f"gnomon-opt: {program}:22:27: {lines[0]}", *lines[1:]]


def test_an_error_of_the_verifier_quotes_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
func.func @main(%a: tensor<3xf32>) -> tensor<4xf32> {
  %0 = "gnomon.exp"(%a) : (tensor<3xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["-"]) == 1
    first, line, caret, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("gnomon-opt: -:3:8: 'gnomon.exp' op breaks its type rule")
    assert (line.strip()[:17], caret) == ('%0 = "gnomon.exp"', "         ^")
