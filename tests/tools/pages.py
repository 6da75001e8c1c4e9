"""Run the programs of documentation pages, and compare what they print with the pages.

python -m tests.tools.pages            # which pages are out of date
python -m tests.tools.pages --update   # write what the programs print into the pages

The blocks of a page run in order and share their names. The output of a ``python`` block is what it
prints, followed by the value of its last line if that is an expression. If its first line is a
comment with the name of a file, it is written to that file instead. An ``sh`` block runs
``gnomon-opt`` or ``gnomon``. A ``text`` or ``mlir`` block directly after one of them is its output.

On the pages of `ELIDED`, ``...`` in an output matches any text within a line; a line that is just
``...`` matches any number of lines.
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

from gnomon.tools.driver import main as gnomon
from gnomon.tools.opt import main as gnomon_opt

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("architecture.md", "driver.md", "guide.md")
# The pages whose outputs depend on this machine, on versions and on times.
ELIDED = ("driver.md",)
FILE = re.compile(r"# (\w+\.py)\n")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A program of a page.

    Attributes:
      language: ``python`` or ``sh``.
      source: the program.
      line: the line of the page on which it begins.
      output: where its output is on the page; None if it is not there.
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
    """The output of a program, then the value of its last line."""
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
    """The output of ``gnomon-opt`` or ``gnomon`` on both streams, and its status if it fails."""
    program, *arguments = shlex.split(source)
    main = {"gnomon": gnomon, "gnomon-opt": gnomon_opt}[program]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        status = main(arguments)
    if program == "gnomon-opt":
        assert status == 0, source
    return printed.getvalue() + (f"[exit status {status}]\n" if status else "")


def fits(expected: str, given: str) -> bool:
    """Whether an output is the one on the page, where parts may be left out."""
    lines = []
    for line in expected.strip("\n").split("\n"):
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*")
        else:
            lines.append(".*".join(map(re.escape, line.split("..."))) + r"\n")
    return re.fullmatch("".join(lines), given.strip("\n") + "\n") is not None


def run(page: str) -> tuple[str, str]:
    """The text of a page, and the same text with the present outputs of its programs."""
    text = (DOCS / page).read_text(encoding="utf-8")
    pieces, end = [], 0
    names: dict[str, Any] = {"__name__": "page"}
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in blocks(text):
                if (file := FILE.match(block.source)) is not None:
                    Path(file[1]).write_text(block.source, encoding="utf-8")
                    continue
                if block.language == "python":
                    given = run_python(block.source, page, block.line, names)
                else:
                    given = run_shell(block.source)
                if block.output is not None:
                    if page in ELIDED and fits(text[block.output], given):
                        given = text[block.output]
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
    # Pages use a separate cache of executables, not the user's.
    with tempfile.TemporaryDirectory() as cache:
        os.environ["GNOMON_CACHE_DIR"] = cache
        return compare(update)


def compare(update: bool) -> int:
    """Name the pages that are out of date, or update them; return the exit status."""
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
