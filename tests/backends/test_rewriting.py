"""Tables of rules: what merging them says of two rules for one op."""

from __future__ import annotations

from typing import Any

import pytest

from gnomon.backends.rewriting import Narrowed, merged


def general(inst: Any) -> Any:
    return ["general"]


def special(inst: Any) -> Any:
    return ["special"] if inst == 0 else None


def test_two_rules_for_one_op_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"two rules rewrite gnomon\.sin"):
        merged({"gnomon.sin": general}, {"gnomon.cos": general, "gnomon.sin": special})
    with pytest.raises(ValueError, match="neither or both"):
        merged({"gnomon.sin": Narrowed(special)}, {"gnomon.sin": Narrowed(special)})


@pytest.mark.parametrize("narrowed_first", [True, False])
def test_a_narrowed_rule_comes_before_the_general_one(narrowed_first: bool) -> None:
    tables = [{"gnomon.sin": Narrowed(special)}, {"gnomon.sin": general}]
    rule = merged(*(tables if narrowed_first else reversed(tables)))["gnomon.sin"]
    assert rule(0) == ["special"]
    assert rule(1) == ["general"]
    with pytest.raises(ValueError, match="two rules"):
        merged({"gnomon.sin": rule}, {"gnomon.sin": general})


def test_a_narrowed_rule_alone_leaves_other_instances() -> None:
    assert merged({"gnomon.sin": Narrowed(special)})["gnomon.sin"](1) is None
