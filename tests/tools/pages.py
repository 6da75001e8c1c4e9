"""Run the programs of documentation pages, and compare what they print with the pages.

python -m tests.tools.pages            # which pages are out of date
python -m tests.tools.pages --update   # write what the programs print into the pages

The blocks of a page run in order and share their names. A ``python`` block gives what it prints and
then the value of its last line, if that is an expression. An ``sh`` block runs ``gnomon-opt``. A
``text`` or ``mlir`` block directly after one of them holds what it gives.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon.tools.opt import main as gnomon_opt

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("architecture.md", "guide.md")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A program of a page.

    Attributes:
      language: ``python`` or ``sh``.
      source: the program.
      line: the line of the page on which it begins.
      output: where the page holds what it gives; None if it does not.
    """

    language: str
    source: str
    line: int
    output: slice | None


def blocks(text: str) -> list[Block]:
    """The programs of a page, in order."""
    found = []
    fences = list(FENCE.finditer(text))
    for i, fence in enumerate(fences):
        if fence[1] not in ("python", "sh"):
            continue
        output = None
        for after in fences[i + 1 : i + 2]:
            if after[1] in ("text", "mlir") and not text[fence.end() : after.start()].strip():
                output = slice(after.start(2), after.end(2))
        line = text.count("\n", 0, fence.start(2)) + 1
        found.append(Block(fence[1], fence[2], line, output))
    return found


def run_python(source: str, page: str, line: int, names: dict[str, Any]) -> str:
    """What a program prints, then the value of its last line."""
    tree = ast.parse("\n" * (line - 1) + source, page)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, page, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), page, "eval"), names)
            if value is not None:
                print(value if isinstance(value, str) else repr(value))
    return printed.getvalue()


def run_shell(source: str) -> str:
    """What ``gnomon-opt`` prints."""
    program, *arguments = shlex.split(source)
    assert program == "gnomon-opt", source
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert gnomon_opt(arguments) == 0, source
    return printed.getvalue()


def run(page: str) -> tuple[str, str]:
    """The text of a page, and the same with what its programs give."""
    text = (DOCS / page).read_text(encoding="utf-8")
    pieces, end = [], 0
    names: dict[str, Any] = {"__name__": "page"}
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in blocks(text):
                if block.language == "python":
                    given = run_python(block.source, page, block.line, names)
                else:
                    given = run_shell(block.source)
                if block.output is not None:
                    pieces += [text[end : block.output.start], given.strip("\n") + "\n"]
                    end = block.output.stop
        finally:
            os.chdir(here)
    return text, "".join(pieces) + text[end:]


def main() -> int:
    """The entry point."""
    parser = argparse.ArgumentParser(description="Run the programs of documentation pages.")
    parser.add_argument("--update", action="store_true", help="write the pages")
    update = parser.parse_args().update
    stale = False
    for page in PAGES:
        text, given = run(page)
        if text != given:
            print(f"docs/{page}: {'updated' if update else 'out of date'}")
            stale = True
            if update:
                (DOCS / page).write_text(given, encoding="utf-8")
    return int(stale and not update)


if __name__ == "__main__":
    raise SystemExit(main())
