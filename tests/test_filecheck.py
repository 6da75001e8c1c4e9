"""Run the IR tests in tests/filecheck with lit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent / "filecheck"


def run_lit(*paths: Path) -> subprocess.CompletedProcess[str]:
    # lit's module has no entry point for `python -m`: it would do nothing, and succeed.
    return subprocess.run(
        [sys.executable, "-c", "from lit.main import main; main()", "-v", "-j", "1", *paths],
        capture_output=True,
        text=True,
        check=False,
    )


def folders() -> list[Path]:
    """The folders that hold IR tests: one run of lit for each."""
    return sorted({path.parent for path in ROOT.rglob("*.mlir")})


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.name)
def test_ir(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_LIT_OUTPUT", str(tmp_path))
    files = sorted(folder.glob("*.mlir"))
    run = run_lit(*files)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"Passed: {len(files)}" in run.stdout


def test_a_wrong_check_fails(tmp_path: Path) -> None:
    """A failure passes through filecheck, lit and pytest."""
    wrong = (ROOT / "passes" / "dead-code.mlir").read_text().replace("return %[[OUT]]", "nothing")
    (tmp_path / "wrong.mlir").write_text(wrong)
    (tmp_path / "lit.cfg.py").write_text((ROOT / "lit.cfg.py").read_text())
    assert run_lit(tmp_path / "wrong.mlir").returncode != 0
