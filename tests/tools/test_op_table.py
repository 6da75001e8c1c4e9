"""docs/ops.md is what the registry says."""

from __future__ import annotations

from pathlib import Path

from gnomon.tools.op_table import table


def test_the_page_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "ops.md"
    assert page.read_text() == table(), "run: python -m gnomon.tools.op_table > docs/ops.md"
