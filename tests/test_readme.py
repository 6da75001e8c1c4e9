"""The README's program runs, and its statements about results are true."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gnomon.tools.driver import main
from tests.tolerance import assert_near

PATH = Path(__file__).parent.parent / "README.md"
README = PATH.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tour() -> dict[str, Any]:
    """The variables that the quick tour defines."""
    (program,) = re.finditer(r"```python\n(.*?)```", README, re.DOTALL)
    # Offset the program so that line numbers in tracebacks are those of the README.
    above = README.count("\n", 0, program.start(1))
    names: dict[str, Any] = {}
    exec(compile("\n" * above + program[1], str(PATH), "exec"), names)
    return names


@pytest.mark.smoke
def test_the_gradient_is_shaped_like_the_parameters(tour: dict[str, Any]) -> None:
    shapes = [(w.shape, b.shape) for w, b in tour["gradient"]]
    assert shapes == [(w.shape, b.shape) for w, b in tour["params"]]


@pytest.mark.smoke
def test_per_example_gradients_average_to_the_gradient(tour: dict[str, Any]) -> None:
    for layer, whole in zip(tour["per_example"], tour["gradient"], strict=True):
        for each, gradient in zip(layer, whole, strict=True):
            assert each.shape == (16, *gradient.shape)
            assert_near(np.mean(each, 0), gradient, 32)


@pytest.mark.smoke
def test_values_in_comments(tour: dict[str, Any]) -> None:
    assert float(tour["gnomon"].grad(tour["piecewise"])(-2.0)) == 12.0


@pytest.mark.slow
def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    (section,) = re.finditer(r"## From the command line\n.*?```sh\n(.*?)```", README, re.DOTALL)
    (tmp_path / "examples").symlink_to(PATH.parent / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for line in section[1].splitlines():
        program, *arguments = shlex.split(line)
        assert program == "gnomon"
        assert main(arguments) == 0, line
    assert Path("digits.html").stat().st_size > 10_000
