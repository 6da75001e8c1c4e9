"""The command line of the programs: ``python -m gnomon.tools.bench.programs``."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from gnomon.tools.bench.frameworks import load_frameworks, use_platform
from gnomon.tools.bench.programs import PROGRAMS, Program
from gnomon.tools.bench.programs.measure import (
    FIGURES,
    FRAMEWORKS,
    PYTORCH_FIGURES,
    Outcome,
    run_program,
    write_bytecode,
)
from gnomon.tools.bench.programs.picture import as_picture
from gnomon.tools.bench.report import machine, seconds

PICTURE_TITLE = "time of a call, gnomon / JAX (left of 1: gnomon is faster)"
_TITLES = {
    "call": "a call",
    "cold": "first call, cold",
    "warm": "first call, from the disk",
    "memory": "peak memory",
}


def _cell(outcome: Outcome, figure: str, name: str) -> str:
    value = outcome.figures.get(figure, {}).get(name)
    if value is None:
        return "–"
    return f"{value / 2**20:.0f} MiB" if figure == "memory" else seconds(value)


def as_markdown(outcomes: Sequence[Outcome], pytorch: bool = False) -> str:
    """The table, with the geometric means of its ratios, and a description of each row.

    Args:
      pytorch: whether to add the columns of PyTorch.
    """
    pytorch_figures = PYTORCH_FIGURES if pytorch else ()
    titles = ["program"]
    for figure in FIGURES:
        titles += [_TITLES[figure], "JAX", "ratio"]
    for figure in pytorch_figures:
        titles += [f"PyTorch, {_TITLES[figure]}", "ratio"]
    lines = [f"| {' | '.join(titles)} |", "|---|" + "---:|" * (len(titles) - 1)]
    for outcome in outcomes:
        cells = [f"`{outcome.program.name}`"]
        for figure in FIGURES:
            cells += [_cell(outcome, figure, name) for name in FRAMEWORKS]
            cells.append(_ratio(outcome.ratio(figure)))
        for figure in pytorch_figures:
            cells += [_cell(outcome, figure, "torch"), _ratio(outcome.ratio(figure, "torch"))]
        lines.append(f"| {' | '.join(cells)} |")
    means = ["geometric mean"]
    for figure in FIGURES:
        means += ["", "", _mean([o.ratio(figure) for o in outcomes])]
    for figure in pytorch_figures:
        means += ["", _mean([o.ratio(figure, "torch") for o in outcomes])]
    lines += [f"| {' | '.join(means)} |", ""]
    lines += [f"- `{o.program.name}`: {o.program.doc}" for o in outcomes]
    failed = [f"- `{o.program.name}`, {n}: {e}" for o in outcomes for n, e in o.errors.items()]
    if failed:
        lines += ["", "Not measured:", "", *failed]
    return "\n".join(lines) + "\n"


def _ratio(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"


def _mean(ratios: Sequence[float | None]) -> str:
    """The geometric mean of the ratios that there are."""
    logarithms = [math.log(ratio) for ratio in ratios if ratio]
    return f"**{math.exp(statistics.fmean(logarithms)):.2f}**" if logarithms else "–"


def select(patterns: Sequence[str]) -> list[Program]:
    """The programs whose names or families match; all without patterns.

    Raises:
      ValueError: a pattern matches no program.
    """
    for pattern in patterns:
        if not any(_matches(p, pattern) for p in PROGRAMS):
            raise ValueError(f"no program is called {pattern!r}; --list shows them")
    return [p for p in PROGRAMS if not patterns or any(_matches(p, x) for x in patterns)]


def _matches(program: Program, pattern: str) -> bool:
    return pattern == program.name.split("/")[0] or fnmatchcase(program.name, pattern)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; the exit status is 1 if a program failed or the frameworks disagreed."""
    parser = argparse.ArgumentParser(
        prog="python -m gnomon.tools.bench.programs",
        description="First calls, calls and memory of programs, in gnomon, JAX and PyTorch.",
    )
    parser.add_argument("--list", action="store_true", help="list the programs")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="run this one")
    parser.add_argument("--colds", type=int, default=1, help="first calls with an empty cache")
    parser.add_argument("--turns", type=int, default=5, help="turns of each framework")
    parser.add_argument("--turn", type=float, default=0.1, metavar="SECONDS", help="of a turn")
    parser.add_argument("--platform", default="cpu", metavar="NAME", help="cpu, cuda, ...")
    parser.add_argument(
        "--no-warm", action="store_true", help="no first calls from the disk, which take long"
    )
    parser.add_argument(
        "--pytorch", action="store_true", help="add calls and memory of PyTorch (eager)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the table to FILE")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw the ratios of calls to FILE, as SVG"
    )
    given = parser.parse_args(arguments)
    try:
        programs = select(given.only)
    except ValueError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if given.list:
        width = max(len(p.name) for p in programs)
        print("\n".join(f"{p.name:{width}}  {p.doc}" for p in programs))
        return 0
    use_platform(given.platform)
    names = [*FRAMEWORKS, "torch"] if given.pytorch else list(FRAMEWORKS)
    found, missing = load_frameworks(names)
    if "torch" in missing:
        print(f"bench: {missing['torch']}", file=sys.stderr)
        return 2
    facts = "\n".join(f"- {key}: {value}" for key, value in machine(found, missing).items())
    try:
        write_bytecode(programs[0], given.platform)
    except RuntimeError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    outcomes: list[Outcome] = []
    text = ""
    for program in programs:
        outcome = run_program(
            program,
            colds=given.colds,
            turns=given.turns,
            turn_s=given.turn,
            platform=given.platform,
            warm=not given.no_warm,
            pytorch=given.pytorch,
        )
        outcomes.append(outcome)
        ratios = [f"{figure} {r:.2f}" for figure in FIGURES if (r := outcome.ratio(figure))]
        ratios += [f"PyTorch {r:.2f}"] if (r := outcome.ratio("call", "torch")) else []
        ratios += [f"{name}: {error}" for name, error in outcome.errors.items()]
        print(f"{program.name}: {', '.join(ratios)}", file=sys.stderr, flush=True)
        text = f"{facts}\n\n{as_markdown(outcomes, given.pytorch)}"
        if given.output:  # after each program, so that a run that is cut short leaves a table
            given.output.write_text(text, encoding="utf-8")
    print(text)
    if given.picture:
        drawn = {o.program.name: r for o in outcomes if (r := o.ratio("call"))}
        given.picture.write_text(as_picture(drawn, PICTURE_TITLE), encoding="utf-8")
    return 1 if any(outcome.errors for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
