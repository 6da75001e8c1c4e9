"""Runs many programs, reduces failures, and survives crashes.

`explore` works in this process; `explore_isolated` runs seeds in child processes, so that a crash
or a hang of a compiled program is one more finding.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gnomon.tools.fuzz import oracle
from gnomon.tools.fuzz.batches import Seeded, check_batch
from gnomon.tools.fuzz.checking import (
    Counts,
    Failure,
    known_difference,
    refused_by_gnomon_alone,
)
from gnomon.tools.fuzz.generating import Generator
from gnomon.tools.fuzz.program import Program
from gnomon.tools.fuzz.reducing import TRIES, reduce
from gnomon.tools.fuzz.reporting import reproducer, title
from gnomon.tools.fuzz.ways import Ways, take

# The number of errors with the same signature that are reduced; further ones are only counted.
REDUCED_OF_ONE_SIGNATURE = 3
# The number of refused programs per template that are tried with JAX.
MAX_ATTEMPTS_PER_TEMPLATE = 2
# The number of programs per child; compiled code is never unloaded, so children are replaced.
PROGRAMS_OF_A_CHILD = 240


@dataclass(frozen=True)
class Finding:
    """A reduced failure.

    Attributes:
      seed: the seed of the program.
      kind: the kind of the failure, or ``"crash"``.
      title: a summary, which findings with the same cause usually share.
      script: a Python script that reproduces the failure.
    """

    seed: int
    kind: str
    title: str
    script: str


@dataclass
class Settings:
    """The options of a run.

    Attributes:
      batch_size: the maximal number of programs that are compiled as one.
      families: the families of the catalog to draw from; all if empty.
      jax: whether results are compared with JAX's.
      tries: the number of programs that may be run to reduce a failure.
      ways: the value of a `Ways`, the side of the cost models' thresholds.
    """

    batch_size: int = 24
    families: tuple[str, ...] = ()
    jax: bool = True
    tries: int = TRIES
    ways: str = Ways.CHOSEN.value


@dataclass
class Report:
    """The findings of a run.

    Attributes:
      counts: how much was checked.
      findings: the first finding of each title.
      repeated: the number of further findings, by title or signature.
      jax_refuses: the number of programs that only JAX refused, by JAX's error.
      known: the number of known differences, by their reason.
    """

    counts: Counts = field(default_factory=Counts)
    findings: dict[str, Finding] = field(default_factory=dict)
    repeated: Counter[str] = field(default_factory=Counter)
    jax_refuses: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)

    def add(self, finding: Finding) -> bool:
        """Add a finding, and return whether it is new."""
        if finding.title in self.findings:
            self.repeated[finding.title] += 1
            return False
        self.findings[finding.title] = finding
        return True


class Explorer:
    """Runs programs in this process.

    Args:
      settings: the options of the run.
      report: updated with the findings.
    """

    def __init__(self, settings: Settings, report: Report) -> None:
        self._settings = settings
        self._report = report
        self._signatures: Counter[str] = Counter()
        self._attempts: Counter[str] = Counter()
        self._made: list[Seeded] = []

    def make(self, seed: int) -> Iterator[Finding]:
        """Draw the program of a seed for `batches`; yields findings of the generation."""
        generator = Generator(seed, self._settings.families)
        self._made.append(Seeded(seed, generator.program()))
        if self._settings.jax:
            yield from self._refusals(seed, generator)

    def batches(self) -> Iterator[list[Seeded]]:
        """The programs drawn so far, in groups that can be compiled as one."""
        groups: dict[tuple[bool, str], list[Seeded]] = {}
        for member in self._made:
            groups.setdefault((member.program.x64, member.program.target), []).append(member)
        self._made = []
        batch_size = self._settings.batch_size
        for group in groups.values():
            for i in range(0, len(group), batch_size):
                yield group[i : i + batch_size]

    def explore(self, batch: Sequence[Seeded]) -> Iterator[Finding]:
        """Run a batch; yields new findings."""
        counts = Counts(programs=len(batch))
        counts.statements = sum(len(member.program.block.statements) for member in batch)
        for member, failure in check_batch(batch, jax=self._settings.jax, counts=counts):
            yield from self._failed(member, failure)
        self._report.counts += counts

    def _failed(self, member: Seeded, failure: Failure) -> Iterator[Finding]:
        signature, program = failure.signature, member.program
        if failure.kind == "jax refuses":
            self._report.jax_refuses[signature] += 1
            return
        if failure.kind in ("compile", "eager"):
            if reason := known_difference(program, failure):
                self._report.known[reason] += 1
                return
            self._signatures[signature] += 1
            if self._signatures[signature] > REDUCED_OF_ONE_SIGNATURE:
                self._report.repeated[signature] += 1
                return
        program, failure = reduce(program, failure, self._settings.tries)
        if reason := known_difference(program, failure):
            self._report.known[reason] += 1
            return
        yield from self._new(member.seed, program, failure)

    def _new(self, seed: int, program: Program, failure: Failure) -> Iterator[Finding]:
        script = f"# seed {seed}\n{reproducer(program, failure, Ways(self._settings.ways))}"
        finding = Finding(seed, failure.kind, title(program, failure), script)
        if self._report.add(finding):
            yield finding

    def _refusals(self, seed: int, generator: Generator) -> Iterator[Finding]:
        """Yields programs that gnomon refuses and JAX accepts, once per template."""
        for refusal in generator.statements.refusals:
            self._attempts[refusal.template] += 1
            if self._attempts[refusal.template] > MAX_ATTEMPTS_PER_TEMPLATE:
                continue
            if refused_by_gnomon_alone(refusal.program):
                self._attempts[refusal.template] = MAX_ATTEMPTS_PER_TEMPLATE
                error = f"{type(refusal.error).__name__}: {str(refusal.error)[:300]}"
                failure = Failure("refused", error.replace("\n", " "))
                if reason := known_difference(refusal.program, failure):
                    self._report.known[reason] += 1
                else:
                    yield from self._new(seed, refusal.program, failure)


def explore(seeds: Sequence[int], settings: Settings) -> Report:
    """Run the programs of some seeds in this process."""
    report = Report()
    explorer = Explorer(settings, report)
    for seed in seeds:
        for _ in explorer.make(seed):
            pass
    for batch in explorer.batches():
        for _ in explorer.explore(batch):
            pass
    return report


# ---------------------------------------------------------------------------------- in children


def work(seeds: Sequence[int], settings: Settings) -> None:
    """Run seeds in a child process, which prints a line of JSON for each event."""
    take(Ways(settings.ways))
    oracle.on_death = lambda how: _print_event(waited=how)
    report = Report()
    explorer = Explorer(settings, report)
    for seed in seeds:
        _print_event(begin=[seed])
        for finding in explorer.make(seed):
            _print_event(finding=asdict(finding))
    for batch in explorer.batches():
        done = [member.seed for member in batch]
        _print_event(begin=done)
        for finding in explorer.explore(batch):
            _print_event(finding=asdict(finding))
        _print_event(
            end=done,
            counts=asdict(report.counts),
            **{name: getattr(report, name) for name in _COUNTERS},
        )
        report.counts = Counts()
        for name in _COUNTERS:
            getattr(report, name).clear()


_COUNTERS = ("repeated", "jax_refuses", "known")


def _print_event(**event: object) -> None:
    print(json.dumps(event), flush=True)


def explore_isolated(
    seeds: Sequence[int],
    settings: Settings,
    *,
    timeout: float = 600.0,
    deadline: float = float("inf"),
    report_progress: Callable[[Report, Finding | None], None] = lambda report, finding: None,
) -> Report:
    """Run the programs of some seeds in child processes.

    If a child dies, each program of its batch is run again alone; if none of them crashes alone,
    the batch is the finding.

    Args:
      seeds: the seeds of the programs.
      settings: the options of the run.
      timeout: seconds after which an unresponsive child is killed, because its program hangs.
      deadline: a `time.monotonic` at which the run ends.
      report_progress: called at the end of each batch, and with each finding.
    """
    return _Isolated(settings, timeout, deadline, report_progress).run(seeds)


@dataclass
class _Isolated:
    settings: Settings
    timeout: float
    deadline: float
    report_progress: Callable[[Report, Finding | None], None]
    report: Report = field(default_factory=Report)

    def run(self, seeds: Sequence[int]) -> Report:
        rest = list(seeds)
        while rest and time.monotonic() < self.deadline:
            done = self._in_child(rest[:PROGRAMS_OF_A_CHILD], self.settings)
            rest = [seed for seed in rest if seed not in done]
        return self.report

    def _in_child(self, seeds: Sequence[int], settings: Settings) -> set[int]:
        """Run seeds in a child process; returns those that need no further run."""
        report = self.report
        done: set[int] = set()
        begun: list[int] = []
        for event in _events(seeds, settings, self.timeout, self.deadline):
            if "begin" in event:
                begun = event["begin"]
            elif "finding" in event:
                self._add(Finding(**event["finding"]))
            elif "end" in event:
                done.update(event["end"])
                begun = []
                report.counts += Counts(**event["counts"])
                for name in _COUNTERS:
                    getattr(report, name).update(event[name])
                self.report_progress(report, None)
            elif "died" in event and time.monotonic() < self.deadline:
                if not begun:
                    raise RuntimeError(f"fuzz: the child {event['died']}, and ran no program")
                self._died(begun, event["died"])
                done.update(begun)
        return done

    def _died(self, seeds: Sequence[int], how: str) -> None:
        before = len(self.report.findings)
        if len(seeds) > 1:
            alone = Settings(**{**asdict(self.settings), "batch_size": 1})
            for seed in seeds:
                self._in_child([seed], alone)
        if len(self.report.findings) == before:
            among = ", ".join(map(str, seeds))
            script = f"# seeds {among}\n# crash: the process {how}\n"
            if len(seeds) == 1:
                program = Generator(seeds[0], self.settings.families).program()
                failure = Failure("crash", how)
                text = reproducer(program, failure, Ways(self.settings.ways))
                script = f"# seed {seeds[0]}\n{text}"
            self._add(Finding(seeds[0], "crash", f"crash: {how} (seeds {among})", script))

    def _add(self, finding: Finding) -> None:
        if self.report.add(finding):
            self.report_progress(self.report, finding)


def _events(
    seeds: Sequence[int], settings: Settings, timeout: float, deadline: float
) -> Iterator[dict[str, Any]]:
    """The events that a child process reports; if it dies, the last one says how."""
    command = [
        sys.executable,
        "-m",
        "gnomon.tools.fuzz",
        "--child",
        json.dumps({"seeds": list(seeds), "settings": asdict(settings)}),
    ]
    # JAX's results matter, not its speed, so XLA need not optimize.
    ours = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**ours, **os.environ},
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
