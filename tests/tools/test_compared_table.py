"""Public functions agree with JAX in values, dtypes, weak types and shapes, eager and jitted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")

from gnomon.tools.fuzz.running import GNOMON, JAX
from tests.newest_jax import IS_NEWEST, NEW_FUNCTIONS
from tests.tools import compared_samples
from tests.tools.compared_table import (
    HEADER,
    PLACES,
    TITLES,
    compared_rows,
    functions,
    rows,
    section,
    unexplained,
)


@pytest.mark.slow
def test_differences_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong value, a wrong type and an error are reported; correct results are not."""
    theirs, ours = JAX.namespace["gnp"], GNOMON.namespace["gnp"]
    cos = ours.cos

    def wrong(x: Any) -> Any:
        return cos(x) * 1.001

    def refuses(x: Any) -> Any:
        raise NotImplementedError("not here")

    monkeypatch.setattr(ours, "cos", wrong)
    monkeypatch.setattr(ours, "tan", refuses)
    monkeypatch.setattr(ours, "isnan", lambda x: ours.zeros_like(x, "int32"))
    names = ("sin", "cos", "tan", "isnan")
    table = compared_rows([(f"gnp.{name}", getattr(theirs, name)) for name in names])
    found = {row.name: unexplained(row) for row in table}
    assert not found["gnp.sin"]
    assert "values" in found["gnp.cos"][0]
    assert "not here" in found["gnp.tan"][0]
    assert "types" in found["gnp.isnan"][0]


def test_the_samples_are_of_functions() -> None:
    """Every sample belongs to an existing function."""
    names = {name for place in PLACES for name, _ in functions(place)} | NEW_FUNCTIONS
    assert set(compared_samples.SPECIAL) <= names
    assert not set(compared_samples.LEFT_OUT) & set(compared_samples.SPECIAL)


@pytest.fixture(scope="module")
def page() -> dict[str, str]:
    """The parts of docs/compared.md by their titles."""
    text = (Path(__file__).parents[2] / "docs" / "compared.md").read_text(encoding="utf-8")
    parts = text.removeprefix(HEADER).split("\n## ")
    return {part.partition("\n")[0]: f"\n## {part.rstrip()}" for part in parts[1:]}


def test_the_page_has_every_function(page: dict[str, str]) -> None:
    assert list(page) == [TITLES.get(place, place) for place in PLACES]
    for place in PLACES:
        listed = re.findall(r"^\| `(\S+)` \|", page[TITLES.get(place, place)], re.MULTILINE)
        names = [name.removeprefix(f"{place}.") for name, _ in functions(place)]
        kept = [name for name in names if f"{place}.{name}" not in compared_samples.LEFT_OUT]
        newer = {name for name in listed if f"{place}.{name}" in NEW_FUNCTIONS} - {*names}
        assert [name for name in listed if name not in newer] == kept


# The script that writes the table does not turn warnings of JAX into errors.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("place", PLACES)
def test_functions_agree_with_jax(place: str, page: dict[str, str]) -> None:
    """Differences have a reason, and the page shows the verdicts."""
    table = list(rows(place))
    wrong = [text for row in table for text in unexplained(row)]
    assert not wrong, "\n".join(wrong)
    if IS_NEWEST:  # older versions of JAX lack functions of the page
        assert section(place, table) == page[TITLES.get(place, place)]
