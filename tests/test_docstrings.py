"""The sections of docstrings keep their layout: a title on its own line, one entry after another.

An editor or a script that joins the lines of a paragraph also joins the title of the next section
to it. The documentation site then shows ``Raises:`` as a part of the last argument's description.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

_TITLES = "Args|Attributes|Example|Examples|Note|Raises|Returns|See also|Yields"
_TITLE = re.compile(rf"({_TITLES}):+")
_TITLE_IN_TEXT = re.compile(rf"\S.*\b({_TITLES}):(\s|$)|^\s*({_TITLES}): ")
_ENTRY = re.compile(r"  (\S.*)")
_CONTINUATION = re.compile(r" {4,}\S.*")
_ARGUMENTS = re.compile(r"([*\w]+(?:, [*\w]+)*):(?:\s|$)")
_ERRORS = re.compile(r"[\w.]+(?:,? (?:or )?[\w.]+)*:(?:\s|$)")
_NAME_IN_TEXT = re.compile(r"[.;] (\w+): ")
_ERROR_IN_TEXT = re.compile(r"[.;] [A-Z]\w+(?:, [A-Z]\w+)*: ")

_Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def documented() -> Iterator[tuple[str, _Documented, str]]:
    """The place, the definition and the docstring of everything that has one."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for path in listed.stdout.split():
        source = (ROOT / path).read_text()
        # To parse all files takes most of the time, and half of them have no section.
        if not _TITLE.search(source):
            continue
        for node in definitions(ast.parse(source)):
            if text := ast.get_docstring(node):
                yield f"{path}:{node.lineno} {node.name}", node, text


def definitions(block: ast.AST) -> Iterator[_Documented]:
    """The functions and classes in a block. No expression is visited, which would take long."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(block, part, ()):
            if isinstance(node, _Documented):
                yield node
            yield from definitions(node)


def parameters(node: _Documented) -> set[str] | None:
    """The names of a function's parameters; None for a class or with ``**kwargs``."""
    if isinstance(node, ast.ClassDef) or node.args.kwarg:
        return None
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {a.arg for a in named} | ({arguments.vararg.arg} if arguments.vararg else set())


def misplaced(text: str, names: set[str] | None) -> Iterator[str]:
    """The lines of a docstring that do not keep the layout."""
    section = ""
    begins = False
    for line in text.splitlines():
        if found := _TITLE.fullmatch(line):
            section, begins = found[1], True
            continue
        if ":" in line and _TITLE_IN_TEXT.search(line):
            yield line
        elif line and not line.startswith(" "):
            section = ""
        elif line and section and not _fits(section, line, names, begins):
            yield line
        begins = False


def _fits(section: str, line: str, names: set[str] | None, begins: bool) -> bool:
    """Whether a line begins an entry of its section, or goes on with one."""
    entry = _ENTRY.fullmatch(line)
    if begins and entry is None:
        return False
    if section == "Args":
        if any(name in (names or ()) for name in _NAME_IN_TEXT.findall(line)):
            return False
        if entry is None:
            return _CONTINUATION.fullmatch(line) is not None
        found = _ARGUMENTS.match(entry[1])
        if found is None:
            return False
        return names is None or {name.lstrip("*") for name in found[1].split(", ")} <= names
    if section == "Raises":
        begun = _CONTINUATION.fullmatch(line) if entry is None else _ERRORS.match(entry[1])
        return begun is not None and not _ERROR_IN_TEXT.search(line)
    return True


@pytest.mark.usefixtures("_no_garbage_collection")
def test_sections_of_docstrings_keep_their_layout() -> None:
    found = {place: list(misplaced(text, parameters(node))) for place, node, text in documented()}
    assert {place: lines for place, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        "Add.\n\nArgs:\n  x: a number. Returns:\n  The sum.",
        "Add.\n\nArgs:\n  x: a number. Returns: The\n    sum.",
        "Add.\n\nArgs:\n  x: a number; 0 by\n    default. y: another.",
        "Add.\n\nArgs:\n  x: a number.\n  ValueError: it is negative.",
        "Add.\n\nArgs:\n  x: a number, or anything\n  like one.",
        "Add.\n\nReturns: the sum.",
        "Add.\n\nArgs:\n    x: a number.",
        "Add.\n\nRaises:\n  TypeError: it is none. ValueError: it is\n    negative.",
        "Add.\n\nRaises:\n  If it is negative.",
    ],
)
def test_a_section_that_was_joined_to_a_paragraph_is_found(text: str) -> None:
    assert list(misplaced(text, {"x", "y"}))


def test_sections_as_they_should_be_are_not_reported() -> None:
    text = (
        "Add.\n\nArgs:\n  x, y: numbers, or\n    arrays.\nReturns:\n  The sum.\n"
        "Raises:\n  ValueError: one is negative.\n  gnomon.errors.Error: both are."
    )
    assert not list(misplaced(text, {"x", "y"}))
