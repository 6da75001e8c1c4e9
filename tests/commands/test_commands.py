"""Ctrl-C ends the commands quietly, while gnomon is still being imported and afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPT = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\n"
RUN = """
import signal, sys
import gnomon_commands
signal.signal(signal.SIGINT, {handler})
sys.exit(gnomon_commands._run("command"))
"""


def run(
    source: str, folder: Path, handler: str = "signal.default_int_handler"
) -> subprocess.CompletedProcess[str]:
    """Run a command whose module has this source."""
    (folder / "command.py").write_text(source)
    code = RUN.format(handler=handler)
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


def indented(source: str) -> str:
    return source.replace("\n", "\n    ")


@pytest.mark.parametrize(
    "source",
    [
        INTERRUPT,
        f"try:\n    {indented(INTERRUPT)}\nexcept BaseException:\n    pass\ndef main(): return 0",
        f"def main():\n    {indented(INTERRUPT)}",
    ],
    ids=["imported", "caught by the import", "running"],
)
def test_an_interrupt_ends_a_command_quietly(source: str, tmp_path: Path) -> None:
    done = run(source, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_command_handles_interrupts_itself_while_it_runs(tmp_path: Path) -> None:
    body = f"try:\n        {indented(indented(INTERRUPT))}\n    except KeyboardInterrupt:\n"
    done = run(f"def main():\n    {body}        return 7", tmp_path)
    assert (done.returncode, done.stderr) == (7, "")


def test_ignored_interrupts_stay_ignored(tmp_path: Path) -> None:
    source = f"{INTERRUPT.replace('30', '0')}\ndef main():\n    return 5"
    done = run(source, tmp_path, handler="signal.SIG_IGN")
    assert (done.returncode, done.stderr) == (5, "")


def test_the_status_of_a_command_is_passed_on(tmp_path: Path) -> None:
    assert run("def main():\n    return 3", tmp_path).returncode == 3
