"""What gnomon knows of IREE's insides is in one package, and for one version."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnomon.backends.errors import BackendUnavailable, CompilerUnavailable
from gnomon.backends.iree import compiler
from gnomon.backends.iree.inside.versions import TESTED, check_version

ROOT = Path(__file__).parents[4]
ROOM = ROOT / "backends" / "iree" / "inside"
# The packages that know IREE, see `tests/test_imports.py`.
FOLDERS = (ROOT / "backends" / "iree", ROOT / "runtime" / "gnomon_runtime")
# The modules that may use private names of IREE.
INSIDE = (ROOM, ROOT / "runtime" / "gnomon_runtime" / "inside.py")
# Names of the standard library that begin with an underscore and are documented.
PUBLIC = frozenset({"_asdict", "_exit", "_fields", "_field_defaults", "_make", "_replace"})


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def outside_trees() -> dict[Path, ast.Module]:
    paths = (path for folder in FOLDERS for path in folder.rglob("*.py"))
    outside = (p for p in paths if not any(p == i or i in p.parents for i in INSIDE))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in outside}


def own_names(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines or assigns, as attributes too, and the strings of slots."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def foreign_names(tree: ast.Module, own: frozenset[str]) -> Iterator[str]:
    """The private names that a module uses although no module of gnomon defines them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            yield node.attr
        elif isinstance(node, ast.Import):
            yield from (n.name for n in node.names if is_private_module(n.name))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = (f"{node.module}.{n.name}" for n in node.names)
            yield from (name for name in names if is_private_module(name))
        elif isinstance(node, ast.Constant) and is_private_module(str(node.value)):
            yield node.value  # a module that is imported by name


def is_private_module(name: str) -> bool:
    """Whether a name is that of a private module of IREE, or of something in one."""
    return re.fullmatch(r"iree(\.\w+)*\._\w+(\.\w+)*", name) is not None


TREES = outside_trees()
OWN = frozenset(name for tree in TREES.values() for name in own_names(tree)) | PUBLIC


def test_only_this_package_uses_private_names_of_iree() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in TREES.items()
        for name in foreign_names(tree, OWN)
    }
    assert found == set()


@pytest.mark.parametrize(
    "source",
    [
        "from iree.runtime import _binding",
        "import iree._runtime_libs",
        "Deferred('iree.runtime._binding')",
        "invocation._inv_p",
        "rt._binding.disable_leak_checker()",
    ],
)
def test_a_private_name_is_noticed(source: str) -> None:
    assert list(foreign_names(ast.parse(source), OWN))


def test_the_documentation_lists_every_module() -> None:
    text = (ROOT / "docs" / "iree.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", text.partition("\n## Inside IREE\n")[2], re.MULTILINE)
    listed = {name.strip("`") for row in rows for name in row.split(", ")}
    assert listed == {path.stem for path in ROOM.glob("*.py")} - {"__init__", "versions"}


def test_the_requirements_are_the_tested_version() -> None:
    major, minor = map(int, TESTED.split("."))
    bounds = f">={major}.{minor},<{major}.{minor + 1}"
    for file in (ROOT / "pyproject.toml", ROOT / "runtime" / "pyproject.toml"):
        required = re.findall(r'"iree-base-\w+([^"]*)"', file.read_text(encoding="utf-8"))
        assert required and set(required) == {bounds}


@pytest.mark.parametrize("version", ["3.13.0", "3.13.1", "3.13.0rc20261016"])
def test_releases_of_the_tested_version_are_taken(version: str) -> None:
    check_version("iree-base-runtime", version, BackendUnavailable)


@pytest.mark.parametrize("version", ["3.14.0", "3.12.0", "3.130.0", "4.13.0"])
def test_the_compiler_of_another_version_is_refused(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda package: version)
    compiler.compiler_version.cache_clear()
    try:
        with pytest.raises(CompilerUnavailable) as raised:
            compiler.compiler_version()
    finally:
        compiler.compiler_version.cache_clear()
    assert str(raised.value) == (
        f"iree-base-compiler {version} is installed, but this gnomon works with {TESTED} only: "
        f"`pip install 'iree-base-compiler=={TESTED}.*'` installs that"
    )


OTHER_RUNTIME = """
from iree.runtime import version
version.VERSION = "3.14.0"
import gnomon
try:
    gnomon.jit(lambda x: x + 1)(1.0)
except gnomon.errors.BackendUnavailable as error:
    print(error)
"""


def test_the_runtime_of_another_version_is_refused() -> None:
    command = [sys.executable, "-c", OTHER_RUNTIME]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert output == (
        f"iree-base-runtime 3.14.0 is installed, but this gnomon works with {TESTED} only: "
        f"`pip install 'iree-base-runtime=={TESTED}.*'` installs that\n"
    )
