"""The programs of documentation pages print what the pages show."""

from __future__ import annotations

import sys

import pytest

from tests.tools.pages import PAGES, blocks, fits, run, run_python

# The commands of this page compile a dozen programs; tests/tools/driver has tests of each.
LONG = ("driver.md",)


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=pytest.mark.slow if p in LONG else ()) for p in PAGES]
)
def test_the_page_is_true(page: str) -> None:
    if page == "driver.md" and sys.version_info < (3, 11):
        pytest.skip("Python 3.10 does not tell the columns of errors")
    text, given = run(page)
    assert sum(block.output is not None for block in blocks(text)) > 5
    assert text == given, "run: python -m tests.tools.pages --update"


def test_the_output_of_a_program() -> None:
    text = "a\n```python\nx = 1\nprint(x)\nx + 1\n```\n\n```text\n0\n```\n```python\n2\n```\nb\n"
    first, second = blocks(text)
    assert text[first.output or slice(0)] == "0\n" and second.output is None
    assert run_python(first.source, "page", first.line, {}) == "1\n2\n"


def test_parts_of_an_output_may_be_left_out() -> None:
    assert fits("a ... c\n...\nend\n", "a b c\n1\n2\nend\n")
    assert fits("a ... c\n...\nend\n", "a b c\nend")
    assert not fits("a ... c\nend\n", "a\nc\nend\n")
    assert not fits("a\n...\nend\n", "a\nb\n")
