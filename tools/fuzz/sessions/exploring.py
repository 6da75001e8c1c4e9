"""Runs many sessions in child processes, and shrinks those that fail to scripts."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from gnomon.tools.fuzz.sessions.drawing import Session, draw
from gnomon.tools.fuzz.sessions.running import Check, Failure, check, evaluated

__all__ = ["Report", "Settings", "explore", "explore_isolated", "reduced", "script", "summary"]

_PRELUDE = "gnomon.tools.fuzz.sessions.prelude"
# The number of sessions per child: compiled code is never unloaded.
SESSIONS_OF_A_CHILD = 500


@dataclass(frozen=True)
class Settings:
    """The options of a run.

    Attributes:
      loops: whether there are loops whose bodies write, or read what their code does not name.
      compiles: whether jitted functions are compiled; else they are evaluated.
    """

    loops: bool = False
    compiles: bool = True


@dataclass
class Report:
    """The findings of a run.

    Attributes:
      sessions, calls, errors: the numbers of sessions, of calls, and of calls that raised the
        expected error.
      findings: the scripts.
      shrunk: the meanings of the functions that failed.
      repeated: the number of further failures of the same meaning.
      refused: how often a function could not be made, by the error.
    """

    sessions: int = 0
    calls: int = 0
    errors: int = 0
    findings: list[str] = field(default_factory=list)
    shrunk: set[str] = field(default_factory=set)
    repeated: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def join(self, other: Report) -> None:
        """Add the findings of another report."""
        self.sessions += other.sessions
        self.calls += other.calls
        self.errors += other.errors
        self.findings += other.findings
        self.repeated += other.repeated
        self.refused += other.refused

    def add(self, found: Check) -> None:
        """Add the statistics of a session."""
        self.sessions += 1
        self.calls += found.calls
        self.errors += found.errors
        self.refused.update(found.refused)


def summary(report: Report, seconds: float) -> str:
    """The statistics of a run, as text."""
    lines = [
        f"{report.sessions} sessions with {report.calls} calls in {seconds:.0f} s, {report.errors} "
        "of them with the expected error",
        f"{len(report.findings)} findings, {report.repeated} repetitions",
    ]
    lines += [f"refused {count} times: {text}" for text, count in report.refused.most_common()]
    return "\n".join(lines)


def explore(seeds: Sequence[int], settings: Settings) -> Report:
    """Run the sessions of some seeds in this process."""
    report = Report()
    with nullcontext() if settings.compiles else evaluated():
        for seed in seeds:
            _explore_one(seed, settings, report)
    return report


def _explore_one(seed: int, settings: Settings, report: Report) -> None:
    """Run a session, and add its findings to the report."""
    session = draw(seed, loops=settings.loops)
    found = check(session)
    report.add(found)
    for failure in found.failures[:1]:
        if failure.meaning in report.shrunk:
            report.repeated += 1
            continue
        report.shrunk.add(failure.meaning)
        small, failure = reduced(session, failure)
        report.findings.append(f"# seed {seed}\n{script(small, failure)}")


def reduced(session: Session, failure: Failure) -> tuple[Session, Failure]:
    """A shorter session with a failure of the same meaning, and that failure.

    A failure that does not come again, because it depends on earlier sessions or on threads, is
    returned with the whole session.
    """

    def failing(candidate: Session) -> Failure | None:
        same = [f for f in check(candidate).failures if f.meaning == failure.meaning]
        return same[0] if same else None

    if failing(session) is None:
        return session, failure._replace(detail=f"{failure.detail} (once: not when repeated)")
    i = 0
    while i < len(session.steps):
        steps = session.steps
        for size in (8, 2, 1):
            if i + size > len(steps) or any(step.name for step in steps[i : i + size]):
                continue
            candidate = session.with_steps((*steps[:i], *steps[i + size :]))
            again = failing(candidate)
            if again is not None:
                session, failure = candidate, again
                i = -1
                break
        i += 1
    return session, failure


def script(session: Session, failure: Failure) -> str:
    """A script that runs a session and prints what its calls give."""
    lines = [f"# {failure.call} {failure.detail}", f"from {_PRELUDE} import *"]
    for step in session.steps:
        if step.name:
            lines.append(f"{step.name} = {step.text}")
            continue
        calls = []
        for call in step.calls:
            text = f"print({call.text()!r}, {call.text()})"
            calls.append(f"with {call.context}:\n    {text}" if call.context else text)
        if len(calls) == 1:
            lines += calls
        elif calls:
            functions = [f"lambda: exec({call!r}, globals())" for call in calls]
            lines.append(f"together({', '.join(functions)})")
        else:
            lines.append(step.text)
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------------------------- in children


def explore_isolated(
    seeds: Sequence[int],
    settings: Settings,
    *,
    timeout: float = 600.0,
    deadline: float = float("inf"),
    report_progress: Callable[[Report, str | None], None] = lambda report, finding: None,
) -> Report:
    """Run the sessions of some seeds in child processes.

    Args:
      seeds: the seeds.
      settings: the options.
      timeout: seconds after which a silent child is killed, which is a finding.
      deadline: a `time.monotonic` at which the run ends.
      report_progress: called after every hundred sessions, and with each finding.
    """
    report = Report()
    rest = list(seeds)
    while rest and time.monotonic() < deadline:
        done = _in_child(
            rest[:SESSIONS_OF_A_CHILD], settings, timeout, deadline, report, report_progress
        )
        del rest[:done]
    return report


def _in_child(
    seeds: Sequence[int],
    settings: Settings,
    timeout: float,
    deadline: float,
    report: Report,
    report_progress: Callable[[Report, str | None], None],
) -> int:
    """Run seeds in a child process; return how many are done."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_serve, args=(theirs, seeds, settings), daemon=True)
    child.start()
    theirs.close()
    done = 0
    finding = ""
    try:
        while done < len(seeds) and time.monotonic() < deadline:
            if not ours.poll(timeout):
                finding = f"# seed {seeds[done]}: no result after {timeout:.0f} s\n"
                break
            found = ours.recv()
            report.join(found)
            for text in found.findings:
                report_progress(report, text)
            done += 1
            if report.sessions % 100 == 0:
                report_progress(report, None)
    except (EOFError, OSError):
        child.join()
        finding = f"# seed {seeds[done]}: the process ended with status {child.exitcode}\n"
    finally:
        child.kill()
        child.join()
    if finding:
        report.findings.append(finding)
        report_progress(report, finding)
        done += 1
    return done


def _serve(pipe: Connection, seeds: Sequence[int], settings: Settings) -> None:
    """Run seeds in a child process, which sends the statistics and the findings of each."""
    shrunk: set[str] = set()
    with nullcontext() if settings.compiles else evaluated():
        for seed in seeds:
            report = Report(shrunk=shrunk)
            _explore_one(seed, settings, report)
            pipe.send(report)
