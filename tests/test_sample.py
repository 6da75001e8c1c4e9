"""Samples of tests: the same for a seed, others for another seed, whole by request."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = """
import pytest

@pytest.mark.sampled(0.25)
@pytest.mark.parametrize("i", range(40))
def test_of_a_matrix(i): pass

@pytest.mark.sampled(0.01)
@pytest.mark.slow
@pytest.mark.parametrize("i", range(40))
def test_slow(i): pass

@pytest.mark.parametrize("i", range(3))
def test_other(i): pass
"""
CONFTEST = """
from tests import sample

def pytest_collection_modifyitems(config, items):
    sample.leave_out(config, items)
"""
RUN = """
import os, sys, pytest
for seed, *arguments in eval(sys.argv[1]):
    from tests import sample
    sample.seed.cache_clear()
    os.environ["GNOMON_SAMPLE"] = seed
    print("==", flush=True)
    pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *arguments])
"""
DEFAULT = ["-m", "not slow and not exhaustive"]


def collected(folder: Path, *runs: list[str]) -> list[set[str]]:
    """The names of the tests that runs collect, each a seed and arguments."""
    (folder / "test_matrix.py").write_text(FILE, encoding="utf-8")
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN, repr(runs)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=True,
    )
    parts = done.stdout.split("==\n")[1:]
    return [{line.split("::")[1] for line in part.splitlines() if "::" in line} for part in parts]


def test_samples(tmp_path: Path) -> None:
    name = "test_matrix.py::test_of_a_matrix[7]"
    a, again, b, rest, slow, slow_rest, alone, every, default = collected(
        tmp_path,
        ["a", *DEFAULT],
        ["a", *DEFAULT],
        ["b", *DEFAULT],
        ["a", "-m", "exhaustive"],
        ["a", "-m", "slow"],
        ["a", "-m", "slow and exhaustive"],
        ["a", *DEFAULT, name],
        ["b", "-m", "exhaustive or not exhaustive"],
        ["all", *DEFAULT],
    )
    matrix = {f"test_of_a_matrix[{i}]" for i in range(40)}
    others = {f"test_other[{i}]" for i in range(3)}
    assert a == again
    assert a != b
    assert len(a & matrix) == len(b & matrix) == 5
    assert others < a
    assert others < b
    assert len(slow & matrix) == 5
    assert rest == (matrix - a - slow) | slow_rest
    assert len(slow - matrix) == 1
    assert (slow - matrix) | slow_rest == {f"test_slow[{i}]" for i in range(40)}
    assert alone == {"test_of_a_matrix[7]"}
    assert every == matrix | others | slow | slow_rest
    assert not a & slow
    assert default == matrix | others
