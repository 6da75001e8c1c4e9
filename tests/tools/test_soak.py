"""Short runs of the soak test: no scenario leaks resources."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gnomon.tools.soak import SCENARIOS, Outcome, Usage

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

# The scenarios that take long, mostly to compile.
_LONG = ("programs", "loops")


def run(*arguments: str) -> None:
    """Run the tool in a separate process, whose memory no other test affects."""
    done = subprocess.run(
        [sys.executable, "-m", "gnomon.tools.soak", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_few_rounds_are_flat() -> None:
    names = ",".join(name for name in SCENARIOS if name not in _LONG)
    run("--scale=0", f"--only={names}")


@pytest.mark.slow
def test_loops_and_programs_are_flat() -> None:
    run("--scale=0.05", f"--only={','.join(_LONG)}")


def test_growth_is_reported() -> None:
    before = Usage(resident=100 << 20, descriptors=10, files=0, compiler=100 << 20)
    grown = Usage(resident=200 << 20, descriptors=11, files=2, compiler=100 << 20)
    assert Outcome("a", 3, before, before, 1.0).leaks == []
    assert Outcome("a", 3, before, grown, 1.0).leaks == [
        "resident memory by 100 MiB",
        "descriptors by 1",
        "files by 2",
    ]
