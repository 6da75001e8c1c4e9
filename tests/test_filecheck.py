"""Run the IR tests in tests/filecheck with lit, one pytest test per file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent / "filecheck"
FILES = sorted(ROOT.rglob("*.mlir"))


def run_lit(path: Path) -> subprocess.CompletedProcess[str]:
    # lit's module has no entry point for `python -m`: it would do nothing, and succeed.
    return subprocess.run(
        [sys.executable, "-c", "from lit.main import main; main()", "-v", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_are_ir_tests() -> None:
    assert len(FILES) >= 8


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_ir(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_LIT_OUTPUT", str(tmp_path))
    run = run_lit(path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Passed: 1" in run.stdout


def test_a_wrong_check_fails(tmp_path: Path) -> None:
    """A failure passes through filecheck, lit and pytest."""
    wrong = (ROOT / "passes" / "dead-code.mlir").read_text().replace("return %[[OUT]]", "nothing")
    (tmp_path / "wrong.mlir").write_text(wrong)
    (tmp_path / "lit.cfg.py").write_text((ROOT / "lit.cfg.py").read_text())
    assert run_lit(tmp_path / "wrong.mlir").returncode != 0
