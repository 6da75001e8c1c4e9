"""The source files that tests and documentation pages name exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = (
    "backends",
    "commands",
    "dialects",
    "examples",
    "frontend",
    "passes",
    "runtime",
    "tests",
    "tools",
)
PATH = re.compile(rf"(?<![\w/.-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w\.(?:cpp|h|mlir|py)\b")


def cited() -> dict[str, list[str]]:
    """Every path that a test or a page names, and the files that name it."""
    patterns = ("tests/**/*.py", "tests/**/*.mlir", "docs/**/*.md", "*.md", ".github/**/*.md")
    found: dict[str, list[str]] = {}
    for file in sorted(file for pattern in patterns for file in ROOT.glob(pattern)):
        for path in PATH.findall(file.read_text(encoding="utf-8")):
            found.setdefault(path, []).append(str(file.relative_to(ROOT)))
    return found


def test_files_that_tests_and_pages_name_exist() -> None:
    found = cited()
    assert "tests/frontend/test_transformations.py" in found
    assert {path: by for path, by in found.items() if not (ROOT / path).is_file()} == {}
