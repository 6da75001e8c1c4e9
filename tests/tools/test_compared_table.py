"""Public functions agree with JAX in values, dtypes, weak types and shapes, eager and jitted."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax")

from gnomon.tools.fuzz.running import GNOMON, JAX
from tests.tools import compared_samples
from tests.tools.compared_table import PLACES, compared_rows, functions, rows, unexplained


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
    names = {name for place in PLACES for name, _ in functions(place)}
    assert set(compared_samples.SPECIAL) <= names
    assert not set(compared_samples.LEFT_OUT) & set(compared_samples.SPECIAL)


# The modules all of whose differences have a reason.
_SETTLED = ("gnp", "gnp.fft", "lax")


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=pytest.mark.slow if place in _SETTLED else pytest.mark.exhaustive)
        for place in PLACES
    ],
)
def test_functions_give_what_jax_gives(place: str) -> None:
    wrong = [text for row in rows(place) for text in unexplained(row)]
    assert not wrong, "\n".join(wrong)
