"""Type checkers read the public interface: they report a user's mistakes, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent

Lines = set[int]


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages laid out as they are installed, which checkers cannot find."""
    folder = tmp_path_factory.mktemp("layout")
    package = folder / "gnomon"
    package.mkdir()
    for entry in (ROOT / "frontend" / "gnomon").iterdir():
        if entry.suffix in (".py", ".pyi", ".typed") or (entry / "__init__.py").is_file():
            (package / entry.name).symlink_to(entry)
    for name in ("dialects", "passes", "backends", "tools"):
        (package / name).symlink_to(ROOT / name)
    return folder


def checked_by_mypy(file: Path, layout: Path) -> tuple[Lines, str]:
    config = layout / "mypy.ini"
    config.write_text(
        "[mypy]\nmypy_path = " + str(layout) + "\n"
        "follow_imports = silent\nignore_missing_imports = True\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(config), str(file)]
        + ["--cache-dir", str(layout / "cache")],
        capture_output=True,
        text=True,
        check=False,
        cwd=layout,
        timeout=400,
    )
    found = re.findall(rf"{re.escape(file.name)}:(\d+): error", done.stdout)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return set(map(int, found)), done.stdout


def checked_by_pyright(file: Path, layout: Path) -> tuple[Lines, str]:
    (layout / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "standard", "extraPaths": [str(layout)]})
    )
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(layout), str(file)],
        capture_output=True,
        text=True,
        check=False,
        cwd=layout,
        timeout=400,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [one for one in found if one["severity"] == "error"]
    return {one["range"]["start"]["line"] + 1 for one in errors}, json.dumps(errors, indent=1)


CHECKERS = [checked_by_mypy, checked_by_pyright]


@pytest.mark.parametrize("check", CHECKERS)
def test_right_code_is_let_through(
    check: Callable[[Path, Path], tuple[Lines, str]], layout: Path
) -> None:
    lines, output = check(HERE / "right.py", layout)
    assert lines == set(), output


@pytest.mark.parametrize("check", CHECKERS)
def test_mistakes_are_reported(
    check: Callable[[Path, Path], tuple[Lines, str]], layout: Path
) -> None:
    source = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    wrong = {i for i, line in enumerate(source, 1) if line.endswith("# error")}
    lines, output = check(HERE / "wrong.py", layout)
    assert lines == wrong, output
