"""Tables of rules: the errors of merging two rules for one op."""

from __future__ import annotations

from typing import Any

import pytest

from gnomon.backends.rewriting import SpecialCase, merged


def general(inst: Any) -> Any:
    return ["general"]


def special(inst: Any) -> Any:
    return ["special"] if inst == 0 else None


def test_two_rules_for_one_op_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"two rules rewrite gnomon\.sin"):
        merged({"gnomon.sin": general}, {"gnomon.cos": general, "gnomon.sin": special})
    with pytest.raises(ValueError, match="exactly one of them"):
        merged({"gnomon.sin": SpecialCase(special)}, {"gnomon.sin": SpecialCase(special)})


@pytest.mark.parametrize("special_first", [True, False])
def test_a_special_case_comes_before_the_general_one(special_first: bool) -> None:
    tables = [{"gnomon.sin": SpecialCase(special)}, {"gnomon.sin": general}]
    rule = merged(*(tables if special_first else reversed(tables)))["gnomon.sin"]
    assert rule(0) == ["special"]
    assert rule(1) == ["general"]
    with pytest.raises(ValueError, match="two rules"):
        merged({"gnomon.sin": rule}, {"gnomon.sin": general})


def test_a_special_case_alone_leaves_other_instances() -> None:
    assert merged({"gnomon.sin": SpecialCase(special)})["gnomon.sin"](1) is None
