"""The explorer's page in headless Chromium: clicks, marks and a screenshot.

Skipped where there is no browser, unless ``GNOMON_REQUIRE`` holds ``browser``.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gnomon.tools.driver import main
from tests.tools.driver.browser import Tab, find_browser, open_page

pytestmark = pytest.mark.slow

_ROW = (
    "[...document.querySelectorAll('#{pane} .linked')].find(r => r.textContent.includes({text!r}))"
)
_MARKED = "[...document.querySelectorAll('#{pane} .on')].map(r => r.textContent)"


@pytest.fixture
def tab(model: Path) -> Iterator[Tab]:
    browser = find_browser()
    if browser is None:
        if "browser" in os.environ.get("GNOMON_REQUIRE", "").split(","):
            pytest.fail("GNOMON_REQUIRE names the browser, and there is none")
        pytest.skip("needs Chromium")
    assert main(["explore", f"{model}:loss", "--grad", "-o", "page.html"]) == 0
    with open_page(browser, Path("page.html").absolute().as_uri()) as tab:
        yield tab


def choose(tab: Tab, title: str) -> None:
    tab.click(
        "[...document.querySelectorAll('#stages [role=tab]')]"
        f".find(t => t.textContent.startsWith({title!r}))"
    )


def marked(tab: Tab, pane: str) -> list[str]:
    return list(tab.run(_MARKED.format(pane=pane)))


def test_a_click_marks_the_code_of_a_line_at_every_stage(tab: Tab) -> None:
    tab.click(_ROW.format(pane="source", text="gnp.tanh"))
    assert any("gnomon.tanh" in text for text in marked(tab, "stage"))
    for title, expected in (
        ("Transformed", "gnomon.dot_general"),
        ("StableHLO", "stablehlo.dot_general"),
        ("Kernels", "arith."),
        ("Graph", "dot_general"),
    ):
        choose(tab, title)
        assert any(expected in text for text in marked(tab, "stage")), title
    choose(tab, "Assembly")
    assert len(marked(tab, "stage")) > 10


def test_a_click_on_a_node_of_the_graph_marks_its_line(tab: Tab) -> None:
    choose(tab, "Graph")
    assert tab.run("document.querySelectorAll('#stage svg path').length") > 10
    tab.click(_ROW.format(pane="stage", text="tanh"))
    (line,) = marked(tab, "source")
    assert "gnp.tanh" in line


@pytest.mark.slow
def test_the_page_can_be_seen(tab: Tab, tmp_path: Path) -> None:
    plt = pytest.importorskip("matplotlib.image")
    before = plt.imread(io.BytesIO(tab.screenshot()))
    assert before.shape[0] > 500 and before.shape[1] > 1000
    shades = np.unique((before[..., :3] * 255).astype(int).reshape(-1, 3), axis=0)
    assert len(shades) > 20
    tab.click(_ROW.format(pane="source", text="gnp.tanh"))
    after = plt.imread(io.BytesIO(tab.screenshot()))
    assert np.mean(np.any(before != after, axis=-1)) > 0.005
