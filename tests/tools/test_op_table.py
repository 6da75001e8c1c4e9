"""docs/ops.md agrees with the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.mlir import context, ir
from gnomon.tools.op_table import main, table

PAGE = Path(__file__).parents[2] / "docs" / "ops.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == table(), "run: python -m gnomon.tools.op_table > docs/ops.md"


def test_the_page_has_a_section_with_attributes_and_example_for_each_op() -> None:
    _, *sections = PAGE.read_text().split("\n### ")
    for section, (name, op) in zip(sections, sorted(REGISTRY.items()), strict=True):
        head, example = section.split("\n```mlir\n")
        title, _, attributes = head.partition("\n")
        assert title == f"`{op.name}`"
        assert all(f"`{a}: {kind.name}`" in attributes for a, kind in op.attributes.items())
        assert name in example


def test_a_name_prints_the_example_as_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan"]) == 0
    module = ir.Module.parse(capsys.readouterr().out, context())
    assert module.operation.verify()
    assert main(["no_op"]) == 1
    assert "no_op" in capsys.readouterr().err
