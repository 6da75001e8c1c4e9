"""docs/targets.md has every op, every target, and a reason for each refusal."""

from __future__ import annotations

import re
from pathlib import Path

from gnomon.backends.iree.targets import target_names
from gnomon.dialects.contract import REGISTRY
from tests.tools.target_table import COLUMNS, PLUGIN, REFUSED

PAGE = (Path(__file__).parents[2] / "docs" / "targets.md").read_text()


def test_the_page_names_every_op_and_target() -> None:
    for name in REGISTRY:
        assert f"| `{name.removeprefix('gnomon.')}` |" in PAGE
    for name in target_names():
        assert f"`{name}`" in PAGE


def test_every_refusal_has_a_reason() -> None:
    rows = [line for line in PAGE.splitlines() if line.count("|") == len((*COLUMNS, PLUGIN)) + 2]
    assert len(rows) >= len(REGISTRY)
    numbers = {n for row in rows for n in re.findall(rf"{REFUSED} (\d+)", row)}
    assert numbers
    for number in numbers:
        assert re.search(rf"^{number}\. \w", PAGE, re.MULTILINE)
    assert not any(f"{REFUSED} |" in row for row in rows)
