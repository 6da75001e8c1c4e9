"""Run the IR tests in tests/filecheck with lit."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent / "filecheck"


@pytest.fixture(scope="module", autouse=True)
def _prepared_tools() -> Iterator[None]:
    """One process imports the tools; see `tests/filecheck/prepared.py`."""
    # The path of a socket is at most a hundred characters long, and `tmp_path` may be longer.
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = f"{folder}/tools"
        script = str(ROOT / "prepared.py")
        serve = [sys.executable, script, "serve", path]
        with subprocess.Popen(serve, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None and server.stdout.readline() == b"ready\n"
            # Without `site`, the process that only asks for a tool starts twice as fast.
            patch.setenv("GNOMON_LIT_TOOLS", f"{sys.executable} -I -S {script} {path}")
            yield
            server.terminate()


def run_lit(*paths: Path) -> subprocess.CompletedProcess[str]:
    # lit's module has no entry point for `python -m`: it would do nothing, and succeed.
    return subprocess.run(
        [sys.executable, "-c", "from lit.main import main; main()", "-v", "-j", "1", *paths],
        capture_output=True,
        text=True,
        check=False,
    )


def test_ir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_LIT_OUTPUT", str(tmp_path))
    files = sorted(ROOT.rglob("*.mlir"))
    run = run_lit(*files)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"Passed: {len(files)}" in run.stdout


def test_a_wrong_check_fails(tmp_path: Path) -> None:
    """A failure passes through filecheck, lit and pytest."""
    wrong = (ROOT / "passes" / "dead-code.mlir").read_text().replace("return %[[OUT]]", "nothing")
    (tmp_path / "wrong.mlir").write_text(wrong)
    (tmp_path / "lit.cfg.py").write_text((ROOT / "lit.cfg.py").read_text())
    assert run_lit(tmp_path / "wrong.mlir").returncode != 0
