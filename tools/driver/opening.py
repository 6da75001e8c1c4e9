"""The forms of programs that the driver takes.

model.py:loss, package.model:loss    a Python function
program.mlir, -                      text of the gnomon dialect or of StableHLO
program.mlirbc                       bytecode of StableHLO, or a portable artifact
loss.gnm, model.gnm:loss             a function of an artifact
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from gnomon.tools.driver.artifacts import ArtifactProgram, is_artifact
from gnomon.tools.driver.errors import UsageError
from gnomon.tools.driver.mlir import MlirProgram, transformed
from gnomon.tools.driver.programs import PythonProgram, Request, functions_of_file

__all__ = ["AnyProgram", "is_function", "open_program"]

AnyProgram: TypeAlias = "PythonProgram | MlirProgram | ArtifactProgram"


def is_function(path: str) -> bool:
    """Whether a path names a Python function, not a file."""
    _, colon, name = path.rpartition(":")
    return bool(colon and name) and not is_artifact(path) and not Path(path).exists()


def open_program(request: Request) -> AnyProgram:
    """Open the program of a request.

    Raises:
      DriverError: the file or the function does not exist, or the file holds no program.
    """
    path = request.path
    if is_function(path):
        head, _, name = path.rpartition(":")
        return PythonProgram.load(request, head, name)
    if path.endswith(".py"):
        functions = functions_of_file(path)
        raise UsageError(
            f"{path}: name a function of the file, as {path}:NAME; it has "
            f"{', '.join(functions) or 'none'}"
        )
    what = "an artifact" if is_artifact(path) else "MLIR"
    for given, option in (
        (request.args and is_artifact(path), "--args"),
        (request.transformations and is_artifact(path), "transformations"),
        (request.static, "--static"),
    ):
        if given:
            raise UsageError(f"{option} applies to Python functions, but {path} is {what}")
    if is_artifact(path):
        return ArtifactProgram(path)
    return transformed(request) if request.transformations else MlirProgram(path, request.args)
