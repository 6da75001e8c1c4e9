"""The explorer's page, parsed as HTML, and its contents."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.tools.driver import main
from tests.tools.driver.conftest import MODEL, model_in

_VOID = {"meta", "link", "br", "img", "input"}


class Page(HTMLParser):
    """The elements of a page, which must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in _VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]][-1] += data

    @property
    def data(self) -> Any:
        return json.loads(self.texts["script"][0])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the model's loss, with the model beside it."""
    folder = tmp_path_factory.mktemp("explored")
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(said):
        for model in model_in(folder, patch):
            assert main(["explore", f"{model}:loss", "--grad", "-o", "page.html"]) == 0
    assert "page.html: ops by stage: Traced " in said.getvalue()
    return folder / "page.html"


@pytest.fixture(scope="module")
def page(file: Path) -> Page:
    return Page(file.read_text(encoding="utf-8"))


def test_the_page_is_self_contained(page: Page) -> None:
    assert not [value for name, value in page.attributes if name in ("src", "href")]
    script = page.texts["script"][1]
    for word in ("fetch", "XMLHttpRequest", "import(", "https:", "innerHTML", "eval("):
        assert word not in script
    # The name of SVG's namespace is not an address.
    assert re.findall(r'"http:[^"]*"', script) == ['"http://www.w3.org/2000/svg"']
    used = set(re.findall(r'byId\("(\w+)"\)', script))
    assert used and used <= set(page.ids)
    assert page.texts["title"] == ["loss"]


def test_every_stage_is_linked_with_the_source(page: Page) -> None:
    data = page.data
    (source,) = data["files"]
    assert source["lines"] == MODEL.splitlines()
    predict = next(i for i, line in enumerate(source["lines"], 1) if "tanh" in line)
    mean = next(i for i, line in enumerate(source["lines"], 1) if "gnp.mean" in line)
    stages = {stage["name"]: stage for stage in data["stages"]}
    names = ["traced", "expanded", "legalized", "stablehlo", "kernels", "assembly"]
    assert list(stages) == names
    for name in ("kernels", "assembly"):
        assert {row["line"] for row in stages[name]["lines"]} >= {None, predict}
    assert any("arith." in row["text"] for row in stages["kernels"]["lines"] if row["line"])
    for name, op, line in (
        ("traced", "gnomon.tanh", predict),
        ("expanded", "gnomon.dot_general", predict),
        ("legalized", "gnomon.dot_general", predict),
        ("stablehlo", "stablehlo.dot_general", predict),
        ("traced", "gnomon.reduce_sum", mean),
        ("expanded", "gnomon.sub", mean),
    ):
        lines = stages[name]["lines"]
        assert {row["line"] for row in lines if row["op"] == op} >= {line}, (name, op)
    text = "\n".join(row["text"] for row in stages["traced"]["lines"])
    assert "gnomon.vjp" in text and "loc(" not in text
    # Reverse mode adds a product, for the gradient by w, at the same line.
    count = sum(row["op"] == "gnomon.dot_general" for row in stages["expanded"]["lines"])
    assert count == 2
    assert {(cost["line"]) for cost in data["costs"]} == {predict, mean}
    assert all(cost["flops"] > 0 for cost in data["costs"])


def test_passes_show_what_they_change(page: Page) -> None:
    passes = {step["name"]: step for step in page.data["passes"]}
    expanded = passes["expand-transformations"]
    assert expanded["after"] > expanded["before"]
    assert any(line.startswith("-") and "gnomon.vjp" in line for line in expanded["diff"])
    assert any(
        line.startswith("+") and "stablehlo." in line
        for line in passes["lower-to-stablehlo"]["diff"]
    )
    assert passes["split-scans"]["diff"] == []


def test_the_source_cannot_end_the_script(tmp_path: Path) -> None:
    path = tmp_path / "hostile.py"
    path.write_text(
        "import gnomon.numpy as gnp\n\n\ndef f(x):\n"
        "    return gnp.sin(x)  # </script><script>alert(1)</script> <!-- \u2028\n"
    )
    assert main(["explore", f"{path}:f", "--args=f32[2]", "-o", str(tmp_path / "p.html")]) == 0
    page = Page((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert len(page.texts["script"]) == 2
    assert "</script><script>alert(1)" in page.data["files"][0]["lines"][4]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_clicks_mark_lines_and_operations(file: Path) -> None:
    program = Path(__file__).with_name("explorer_in_node.js")
    command = ["node", str(program), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    titles = [tab.partition(" (")[0] for tab in found["tabs"]]
    stages = ["Traced", "Transformed", "Legalized", "StableHLO", "Kernels", "Assembly"]
    assert titles == [*stages, "Graph", "Passes"]
    assert [re.findall(r"gnomon\.(\w+)", text) for text in found["traced"]] == [
        ["dot_general"],
        ["broadcast_in_dim"],
        ["add"],
        ["tanh"],
    ]
    assert found["scrolledTo"] == found["traced"][0]
    assert any("stablehlo.dot_general" in text for text in found["stablehlo"])
    assert found["unmarked"] == []
    (line,) = found["source"]
    assert "return gnp.mean((predict(params, x) - y) ** 2)" in line
    assert "expand-transformations" in found["pass"] and "gnomon.vjp" in found["pass"]


@pytest.mark.slow
def test_a_lowered_function_is_explored() -> None:
    scale = gnp.arange(3.0)

    def f(x: Any) -> Any:
        return gn.lax.fori_loop(0, 4, lambda i, c: gnp.sin(c) * scale, x).sum()

    page = gn.jit(f).lower(gnp.ones(3)).explore(target="vulkan")
    assert Page(str(page)).data == json.loads(json.dumps(page.data))
    assert page.data["target"] == "vulkan"
    (file,) = (i for i, one in enumerate(page.data["files"]) if one["path"] == __file__)
    # The loop's body runs four times.
    flops = {cost["flops"] for cost in page.data["costs"] if cost["file"] == file}
    assert max(flops) >= 4 * 2 * 3
    html = page._repr_html_()
    assert html.startswith("<iframe srcdoc=") and "<script" not in html
