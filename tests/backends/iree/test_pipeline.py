"""``gnomon-opt --pipeline=iree`` prints the compiler's input."""

from __future__ import annotations

from pathlib import Path

import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.compilation import serialize
from gnomon.backends.iree.backend import iree_backend
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir, stablehlo
from gnomon.tools.opt import main

TARGETS = (
    *("cpu", "x86-64-v2", "x86-64-v4", "aarch64-linux", "wasm32"),
    *("vulkan:portable", "vulkan:wide", "cuda:sm_80", "cuda:sm_90", "rocm", "metal"),
)

ROW = gnp.ones(40, "float32")
PROGRAMS = {
    "functions": lambda x: (gnp.sin(x) ** -1.5).sum(),
    "constants": lambda x: x + gnp.sum(-gnp.ones(10, "float32")),
    "gathers": lambda x: gnp.sort(x[::2])[::-1].at[3].set(2.0),
    "counting loop": lambda x: lax.fori_loop(0, 9, lambda i, s: gnp.tanh(s) + x[i], x),
    "open loop": lambda x: lax.while_loop(lambda s: s.sum() < 99, lambda s: s * 2 + 1, x),
    "branches": lambda x: lax.cond(x[0] > 0, gnp.sort, lambda y: gnp.cumsum(y), x),
}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {n: gn.jit(f).lower(ROW).as_text("gnomon") for n, f in PROGRAMS.items()}


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_tool_prints_the_input_of_the_compiler(
    name: str,
    target: str,
    texts: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ensure_context()
    artifact = iree_backend(target).lower(Program(ir.Module.parse(texts[name])))
    (tmp_path / "program.mlir").write_text(texts[name])
    assert main(["--pipeline=iree", f"--target={target}", str(tmp_path / "program.mlir")]) == 0
    printed = capsys.readouterr().out
    if artifact.plan.code is not None:
        assert artifact.plan.code == printed.encode()
    else:
        version = stablehlo.get_current_version()
        module = ir.Module.parse(printed, context())
        assert artifact.portable == serialize(module, version)


def test_an_unknown_target_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.mlir").write_text("")
    assert main(["--pipeline=iree", "--target=x86-64-v5", str(tmp_path / "empty.mlir")]) == 1
    assert "unknown target 'x86-64-v5'" in capsys.readouterr().err


def test_an_op_that_a_target_lacks_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wide.mlir").write_text(
        "func.func public @main(%x: tensor<f64>) -> tensor<f64> { return %x : tensor<f64> }"
    )
    assert main(["--pipeline=iree", "--target=vulkan", str(tmp_path / "wide.mlir")]) == 1
    assert "not supported on target 'vulkan:portable'" in capsys.readouterr().err


def test_lowering_is_deterministic() -> None:
    """The compiler's input is the key of the cache."""
    x = gnp.linspace(0.1, 0.9, 4, dtype="float32")
    text = gn.jit(gn.scipy.special.betainc).lower(x, x, x).as_text("gnomon")
    ensure_context()
    backend = iree_backend("x86-64-v2")
    given = {backend.lower(Program(ir.Module.parse(text))).plan.code for _ in range(6)}
    assert len(given) == 1
