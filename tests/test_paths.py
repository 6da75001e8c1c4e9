"""Source files that tests name exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("backends", "dialects", "examples", "frontend", "passes", "tests", "tools")
PATH = re.compile(rf"(?<![\w/.-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w\.(?:cpp|h|mlir|py)\b")


def cited() -> dict[str, list[str]]:
    """Every path that a test names, and the tests that do."""
    found: dict[str, list[str]] = {}
    for test in sorted(path for end in ("py", "mlir") for path in ROOT.glob(f"tests/**/*.{end}")):
        for path in PATH.findall(test.read_text(encoding="utf-8")):
            found.setdefault(path, []).append(str(test.relative_to(ROOT)))
    return found


def test_files_that_tests_name_exist() -> None:
    found = cited()
    assert "tests/frontend/test_transformations.py" in found
    assert {path: by for path, by in found.items() if not (ROOT / path).is_file()} == {}
