"""The reports in `docs/upstream`: IREE's own tools print what each says."""

from __future__ import annotations

import functools
import platform
import re
import shlex
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

TEXTS = sorted((Path(__file__).parents[3] / "docs" / "upstream").glob("*.md"))
TOOLS = Path(sysconfig.get_path("scripts"))

CASE = re.compile(
    r"```mlir\n(?P<program>.*?)```\n\n```\n(?P<commands>.*?)```\n\n"
    r"Expected: (?P<every>every number is )?`(?P<expected>.*?)`. Found:\s(?:`(?P<found>.*?)`)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Case:
    """One program of a text.

    Attributes:
      program: the program.
      commands: the command lines that compile and run it.
      expected: the right result, as `iree-run-module` prints it.
      found: the output of the commands, or None if each run prints something else.
      every: whether the right result has `expected` for every element.
    """

    program: str
    commands: list[list[str]]
    expected: str
    found: str | None
    every: bool

    def run(self, folder: Path) -> str:
        """The output of the commands, up to the first that fails."""
        (folder / self.commands[0][1]).write_text(self.program)
        output = ""
        for command in self.commands:
            done = _tool(command, folder)
            output += done.stdout + done.stderr
            if done.returncode:
                break
        return output


def _tool(command: list[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    name, *arguments = command
    return subprocess.run(
        [TOOLS / name, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def cases_of(text: str) -> list[Case]:
    """The programs of a text, in its order."""
    return [
        Case(
            found["program"],
            [shlex.split(line) for line in found["commands"].replace("\\\n", "").splitlines()],
            found["expected"],
            found["found"],
            found["every"] is not None,
        )
        for found in CASE.finditer(text)
    ]


@functools.cache
def _has_vulkan() -> bool:
    return "vulkan://" in _tool(["iree-run-module", "--list_devices"]).stdout


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_a_text_has_programs_commands_and_results(path: Path) -> None:
    text = path.read_text()
    cases = cases_of(text)
    assert len(cases) == text.count("```mlir\n") > 0
    for case in cases:
        assert [command[0] for command in case.commands] == ["iree-compile", "iree-run-module"]
        assert case.every or case.found


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the texts are about x86-64")
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_iree_still_has_the_fault(path: Path, tmp_path: Path) -> None:
    """Run a report's commands; the fault must still occur.

    If this fails, upstream has fixed the fault: remove the report, and the legalization too if
    its reproducer also fails.
    """
    for case in cases_of(path.read_text()):
        if "--device=vulkan" in case.commands[1] and not _has_vulkan():
            pytest.skip("there is no Vulkan device")
        output = case.run(tmp_path)
        if case.every:
            numbers = re.findall(r"[^\s\[\]]+", output.rpartition("=")[2])
            assert set(numbers) - {case.expected}, output
        else:
            assert case.expected not in output
            assert case.found is not None
            assert case.found in output
