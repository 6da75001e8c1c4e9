"""The command line of the benchmarks: ``python -m gnomon.tools.bench``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console

from gnomon.tools.bench.frameworks import TITLES, load_frameworks, use_platform
from gnomon.tools.bench.measure import QUICK, THOROUGH, Row, run_workload
from gnomon.tools.bench.report import as_json, as_markdown, machine, print_table, seconds
from gnomon.tools.bench.workload import Workload
from gnomon.tools.bench.workloads import WORKLOADS


def select(names: Sequence[str]) -> list[Workload]:
    """The workloads with the given names, families or patterns; all if none is given.

    Raises:
      ValueError: a name matches no workload.
    """
    if not names:
        return list(WORKLOADS)
    chosen = []
    for name in names:
        found = [w for w in WORKLOADS if name == w.family or fnmatchcase(w.name, name)]
        if not found:
            families = ", ".join(dict.fromkeys(w.family for w in WORKLOADS))
            raise ValueError(
                f"no workload is called {name!r}: pass a name from --list, a pattern such as "
                f"'eager/*', or a family ({families})"
            )
        chosen += found
    return list(dict.fromkeys(chosen))


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m gnomon.tools.bench",
        description="Runs the same workloads through gnomon and its peers, and compares the times.",
    )
    parser.add_argument("--list", action="store_true", help="list the workloads with descriptions")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="a workload, a family, or a pattern such as 'matmul/*'; may be repeated",
    )
    parser.add_argument(
        "--framework",
        action="append",
        choices=sorted(TITLES),
        help="compare only these; may be repeated (default: all that are installed)",
    )
    parser.add_argument("--platform", metavar="NAME", help="compare on this platform, such as cuda")
    parser.add_argument("--quick", action="store_true", help="few and short rounds")
    parser.add_argument(
        "--output",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="write the table to FILE, as JSON if it ends with .json, otherwise as Markdown",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; the exit status is 1 if a workload failed or frameworks disagreed."""
    options = parse_arguments(arguments)
    console = Console()
    errors = Console(stderr=True)
    try:
        workloads = select(options.only)
    except ValueError as error:
        errors.print(f"bench: {error}", style="red", markup=False)
        return 2
    if options.list:
        width = max(len(w.name) for w in workloads)
        for workload in workloads:
            peers = ", ".join(TITLES[name] for name in workload.setups)
            print(f"{workload.name:{width}}  {workload.doc} ({peers})")
        return 0

    if options.platform:
        use_platform(options.platform)
    frameworks, missing = load_frameworks(options.framework)
    effort = QUICK if options.quick else THOROUGH
    facts = machine(frameworks, missing)
    for key, value in facts.items():
        console.print(f"{key}: {value}", markup=False, highlight=False)
    rows: list[Row] = []
    for workload in workloads:
        with errors.status(workload.name):
            row = run_workload(workload, frameworks, effort)
        rows.append(row)
        times = ", ".join(f"{n} {seconds(m.median)}" for n, m in row.measurements.items())
        errors.print(f"{workload.name}: {times}", markup=False, highlight=False)
        for name, message in row.errors.items():
            errors.print(f"  {name}: {message}", style="red", markup=False)
    print_table(rows, frameworks, console)
    for path in options.output:
        if path.suffix == ".json":
            path.write_text(as_json(rows, frameworks, facts, effort), encoding="utf-8")
        else:
            path.write_text(as_markdown(rows, frameworks, facts), encoding="utf-8")
    return 1 if any(row.errors for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
