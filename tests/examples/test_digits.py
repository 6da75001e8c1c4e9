"""The main job: the digits example reaches its accuracy and shows what it promises."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


@pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="scikit-learn (the extra 'examples')"
)
def test_the_network_learns_the_digits() -> None:
    run = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True, timeout=300
    )
    last = [line for line in run.stdout.splitlines() if line.startswith("epoch")][-1]
    assert float(last.rsplit(" ", 1)[1].rstrip("%")) >= 97.0
    assert "gradient norms of 360 test digits" in run.stdout
    assert run.stderr == ""
