"""Programs that the compiler refuses at first: the cache remembers which attempt compiled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gnomon.backends.compilation import Artifact
from gnomon.backends.errors import CompilationFailed, CompilerCrashed
from gnomon.backends.iree import backend as iree
from gnomon.backends.iree.options import CompileOptions
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir

PROGRAM = """
func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "gnomon.sin"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""


class Compiler:
    """A compiler that refuses data tiling, as it does for programs that are too large."""

    def __init__(self) -> None:
        self.error: type[Exception] | None = CompilationFailed
        self.tilings: list[bool] = []

    def __call__(self, _: bytes, *, options: CompileOptions, **others: Any) -> bytes:
        self.tilings.append(options.data_tiling)
        if self.error is not None and options.data_tiling:
            raise self.error("too large")
        if self.error is None and not options.data_tiling:
            raise CompilationFailed("only with data tiling")
        return b"executable"


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    monkeypatch.setenv("GNOMON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("GNOMON_CACHE", raising=False)
    made = Compiler()
    monkeypatch.setattr(iree, "compile_artifact", made)
    return made


@pytest.fixture
def artifact() -> Artifact:
    made = iree.iree_backend("cpu").lower(Program(ir.Module.parse(PROGRAM, context())))
    plan = made.plan
    return replace(made, plan=plan._replace(options=replace(plan.options, data_tiling=True)))


def test_the_attempt_that_compiled_is_the_first_one_later(
    compiler: Compiler, artifact: Artifact
) -> None:
    backend, plan = iree.iree_backend("cpu"), artifact.plan
    assert backend._compiled(artifact) == b"executable"
    assert compiler.tilings == [True, False]
    compiler.tilings.clear()
    artifact.plan = plan
    assert backend._compiled(artifact) == b"executable"
    assert compiler.tilings == [False]
    assert not artifact.plan.options.data_tiling


def test_where_the_remembered_attempt_fails_all_are_tried(
    compiler: Compiler, artifact: Artifact
) -> None:
    backend, plan = iree.iree_backend("cpu"), artifact.plan
    backend._compiled(artifact)
    compiler.tilings.clear()
    compiler.error = None
    artifact.plan = plan
    assert backend._compiled(artifact) == b"executable"
    assert compiler.tilings == [False, True]
    assert artifact.plan.options.data_tiling


def test_a_crash_is_not_remembered(compiler: Compiler, artifact: Artifact) -> None:
    backend, plan = iree.iree_backend("cpu"), artifact.plan
    compiler.error = CompilerCrashed
    backend._compiled(artifact)
    artifact.plan = plan
    compiler.tilings.clear()
    backend._compiled(artifact)
    assert compiler.tilings == [True, False]
