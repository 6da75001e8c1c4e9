"""Type checkers read the public interface: they report a user's mistakes, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent

# The lines with errors, by the name of the file, and the checker's output.
Errors = tuple[dict[str, set[int]], str]


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages laid out as installed; checkers cannot find the repository's."""
    folder = tmp_path_factory.mktemp("layout")
    package = folder / "gnomon"
    package.mkdir()
    for entry in (ROOT / "frontend" / "gnomon").iterdir():
        if entry.suffix in (".py", ".pyi", ".typed") or (entry / "__init__.py").is_file():
            (package / entry.name).symlink_to(entry)
    for name in ("dialects", "passes", "backends", "tools"):
        (package / name).symlink_to(ROOT / name)
    return folder


def checked_by_mypy(files: Sequence[Path], layout: Path) -> Errors:
    config = layout / "mypy.ini"
    config.write_text(
        "[mypy]\nmypy_path = " + str(layout) + "\n"
        "follow_imports = silent\nignore_missing_imports = True\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(config), *map(str, files)]
        + ["--cache-dir", str(layout / "cache")],
        capture_output=True,
        text=True,
        check=False,
        cwd=layout,
        timeout=400,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    lines = {
        file.name: set(map(int, re.findall(rf"\b{re.escape(file.name)}:(\d+): error", done.stdout)))
        for file in files
    }
    return lines, done.stdout


def checked_by_pyright(files: Sequence[Path], layout: Path) -> Errors:
    (layout / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "standard", "extraPaths": [str(layout)]})
    )
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(layout)]
        + [*map(str, files)],
        capture_output=True,
        text=True,
        check=False,
        cwd=layout,
        timeout=400,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [one for one in found if one["severity"] == "error"]
    lines: dict[str, set[int]] = {file.name: set() for file in files}
    for one in errors:
        lines[Path(one["file"]).name].add(one["range"]["start"]["line"] + 1)
    return lines, json.dumps(errors, indent=1)


# A checker reads all of gnomon first, which takes most of its time: one run for both files.
@pytest.mark.slow
@pytest.mark.parametrize("check", [checked_by_mypy, checked_by_pyright])
def test_mistakes_are_reported_and_right_code_is_let_through(
    check: Callable[[Sequence[Path], Path], Errors], layout: Path
) -> None:
    source = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    wrong = {i for i, line in enumerate(source, 1) if line.endswith("# error")}
    lines, output = check([HERE / "right.py", HERE / "wrong.py"], layout)
    assert wrong
    assert lines == {"right.py": set(), "wrong.py": wrong}, output
