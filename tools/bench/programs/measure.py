"""The method: processes of the frameworks alternate, and the figures are medians."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.tools.bench.measure import difference
from gnomon.tools.bench.programs.process import load_results
from gnomon.tools.bench.programs.program import Program

FRAMEWORKS = ("gnomon", "jax")
FIGURES = ("call", "cold", "warm", "memory")
# PyTorch's own figures: the ports are not compiled, so their first calls say nothing.
PYTORCH_FIGURES = ("call", "memory")

_START = """
import sys
import numpy
from pathlib import Path
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
base = next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS")), None)
from gnomon.tools.bench.programs.process import main
main(sys.argv[1:], base)
"""


@dataclass
class Outcome:
    """The figures of a program: those of each framework, in seconds and bytes.

    Attributes:
      figures: a median by figure and framework.
      errors: why there are none, by framework; under ``agreement`` how the results of gnomon and
        JAX differ.
    """

    program: Program
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def ratio(self, figure: str, peer: str = "jax") -> float | None:
        """The figure of gnomon relative to that of a peer."""
        ours, theirs = (self.figures.get(figure, {}).get(name) for name in ("gnomon", peer))
        return ours / theirs if ours and theirs else None


@functools.cache
def _bytecode_folder() -> str:
    """A folder for the bytecode that all processes share."""
    folder = tempfile.mkdtemp(prefix="gnomon-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class _Process:
    """A process with one program in one framework, after its first call."""

    def __init__(
        self, program: Program, framework: str, platform: str, folder: str, file: str | None = None
    ) -> None:
        environment = {**os.environ, "GNOMON_CACHE_DIR": folder}
        environment["JAX_COMPILATION_CACHE_DIR"] = folder
        environment["JAX_TRACEBACK_FILTERING"] = "off"  # errors end with their message
        # Installed packages are compiled to bytecode; a source tree may be in a read-only place.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = _bytecode_folder()
        command = [sys.executable, "-c", _START, program.name, framework, platform]
        if file is not None:
            command.append(file)
        # A process that writes much would block on a pipe that is not read.
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115
        self._running = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.first = self._answer()["first"]

    def ask(self, line: str) -> Any:
        """The answer to a line, which is a dict of one figure."""
        assert self._running.stdin is not None
        print(line, file=self._running.stdin, flush=True)
        return next(iter(self._answer().values()))

    def close(self) -> None:
        """End the process."""
        self._running.communicate()
        self._errors.close()

    def _answer(self) -> dict[str, Any]:
        assert self._running.stdout is not None
        line = self._running.stdout.readline()
        if not line:
            self._running.communicate()
            self._errors.seek(0)
            last = self._errors.read().strip().splitlines()[-1:] or ["no message"]
            self._errors.close()
            raise RuntimeError(f"ended with status {self._running.returncode}: {last[0]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def write_bytecode(program: Program, platform: str) -> None:
    """Run a program once in each framework, so that no measured process compiles Python."""
    for name in FRAMEWORKS:
        with tempfile.TemporaryDirectory() as folder:
            _Process(program, name, platform, folder).close()


def _start_pytorch(
    outcome: Outcome, reference: list[np.ndarray], platform: str, stack: ExitStack
) -> _Process | None:
    """A process of PyTorch; None if it fails or its results differ, with the reason in `errors`."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    file = str(Path(folder) / "results.npz")
    try:
        process = _Process(outcome.program, "torch", platform, folder, file)
    except RuntimeError as error:
        outcome.errors["torch"] = str(error)
        return None
    stack.callback(process.close)
    problem = difference(load_results(file), reference, outcome.program.tolerance)
    if problem:
        outcome.errors["torch"] = f"other results than JAX: {problem}"
    return None if problem else process


def run_program(
    program: Program,
    *,
    colds: int,
    turns: int,
    turn_s: float,
    platform: str = "cpu",
    warm: bool = True,
    pytorch: bool = False,
) -> Outcome:
    """Measure a program in gnomon and JAX, and in PyTorch on request.

    Args:
      colds: first calls with an empty cache, each in a separate process.
      turns: how often each framework is called for ``turn_s`` seconds, in turns.
      platform: where it runs.
      warm: whether to measure first calls from the disk; otherwise the calls are those of the last
        processes of the cold first calls.
      pytorch: whether a process of PyTorch takes turns with the others. If it fails or disagrees,
        the figures of the others stay.
    """
    outcome = Outcome(program)
    samples: dict[str, dict[str, list[float]]] = {
        figure: {name: [] for name in (*FRAMEWORKS, "torch")} for figure in FIGURES
    }
    with ExitStack() as stack:
        folders, running = {}, {}
        results: dict[str, list[np.ndarray]] = {}
        for number in range(colds):
            for name in FRAMEWORKS:
                folders[name] = stack.enter_context(tempfile.TemporaryDirectory())
                file = str(Path(folders[name]) / "results.npz") if number == 0 else None
                try:
                    process = _Process(program, name, platform, folders[name], file)
                except RuntimeError as error:
                    outcome.errors[name] = str(error)
                    continue
                samples["cold"][name].append(process.first)
                if warm or number < colds - 1:
                    process.close()
                else:
                    stack.callback(process.close)
                    running[name] = process
                if file:
                    results[name] = load_results(file)
        if outcome.errors:
            return outcome
        problem = difference(results["gnomon"], results["jax"], program.tolerance)
        if problem:
            outcome.errors["agreement"] = problem
            return outcome
        for name in FRAMEWORKS if warm else ():
            process = _Process(program, name, platform, folders[name])
            stack.callback(process.close)
            running[name] = process
            samples["warm"][name].append(process.first)
        if pytorch and (started := _start_pytorch(outcome, results["jax"], platform, stack)):
            running["torch"] = started
        for number in range(turns):
            for name in running if number % 2 else reversed(running):
                samples["call"][name].append(running[name].ask(str(turn_s)))
        for name, process in running.items():
            peak = process.ask("memory")
            if peak is not None:
                samples["memory"][name].append(peak)
    outcome.figures = {
        figure: {name: statistics.median(values) for name, values in by.items() if values}
        for figure, by in samples.items()
    }
    return outcome


__all__ = [
    "FIGURES",
    "FRAMEWORKS",
    "PYTORCH_FIGURES",
    "Outcome",
    "run_program",
    "write_bytecode",
]
