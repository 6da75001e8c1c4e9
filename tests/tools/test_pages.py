"""What the programs of documentation pages give is what the pages say."""

from __future__ import annotations

import pytest

from tests.tools.pages import PAGES, blocks, run, run_python


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_true(page: str) -> None:
    text, given = run(page)
    assert sum(block.output is not None for block in blocks(text)) > 5
    assert text == given, "run: python -m tests.tools.pages --update"


def test_what_a_program_gives() -> None:
    text = "a\n```python\nx = 1\nprint(x)\nx + 1\n```\n\n```text\n0\n```\n```python\n2\n```\nb\n"
    first, second = blocks(text)
    assert text[first.output or slice(0)] == "0\n" and second.output is None
    assert run_python(first.source, "page", first.line, {}) == "1\n2\n"
