"""docs/legalizations.md agrees with the list of legalizations."""

from __future__ import annotations

from pathlib import Path

from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.tools.legalization_table import table

PAGE = Path(__file__).parents[2] / "docs" / "legalizations.md"


def test_the_page_is_up_to_date() -> None:
    command = "python -m gnomon.tools.legalization_table > docs/legalizations.md"
    assert PAGE.read_text() == table(), f"run: {command}"


def test_the_page_has_a_line_for_each_legalization() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert len(lines) == len(LEGALIZATIONS)
    for one in LEGALIZATIONS:
        assert sum(line.startswith(f"| `{one.name}` | {one.kind.value} |") for line in lines) == 1
