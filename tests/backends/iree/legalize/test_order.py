"""The list of legalizations: the errors of its check."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gnomon.backends.iree.legalize.control.forms import Form, forms_of
from gnomon.backends.iree.legalize.legalization import (
    EVERY_TARGET,
    Kind,
    Legalization,
    Stage,
    Targets,
    always,
    checked,
    of_stage,
    without,
)
from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.backends.iree.pipeline import legalization_passes
from gnomon.backends.iree.targets import TARGETS, find_target
from gnomon.backends.rewriting import SpecialCase

UPSTREAM = Path(__file__).parents[4] / "docs" / "upstream"


def rule(inst: Any) -> Any:
    return None


def of_sine(name: str, given: Any = rule, targets: Targets = EVERY_TARGET) -> Legalization:
    return Legalization(
        name,
        Stage.REWRITE,
        Kind.INACCURATE,
        "for the test",
        "nothing",
        targets=targets,
        rules=always({"gnomon.sin": given}),
        no_reproducer="for the test",
        no_report="for the test",
    )


def test_two_rules_for_one_op_on_one_target_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"stage REWRITE: two rules rewrite gnomon\.sin"):
        checked([of_sine("first"), of_sine("second")])


def test_the_error_names_the_target_on_which_two_rules_conflict() -> None:
    both = [
        of_sine("first", targets=Targets.where(f64=False)),
        of_sine("second", targets=Targets.where(code="msl")),
    ]
    with pytest.raises(ValueError, match="on target 'metal"):
        checked(both)


def test_a_rule_that_declares_that_it_comes_first_may_meet_another() -> None:
    checked([of_sine("first", SpecialCase(rule)), of_sine("second")])


def test_rules_of_other_targets_or_stages_do_not_meet() -> None:
    narrow = of_sine("narrow", targets=Targets.where(f64=False))
    wide = of_sine("wide", targets=Targets.where(f64=True))
    checked([narrow, wide, replace(of_sine("earlier"), stage=Stage.DECOMPOSE)])


def test_names_are_unique() -> None:
    with pytest.raises(ValueError, match="two legalizations are named 'sines'"):
        checked([of_sine("sines"), replace(of_sine("sines"), stage=Stage.PREPARE)])


def test_a_legalization_has_either_rules_or_a_run() -> None:
    with pytest.raises(ValueError, match="either rules or a run"):
        replace(of_sine("sines"), rules=None)
    with pytest.raises(ValueError, match="StableHLO"):
        replace(of_sine("sines"), stage=Stage.LOWERED)


def test_a_fault_has_a_report_or_a_reason_for_having_none() -> None:
    for given in ({"no_report": ""}, {"issue": "https://github.com/iree-org/iree/issues/1"}):
        with pytest.raises(ValueError, match="either an issue or a report"):
            replace(of_sine("sines"), **given)
    replace(of_sine("sines"), kind=Kind.SLOW, no_report="")


def test_targets_are_selected_by_their_properties() -> None:
    cpu, vulkan = TARGETS["cpu"], find_target("vulkan:portable")
    assert vulkan in Targets.where(f64=False, memory="device")
    assert cpu not in Targets.where(f64=True, memory="device")
    assert cpu in Targets.where(libm=("system", "device"))
    assert str(Targets.where(libm=("system", "device"), f64=True)) == (
        "libm = system or device, f64 = True"
    )


def test_without_leaves_legalizations_out() -> None:
    names = {one.name for one in without(LEGALIZATIONS, "sums", "steps")}
    assert names == {one.name for one in LEGALIZATIONS} - {"sums", "steps"}
    with pytest.raises(ValueError, match="no legalizations named summs"):
        without(LEGALIZATIONS, "summs")


def test_each_form_of_control_flow_is_a_legalization() -> None:
    assert forms_of(LEGALIZATIONS) == tuple(Form)
    assert forms_of(without(LEGALIZATIONS, "host-control")) == tuple(Form)[1:]


@pytest.mark.parametrize("name", ["cpu", "vulkan:portable", "cuda:sm_80", "wasm32"])
def test_every_legalization_of_a_target_is_a_pass(name: str) -> None:
    target = find_target(name)
    passes = legalization_passes(target)
    expected = {one.name for stage in Stage for one in of_stage(LEGALIZATIONS, stage, target)}
    assert set(passes) == expected | {"legalize-for-iree"}


def test_every_legalization_says_what_upstream_does() -> None:
    for one in LEGALIZATIONS:
        assert one.doc and not one.doc.endswith("."), one.name
        assert one.upstream and not one.upstream.endswith("."), one.name


def test_each_report_is_that_of_a_legalization_or_of_a_pass_of_the_worker() -> None:
    cited = {text for one in LEGALIZATIONS for text in one.texts}
    cited |= set(re.findall(r"upstream/(\w+)\.md", (UPSTREAM.parent / "iree.md").read_text()))
    assert cited == {path.stem for path in UPSTREAM.glob("*.md")}
