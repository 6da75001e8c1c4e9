"""Artifacts: compiled for several targets, run, inspected, compared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import gnomon
import gnomon.export
import gnomon.numpy as gnp
from gnomon.tools.driver import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def artifact(model: Path, capsys: Capture) -> str:
    assert main(["compile", f"{model}:loss,scaled", "--grad", "-o", "a.gnm"]) == 0
    assert "a.gnm: loss, scaled for cpu, " in capsys.readouterr().err
    return "a.gnm"


def test_an_artifact_computes_the_results_of_the_function(
    model: Path, artifact: str, capsys: Capture
) -> None:
    for name in ("loss", "scaled"):
        expected = ["run", f"{model}:{name}", "--grad", "--random=1", "--output=e.npz"]
        assert main(expected) == 0
        assert main(["run", f"{artifact}:{name}", "--random=1", "--expect=e.npz"]) == 0
    assert main(["run", f"{artifact}:scaled", "--input=x=1", "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out[out.index("{") :])["results"]["result"]["value"] == [2.0, 4.0, 6.0]
    assert main(["run", f"{artifact}:scaled", "--random", "--benchmark=0.01"]) == 0


def test_an_artifact_is_inspected(model: Path, artifact: str, capsys: Capture) -> None:
    assert main(["inspect", artifact, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in facts["entries"]] == ["loss", "scaled"]
    names = [leaf["name"] for leaf in facts["entries"][0]["arguments"]]
    assert names == ["params.b", "params.w", "x", "y"]
    assert facts["entries"][0]["modules"][0]["unusable"] == ""
    assert main(["compile", f"{artifact}:loss", "--emit=c"]) == 0
    assert "params_w: float[3][2]" in Path("loss.h").read_text()
    assert facts["entries"][1]["weights"] == list(facts["weights"])
    assert facts["digest"] == gnomon.load(artifact).artifact.digest
    assert main(["inspect", artifact]) == 0
    out = capsys.readouterr().out
    assert "runs on this machine" in out and "intact" in out and "f32[3]" in out
    assert main(["inspect", f"{artifact}:loss"]) == 0
    assert f"{model}:" in capsys.readouterr().out


def test_an_artifact_is_compiled_again_and_compared(
    model: Path, artifact: str, capsys: Capture
) -> None:
    assert main(["compile", f"{artifact}:scaled", "--emit=ptx", "--target=cuda:sm_90"]) == 0
    assert ".target sm_90" in capsys.readouterr().out
    scaled = f"{artifact}:scaled"
    assert main(["diff", scaled, f"{model}:scaled", "--stage=gnomon", "--grad"]) == 0
    assert main(["diff", scaled, f"{model}:scaled", "--stage=gnomon"]) == 3


def test_wrong_artifacts_are_refused(model: Path, artifact: str, capsys: Capture) -> None:
    assert main(["run", f"{artifact}:nothing"]) == 1
    assert "there are: 'loss', 'scaled'" in capsys.readouterr().err
    data = bytearray(Path(artifact).read_bytes())
    Path("cut.gnm").write_bytes(data[:-1])
    data[len(data) // 2] ^= 1
    Path("changed.gnm").write_bytes(data)
    for name in ("cut", "changed"):
        assert main(["inspect", f"{name}.gnm"]) == 1
        assert "damaged" in capsys.readouterr().err
    Path("text.gnm").write_text("text")
    assert main(["run", "text.gnm"]) == 1
    assert main(["run", artifact, "--grad"]) == 2


def test_inspect_names_what_numpy_computes(model: Path, capsys: Capture) -> None:
    assert main(["compile", f"{model}:factor", "--args=f32[5,5]", "-o", "factor.gnm"]) == 0
    assert main(["inspect", "factor.gnm"]) == 0
    assert "    calls NumPy for cholesky\n" in capsys.readouterr().out


def test_programs_that_artifacts_cannot_hold(model: Path, capsys: Capture) -> None:
    assert main(["compile", f"{model}:factor", "--args=f32[9,9]", "--target=wasm32"]) == 1
    first, line, _ = capsys.readouterr().err.splitlines()
    assert "UnsupportedOnTarget" in first and line.strip() == "return gnp.linalg.cholesky(y)"
    assert main(["compile", f"{model}:scaled,loss", "--emit=asm"]) == 2
    assert main(["compile", f"{model}:scaled", "-o", "a.gnm", "--target=cdua"]) == 2
    Path("a.mlir").write_text("func.func @main() { return }")
    assert main(["compile", "a.mlir", "-o", "a.gnm", "--target=cdua"]) == 2
    assert "unknown target 'cdua'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("inspect", "no.gnm"), ("run", "no.mlir")])
def test_a_missing_file_is_named_without_lines_of_the_driver(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(list(words)) == 1
    assert capsys.readouterr().err == f"gnomon: {words[1]}: No such file or directory\n"


def test_an_artifact_with_symbolic_dimensions_runs_at_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    type_ = gnomon.ShapeDtypeStruct(gnomon.export.symbolic_shape("b, 2"), "float32")
    exported = gnomon.export.export(gnomon.jit(lambda x: x * 2))(type_)
    gnomon.export.save("sizes.gnm", {"f": exported})
    for size in 1, 3:
        np.save("x.npy", np.ones((size, 2), np.float32))
        assert main(["run", "sizes.gnm", "--input=x.npy", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["results"]["result"]["shape"] == [size, 2]
    assert main(["run", "sizes.gnm", "--input=x=f32[2,2]=3"]) == 0
    assert "[[6. 6.]\n [6. 6.]]" in capsys.readouterr().out
    for wrong in "--input=x=3", "--random", "--input=x=f32[2,3]=1":
        assert main(["run", "sizes.gnm", wrong]) == 2
        assert re.search(r"x is f32\[b,2\]|f32\[b,2\] as x", capsys.readouterr().err)


def test_the_reason_for_compiling_for_the_sizes_of_each_call_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (n,) = gnomon.export.symbolic_shape("n")
    matrix = gnomon.ShapeDtypeStruct((n, n), "float32")
    functions = {
        "inverse": gnomon.export.export(gnomon.jit(gnp.linalg.inv))(matrix),
        "doubled": gnomon.export.export(gnomon.jit(lambda x: x * 2))(matrix),
    }
    gnomon.export.save("any.gnm", functions, targets=[])
    assert main(["inspect", "any.gnm", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    reasons = {entry["name"]: entry["refined"] for entry in entries}
    assert reasons["doubled"] == ""
    assert "is not known to be right for dynamic shapes" in reasons["inverse"]
    assert main(["inspect", "any.gnm"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("compiled for the sizes of each call: ") == 1
    assert f"compiled for the sizes of each call: {reasons['inverse']}" in shown
