"""The command line of the fuzzer: ``python -m gnomon.tools.fuzz``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gnomon.tools.fuzz.catalog import FAMILIES
from gnomon.tools.fuzz.running import jax_is_installed
from gnomon.tools.fuzz.session import Finding, Report, Settings, explore_isolated, work
from gnomon.tools.fuzz.sessions import exploring
from gnomon.tools.fuzz.ways import Ways


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m gnomon.tools.fuzz",
        description="Runs random programs jitted, eagerly and with JAX, and reduces failures.",
    )
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--programs", type=int, default=100, help="number of seeds (default: 100)")
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument(
        "--batch-size", type=int, default=24, help="programs compiled as one (default: 24)"
    )
    parser.add_argument(
        "--family",
        action="append",
        default=[],
        choices=sorted(FAMILIES),
        help="draw from this family",
    )
    parser.add_argument(
        "--ways",
        default=Ways.CHOSEN.value,
        choices=[ways.value for ways in Ways],
        help="where libraries, kernels of our own and loops as kernels run ops: where the cost "
        "models choose them (the default), wherever it is possible, or nowhere",
    )
    parser.add_argument(
        "--sessions",
        type=int,
        help="run this many sessions, sequences of calls to functions that live on, instead",
    )
    parser.add_argument(
        "--loop-bodies",
        action="store_true",
        help="in sessions, draw loops whose bodies write, or read what their code does not name",
    )
    parser.add_argument(
        "--evaluated",
        action="store_true",
        help="in sessions, evaluate jitted functions and compile none, which takes less time",
    )
    parser.add_argument("--no-jax", action="store_true", help="compare with eager calls only")
    parser.add_argument("--tries", type=int, default=80, help="programs to run to reduce a failure")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds per program")
    parser.add_argument("--output", type=Path, help="append the findings' scripts to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def summary(report: Report, seconds: float) -> str:
    """The statistics of a run, as text."""
    counts = report.counts
    lines = [
        f"{counts.programs} programs of {counts.statements} statements in {seconds:.0f} s, "
        f"{counts.checks} checks, {counts.undecided} of them undecided (too sensitive to rounding)",
        f"{len(report.findings)} findings, {sum(report.repeated.values())} repetitions",
    ]
    lines += [f"JAX refuses {count} times: {error}" for error, count in report.jax_refuses.items()]
    lines += [f"known, {count} times: {reason}" for reason, count in report.known.items()]
    lines += [f"repeated {count} times: {text}" for text, count in report.repeated.items()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; the exit status is 1 if there are findings."""
    options = parse_arguments(arguments)
    if options.child:
        given = json.loads(options.child)
        work(given["seeds"], Settings(**given["settings"]))
        return 0
    settings = Settings(
        options.batch_size,
        tuple(options.family),
        jax_is_installed() and not options.no_jax,
        options.tries,
        options.ways,
    )
    start = time.monotonic()
    deadline = start + 60 * options.minutes if options.minutes else float("inf")

    def print_finding(script: str) -> None:
        print(f"{'-' * 80}\n{script}", flush=True)
        if options.output:
            with options.output.open("a", encoding="utf-8") as file:
                file.write(f"{'-' * 80}\n{script}\n")

    if options.sessions is not None:
        return _explore_sessions(options, start, deadline, print_finding)

    def report_progress(report: Report, finding: Finding | None) -> None:
        if finding is None:
            counts = report.counts
            text = f"{time.monotonic() - start:.0f} s: {counts.programs} programs"
            text += f", {counts.checks} checks, {len(report.findings)} findings"
            print(text, file=sys.stderr, flush=True)
            return
        print_finding(finding.script)

    report = explore_isolated(
        range(options.seed, options.seed + options.programs),
        settings,
        timeout=options.timeout,
        deadline=deadline,
        report_progress=report_progress,
    )
    print(summary(report, time.monotonic() - start))
    return 1 if report.findings else 0


def _explore_sessions(
    options: argparse.Namespace,
    start: float,
    deadline: float,
    print_finding: Callable[[str], None],
) -> int:
    def report_progress(report: exploring.Report, script: str | None) -> None:
        if script is not None:
            print_finding(script)
            return
        text = f"{time.monotonic() - start:.0f} s: {report.sessions} sessions"
        text += f", {report.calls} calls, {len(report.findings)} findings"
        print(text, file=sys.stderr, flush=True)

    report = exploring.explore_isolated(
        range(options.seed, options.seed + options.sessions),
        exploring.Settings(loops=options.loop_bodies, compiles=not options.evaluated),
        timeout=options.timeout,
        deadline=deadline,
        report_progress=report_progress,
    )
    print(exploring.summary(report, time.monotonic() - start))
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
