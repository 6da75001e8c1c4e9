"""``gnomon explore``: a program at every stage, as one HTML page."""

from __future__ import annotations

import argparse
import sys

from gnomon._compilation.explorer import explore
from gnomon.tools.driver.artifacts import ArtifactProgram
from gnomon.tools.driver.diagnostics import TOOLS
from gnomon.tools.driver.errors import UsageError
from gnomon.tools.driver.opening import open_program
from gnomon.tools.driver.progress import progress
from gnomon.tools.driver.requests import request_of

__all__ = ["explore_command"]


def explore_command(options: argparse.Namespace) -> None:
    """Run ``gnomon explore``."""
    program = open_program(request_of(options))
    if isinstance(program, ArtifactProgram):
        raise UsageError(
            f"{program.path}: explore takes functions and programs in MLIR, whose lines it shows"
        )
    with progress(f"{program.name}: lowering and compiling"):
        text, captures = program.traced()
        page = explore(program.name, text, captures, options.target, TOOLS, code=options.code)
    output = options.output or f"{program.name}.html"
    if output == "-":
        print(page)
        return
    page.save(output)
    stages = ", ".join(f"{stage['title']} {stage['ops']}" for stage in page.data["stages"])
    print(f"{output}: ops by stage: {stages}", file=sys.stderr)
