"""The directive ``example``: a program of ``examples/``, what it prints and what it draws.

    .. example:: digits.py

The build runs the program. Figures that it leaves open in matplotlib become pictures of the page.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

FOLDER = Path(__file__).parents[2] / "examples"

# Runs an example as a program; saves the figures that are open at its end.
RUN = """\
import runpy, sys
program, prefix = sys.argv[1:]
sys.argv = [program]
runpy.run_path(program, run_name="__main__")
if "matplotlib.pyplot" in sys.modules:
    pyplot = sys.modules["matplotlib.pyplot"]
    for number in pyplot.get_fignums():
        pyplot.figure(number).savefig(f"{prefix}_{number}.png", dpi=120, bbox_inches="tight")
"""


def run_example(program: Path, prefix: Path) -> str:
    """Run an example, save its figures under a prefix, and return what it printed.

    Raises:
      ExtensionError: it failed.
    """
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(program), str(prefix)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "MPLBACKEND": "Agg"},
        check=False,
    )
    if done.returncode:
        raise ExtensionError(f"{program} failed:\n{done.stderr}")
    return done.stdout


class Example(SphinxDirective):
    """An example: its docstring, what it prints and draws, and its source."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The nodes of the example."""
        program = FOLDER / self.arguments[0]
        source = program.read_text(encoding="utf-8")
        self.env.note_dependency(str(program))
        pictures = Path(self.env.app.outdir) / "_images" / "examples"
        pictures.mkdir(parents=True, exist_ok=True)
        printed = run_example(program, pictures / program.stem)

        lines = (ast.get_docstring(ast.parse(source)) or "").splitlines()
        # An indented block of a docstring is a command line.
        for i in reversed(range(len(lines))):
            if _opens_block(lines, i):
                lines[i:i] = ["::", ""]
        parent = nodes.Element()
        text = StringList(lines, str(program))
        self.state.nested_parse(text, 0, parent)
        depth = self.env.docname.count("/")
        for picture in sorted(pictures.glob(f"{program.stem}_*.png")):
            address = f"{'../' * depth}_images/examples/{picture.name}"
            html = f'<img src="{address}" alt="{program.stem}">'
            parent += nodes.raw("", html, format="html")
        if printed.strip():
            parent += nodes.literal_block(printed, printed, language="text")
        parent += nodes.literal_block(source, source, language="python")
        return parent.children


def _opens_block(lines: list[str], i: int) -> bool:
    return lines[i].startswith("    ") and (i == 0 or not lines[i - 1].startswith("    "))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("example", Example)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
