"""docs/api.md: no public name of JAX is missing without a reason."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest

pytest.importorskip("jax")

from tests.newest_jax import IS_NEWEST, NEW_NAMES_LEFT_OUT, REMOVED_NAMES
from tests.tools.api_left_out import LEFT_OUT, MODULES
from tests.tools.api_table import states, table


def test_every_name_is_there_or_left_out_for_a_reason() -> None:
    unexplained = {s.title: s.unexplained for s in states() if s.unexplained}
    assert not unexplained, "say why in tests/tools/api_left_out.py, or add them"
    assert set(LEFT_OUT) <= {"*", *MODULES}


def test_the_page_lists_the_modules() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    headings = [line for line in table().splitlines() if line.startswith("| `gnomon")]
    assert len(headings) == len(MODULES)
    for module in MODULES:
        assert f"| `gnomon{'.' if module else ''}{module}` |" in page, (
            "run: python -m tests.tools.api_table > docs/api.md"
        )


def test_omitted_names_do_not_exist() -> None:
    """Names in the list of reasons must still be missing, in one of the versions of JAX."""
    elsewhere = REMOVED_NAMES if IS_NEWEST else NEW_NAMES_LEFT_OUT
    stale = [
        (state.title, pattern)
        for state in states()
        for patterns in LEFT_OUT.get(state.module, {}).values()
        for pattern in patterns.split()
        if pattern not in elsewhere.get(state.module, ())
        and not fnmatch.filter([n for names in state.left_out.values() for n in names], pattern)
    ]
    assert not stale, "they are there now: take them out of tests/tools/api_left_out.py"
