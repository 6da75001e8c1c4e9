"""Runs many programs, reduces what fails, and survives what crashes.

`explore` works in this process; `explore_isolated` gives seeds to child processes, so that a
crash or a hang of a compiled program is one more finding.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gnomon.tools.fuzz.checking import (
    Counts,
    Failure,
    cells,
    check,
    refused_by_gnomon_alone,
)
from gnomon.tools.fuzz.generating import Generator
from gnomon.tools.fuzz.program import Program
from gnomon.tools.fuzz.reducing import TRIES, reduce
from gnomon.tools.fuzz.reporting import reproducer, title

# Errors of one signature of which so many were reduced are counted only.
REDUCED_OF_ONE_SIGNATURE = 3
# A child is replaced after so many programs: compiled code is never unloaded.
PROGRAMS_OF_A_CHILD = 60


@dataclass(frozen=True)
class Finding:
    """A failure, reduced.

    Attributes:
      seed: of the program.
      kind: of the failure, or ``"crash"``.
      title: equal for findings that are probably one.
      script: shows it.
    """

    seed: int
    kind: str
    title: str
    script: str


@dataclass
class Settings:
    """What is run.

    Attributes:
      cells: how many cells a program has.
      families: those of the catalog; all by default.
      jax: whether JAX is compared with.
      tries: how many programs may be run to reduce a failure.
    """

    cells: int = 8
    families: tuple[str, ...] = ()
    jax: bool = True
    tries: int = TRIES


@dataclass
class Report:
    """What a run found.

    Attributes:
      counts: what was checked.
      findings: title to the first finding of it.
      repeated: title or signature to how many more there were.
      jax_refuses: errors of JAX to how often it refused what gnomon computes.
    """

    counts: Counts = field(default_factory=Counts)
    findings: dict[str, Finding] = field(default_factory=dict)
    repeated: dict[str, int] = field(default_factory=dict)
    jax_refuses: dict[str, int] = field(default_factory=dict)

    def add(self, finding: Finding) -> bool:
        """Take a finding; tells whether it is new."""
        if finding.title in self.findings:
            self.repeated[finding.title] = self.repeated.get(finding.title, 0) + 1
            return False
        self.findings[finding.title] = finding
        return True


class Explorer:
    """Runs programs one after the other in this process.

    Args:
      settings: what is run.
      report: gets what is found.
    """

    def __init__(self, settings: Settings, report: Report) -> None:
        self._settings = settings
        self._report = report
        self._signatures: dict[str, int] = {}
        self._refused: set[str] = set()

    def explore(self, seed: int) -> Iterator[Finding]:
        """Run the program of a seed; new findings."""
        settings, counts = self._settings, Counts(programs=1)
        generator = Generator(seed, settings.families)
        program = generator.program(settings.cells)
        counts.statements = len(program.block.statements)
        if settings.jax:
            yield from self._refusals(seed, generator)
        whole = check(program, jax=settings.jax, counts=counts) if program.block.results else None
        if whole is not None:
            counts.checks = counts.undecided = 0
            found = False
            for cell in cells(program):
                failure = check(cell, jax=settings.jax, counts=counts)
                if failure is not None:
                    found = True
                    yield from self._failed(seed, cell, failure)
            if not found:
                yield from self._failed(seed, program, whole)
        self._report.counts += counts

    def _failed(self, seed: int, program: Program, failure: Failure) -> Iterator[Finding]:
        signature = failure.signature
        if failure.kind == "jax refuses":
            refuses = self._report.jax_refuses
            refuses[signature] = refuses.get(signature, 0) + 1
            return
        if failure.kind in ("compile", "eager"):
            self._signatures[signature] = self._signatures.get(signature, 0) + 1
            if self._signatures[signature] > REDUCED_OF_ONE_SIGNATURE:
                repeated = self._report.repeated
                repeated[signature] = repeated.get(signature, 0) + 1
                return
        program, failure = reduce(program, failure, self._settings.tries)
        yield from self._new(seed, program, failure)

    def _new(self, seed: int, program: Program, failure: Failure) -> Iterator[Finding]:
        script = f"# seed {seed}\n{reproducer(program, failure)}"
        finding = Finding(seed, failure.kind, title(program, failure), script)
        if self._report.add(finding):
            yield finding

    def _refusals(self, seed: int, generator: Generator) -> Iterator[Finding]:
        """What gnomon refuses, and JAX takes; each rule once."""
        for refusal in generator.refusals:
            if refusal.template in self._refused:
                continue
            if refused_by_gnomon_alone(refusal.program):
                self._refused.add(refusal.template)
                error = f"{type(refusal.error).__name__}: {str(refusal.error)[:300]}"
                failure = Failure("refused", error.replace("\n", " "))
                yield from self._new(seed, refusal.program, failure)


def explore(seeds: Sequence[int], settings: Settings) -> Report:
    """Run the programs of some seeds in this process."""
    report = Report()
    explorer = Explorer(settings, report)
    for seed in seeds:
        for _ in explorer.explore(seed):
            pass
    return report


# ---------------------------------------------------------------------------------- in children


def work(seeds: Sequence[int], settings: Settings) -> None:
    """Run seeds in a child: a line of JSON on standard output for each event."""
    report = Report()
    explorer = Explorer(settings, report)
    for seed in seeds:
        _tell(begin=seed)
        for finding in explorer.explore(seed):
            _tell(finding=asdict(finding))
        _tell(
            end=seed,
            counts=asdict(report.counts),
            repeated=report.repeated,
            jax_refuses=report.jax_refuses,
        )
        report.counts = Counts()
        report.repeated, report.jax_refuses = {}, {}


def _tell(**event: object) -> None:
    print(json.dumps(event), flush=True)


def explore_isolated(
    seeds: Sequence[int],
    settings: Settings,
    *,
    timeout: float = 600.0,
    deadline: float = float("inf"),
    told: Callable[[int, Report, Finding | None], None] = lambda seed, report, finding: None,
) -> Report:
    """Run the programs of some seeds in children.

    Args:
      seeds: of the programs.
      settings: what is run.
      timeout: seconds after which a silent child is ended: its program hangs.
      deadline: a `time.monotonic` at which no further program is begun.
      told: called at the end of each program, and with each finding.
    """
    report = Report()
    rest = list(seeds)
    while rest and time.monotonic() < deadline:
        batch, failed = rest[:PROGRAMS_OF_A_CHILD], None
        begun: int | None = None
        done: set[int] = set()
        for event in _events(batch, settings, timeout, deadline):
            if "begin" in event:
                begun = event["begin"]
            elif "finding" in event:
                finding = Finding(**event["finding"])
                if report.add(finding):
                    told(finding.seed, report, finding)
            elif "end" in event:
                done.add(event["end"])
                begun = None
                report.counts += Counts(**event["counts"])
                for name in ("repeated", "jax_refuses"):
                    total = getattr(report, name)
                    for key, count in event[name].items():
                        total[key] = total.get(key, 0) + count
                told(event["end"], report, None)
            else:
                failed = event["died"]
        if failed is not None and begun is not None and time.monotonic() < deadline:
            finding = Finding(
                begun, "crash", f"crash: {failed} (seed {begun})", _whole(begun, settings)
            )
            report.add(finding)
            told(begun, report, finding)
            done.add(begun)
        elif failed is not None and not done and time.monotonic() < deadline:
            raise RuntimeError(f"fuzz: the child process {failed} before its first program")
        rest = [seed for seed in rest if seed not in done]
    return report


def _whole(seed: int, settings: Settings) -> str:
    program = Generator(seed, settings.families).program(settings.cells)
    return f"# seed {seed}\n{reproducer(program, Failure('crash', 'the process'))}"


def _events(
    seeds: Sequence[int], settings: Settings, timeout: float, deadline: float
) -> Iterator[dict[str, Any]]:
    """What a child tells; the last event is its death, if it did not end by itself."""
    command = [
        sys.executable,
        "-m",
        "gnomon.tools.fuzz",
        "--child",
        json.dumps({"seeds": list(seeds), "settings": asdict(settings)}),
    ]
    environment = {"JAX_PLATFORMS": "cpu", **os.environ}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as child:
        assert child.stdout is not None
        lines: queue.Queue[str] = queue.Queue()
        stream = child.stdout

        def read() -> None:
            for line in stream:
                lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        while True:
            left = min(timeout, deadline - time.monotonic())
            try:
                line = lines.get(timeout=max(0.1, left))
            except queue.Empty:
                child.kill()
                if time.monotonic() < deadline:
                    yield {"died": f"was silent for {timeout:.0f} s"}
                return
            if not line:
                break
            yield json.loads(line)
        status = child.wait()
        if status:
            yield {"died": f"ended with status {status}"}
