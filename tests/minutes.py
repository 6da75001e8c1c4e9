"""The time that each folder of tests takes, beside the time that it should take.

With ``GNOMON_MINUTES`` set, as `.ci/run` sets it, the summary ends with a table: the minutes of
each folder, added up over all workers, beside the minutes in `tests/minutes.json`. The median ratio
of the two says how slow this machine is, and the minutes of the file are multiplied by it. A folder
that takes more than a tenth longer than that is printed in red.

``GNOMON_MINUTES=update`` writes the measured minutes into the table: do this on two quiet cores.
"""

from __future__ import annotations

import json
import os
import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

TABLE = Path(__file__).with_name("minutes.json")
# Folders below these are listed one by one.
_DIVIDED = frozenset({"tests", "tests/backends", "tests/backends/iree"})
# A folder may grow by this factor, and by this many minutes, which noise alone can cause.
GROWTH = 1.1
NOISE = 0.2


def folder_of(nodeid: str) -> str:
    """The folder that a test is listed under; files of a divided folder are its own row."""
    parts = nodeid.partition("::")[0].split("/")[:-1]
    depth = 1
    while depth < len(parts) and "/".join(parts[:depth]) in _DIVIDED:
        depth += 1
    return "/".join(parts[:depth])


def grown(measured: Mapping[str, float], table: Mapping[str, float]) -> tuple[float, set[str]]:
    """The machine's slowness, and the folders that take longer than the table allows.

    Args:
      measured: the minutes of each folder on this machine.
      table: those that the table holds, of the machine on which it was written.
    """
    both = [name for name in measured if table.get(name, 0.0) >= NOISE]
    slowness = statistics.median(measured[name] / table[name] for name in both) if both else 1.0
    return slowness, {
        name
        for name, minutes in measured.items()
        if minutes > table.get(name, 0.0) * slowness * GROWTH + NOISE
    }


def _selection(config: pytest.Config) -> str:
    """The part of the suite that runs: the last word of ``-m`` that selects a mark."""
    return "slow" if config.getoption("-m").startswith("slow") else "default"


class Minutes:
    """A plugin that adds up the durations of tests by folder."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test; the controller receives those of all workers."""
        self.seconds[folder_of(report.nodeid)] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, or write it."""
        selection = _selection(self.config)
        measured = {name: seconds / 60 for name, seconds in sorted(self.seconds.items())}
        tables = json.loads(TABLE.read_text())
        if os.environ["GNOMON_MINUTES"] == "update":
            tables[selection] = {name: round(minutes, 1) for name, minutes in measured.items()}
            TABLE.write_text(json.dumps(tables, indent=2) + "\n")
        table = tables.get(selection, {})
        slowness, above = grown(measured, table)
        write = terminalreporter.write_line
        terminalreporter.section(f"minutes of the {selection} suite, over all workers")
        write(f"{'folder':<28}{'minutes':>8}{'table':>8}   (the table's, times {slowness:.2f})")
        for name, minutes in [*measured.items(), ("together", sum(measured.values()))]:
            expected = sum(table.values()) if name == "together" else table.get(name, 0.0)
            line = f"{name:<28}{minutes:>8.1f}{expected * slowness:>8.1f}"
            write(line + "  GREW" * (name in above), red=name in above)


def register(config: pytest.Config) -> None:
    """Count if the environment asks for it, in the process that prints the summary."""
    if "GNOMON_MINUTES" in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(Minutes(config))
