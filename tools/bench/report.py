"""Tables of the results: for the terminal, as Markdown, as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gnomon.tools.bench.frameworks import TITLES, Framework
from gnomon.tools.bench.measure import Effort, Measurement, Row

PEERS = ("jax", "numpy", "torch")
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def seconds(value: float) -> str:
    """A time with three digits and a unit: ``1.23 µs``."""
    scale, unit = next(((s, u) for s, u in _UNITS if value >= s), _UNITS[-1])
    number = value / scale
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.{digits}f} {unit}"


def _cell(row: Row, name: str) -> str:
    measurement = row.measurements.get(name)
    if measurement is not None:
        return seconds(measurement.median)
    return "failed" if name in row.errors else "–"


def _ratio(row: Row, peer: str) -> str:
    ratio = row.ratio(peer)
    return "–" if ratio is None else f"{ratio:.2f}"


def machine(frameworks: Sequence[Framework], missing: dict[str, str]) -> dict[str, str]:
    """The facts about the machine on which the figures depend."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    facts = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "CPU": f"{_cpu_name()}, {cores} cores available",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    }
    if hasattr(os, "getloadavg"):
        facts["load"] = f"{os.getloadavg()[0]:.1f} when the first round began"
    for framework in frameworks:
        facts[framework.title] = f"{framework.version}; {framework.threads}"
    for name, reason in missing.items():
        facts[TITLES[name]] = reason
    return facts


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _columns(frameworks: Sequence[Framework]) -> tuple[list[str], list[str]]:
    names = [f.name for f in frameworks]
    return names, [p for p in PEERS if p in names and "gnomon" in names]


def print_table(rows: Sequence[Row], frameworks: Sequence[Framework], console: Console) -> None:
    """Print the table on the terminal with slow ratios highlighted."""
    names, peers = _columns(frameworks)
    table = Table(header_style="bold", title="median time of one call")
    table.add_column("workload", no_wrap=True)
    for name in names:
        table.add_column(TITLES[name], justify="right", no_wrap=True)
    for peer in peers:
        table.add_column(f"gnomon / {TITLES[peer]}", justify="right")
    for row in rows:
        ratios = []
        for peer in peers:
            ratio = row.ratio(peer)
            colour = "green" if ratio is not None and ratio <= 1 else "red"
            ratios.append("–" if ratio is None else f"[{colour}]{ratio:.2f}[/{colour}]")
        table.add_row(row.workload.name, *(_cell(row, n) for n in names), *ratios)
    console.print(table)


def as_markdown(rows: Sequence[Row], frameworks: Sequence[Framework], facts: dict[str, str]) -> str:
    """A Markdown document: the machine, the table, and a description of each row."""
    names, peers = _columns(frameworks)
    titles = ["workload", *(TITLES[n] for n in names), *(f"gnomon / {TITLES[p]}" for p in peers)]
    lines = [f"- {key}: {value}" for key, value in facts.items()]
    lines += ["", f"| {' | '.join(titles)} |", f"|{'---|' + '---:|' * (len(titles) - 1)}"]
    for row in rows:
        cells = [f"`{row.workload.name}`", *(_cell(row, n) for n in names)]
        cells += [_ratio(row, p) for p in peers]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- `{row.workload.name}`: {row.workload.doc}" for row in rows)]
    problems = [f"- `{r.workload.name}`, {n}: {e}" for r in rows for n, e in r.errors.items()]
    if problems:
        lines += ["", "Not measured:", "", *problems]
    return "\n".join(lines) + "\n"


def as_json(
    rows: Sequence[Row],
    frameworks: Sequence[Framework],
    facts: dict[str, str],
    effort: Effort,
) -> str:
    """The results as JSON; times are in seconds, with quartiles."""
    _, peers = _columns(frameworks)

    def entry(row: Row) -> dict[str, object]:
        def figures(measurement: Measurement) -> dict[str, float | int]:
            return asdict(measurement)

        return {
            "name": row.workload.name,
            "doc": row.workload.doc,
            "seconds": {name: figures(m) for name, m in row.measurements.items()},
            "ratios": {peer: row.ratio(peer) for peer in peers},
            "errors": row.errors,
        }

    document = {"machine": facts, "effort": asdict(effort), "rows": [entry(row) for row in rows]}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


__all__ = ["as_json", "as_markdown", "machine", "print_table", "seconds"]
