"""The documentation site leaves out no page and no public name."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from gnomon._config.options import OPTIONS, WITHOUT_EFFECT

DOCS = Path(__file__).parent.parent / "docs"


def load(name: str) -> ModuleType:
    """A module of the site's own extensions."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_extensions" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def referenced() -> list[str]:
    """The modules whose names the reference describes."""
    pages = sorted((DOCS / "reference").glob("*.md"))
    return [
        module for page in pages for module in re.findall(r"public-names:: (\S+)", page.read_text())
    ]


def test_the_reference_describes_every_public_module_once() -> None:
    api = load("public_api")
    modules = [m.__name__ for m in api.public_modules() if api.public_names(m)]
    assert {"gnomon", "gnomon.numpy", "gnomon.scipy.stats.norm"} <= set(modules)
    assert sorted(referenced()) == sorted(modules)


def test_public_modules_are_those_without_an_underscore() -> None:
    names = {m.__name__ for m in load("public_api").public_modules()}
    assert not any(part.startswith("_") for name in names for part in name.split("."))
    assert not any(name.startswith(("gnomon.dialects", "gnomon.backends")) for name in names)


def contents(index: Path) -> list[str]:
    """The patterns of pages that the tables of contents of a page list."""
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", index.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(":")]


def test_the_page_of_options_has_every_option() -> None:
    rows = [
        *(f"| `{name}` | `{o.default!r}` | {o.doc} |" for name, o in OPTIONS.items()),
        *(f"| `{name}` | {reason} |" for name, reason in WITHOUT_EFFECT.items()),
    ]
    page = (DOCS / "options.md").read_text().splitlines()
    assert [line for line in page if line.startswith("| `")] == rows


def test_the_contents_list_every_page() -> None:
    for folder in (DOCS, DOCS / "reference"):
        patterns = contents(folder / "index.md")
        pages = {path for pattern in patterns for path in folder.glob(f"{pattern}.md")}
        below = folder.rglob("*.md") if folder != DOCS else DOCS.glob("*.md")
        assert set(below) - pages == {folder / "index.md"}, "add the page to index.md"
