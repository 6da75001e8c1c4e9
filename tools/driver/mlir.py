"""Programs in MLIR: text of the gnomon dialect or of StableHLO, bytecode, portable artifacts.

StableHLO is raised to the gnomon dialect when it is read, so all programs are of that dialect.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gnomon
from gnomon._export.programs import save_program
from gnomon.backends.bytecode import MAGIC, BytecodeError
from gnomon.backends.compilation import Artifact
from gnomon.backends.foreign import read_program
from gnomon.backends.platforms import backend
from gnomon.backends.reference import Evaluator
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.dialects.types import TensorType
from gnomon.passes.refine_stablehlo import Argument
from gnomon.tools.driver.errors import DriverError, UsageError
from gnomon.tools.driver.programs import (
    Leaf,
    LoweredProgram,
    PythonProgram,
    Request,
    compiler_of,
    remembering,
)
from gnomon.tools.driver.specifications import Arguments, parse_arguments
from gnomon.tools.driver.transformations import add_batch_dimensions
from gnomon.tools.source_lines import describe_parse_error

__all__ = ["MlirProgram", "read_text", "transformed"]


class MlirProgram:
    """A program of the gnomon dialect, whose public function is ``main``.

    Attributes:
      path: the path of the file, or ``-``.
      name: the name of the file without its suffix.

    Args:
      path: see above.
      given: the specification of the arguments, for StableHLO whose types leave sizes open.
    """

    def __init__(self, path: str, given: str | None = None) -> None:
        self.path = path
        self.name = "program" if path == "-" else Path(path).stem
        ensure_context()
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        # The parser calls its input "-".
        known = None if given is None else _known_arguments(given)
        self._text = read_text(data, path, known).replace('loc("-":', f'loc("{path}":')
        program = self._program()
        if "main" not in program:
            names = ", ".join(sorted(program.names)) or "none"
            raise DriverError(f"{path}: no function @main (the module has {names})")
        signature = program.signature("main")
        self.arguments = [Leaf(f"arg{i}", type_) for i, type_ in enumerate(signature.arguments)]
        count = len(signature.results)
        self.results = [
            Leaf("result" if count == 1 else str(i), type_)
            for i, type_ in enumerate(signature.results)
        ]

    def _program(self) -> Program:
        return Program(ir.Module.parse(self._text, context()))

    def traced(self) -> tuple[str, Sequence[Any]]:
        """The program with locations; it takes no arrays besides its arguments."""
        return self._text, ()

    def save(self, path: str, targets: Sequence[str]) -> None:
        """Write the program into an artifact, compiled for targets."""
        save_program(path, self.name, self._program(), targets=targets)

    def lower(self, target: str) -> LoweredProgram:
        """Lower the program for a target."""
        compiler, rest = compiler_of(target)
        return LoweredProgram(target, compiler, rest, self.artifact_for(compiler))

    def artifact_for(self, compiler: Any) -> Artifact:
        """The program lowered by a backend."""
        artifact: Artifact = compiler.lower(self._program(), keep_stages=True)
        return artifact

    def caller(self, device: str | None) -> Callable[[Sequence[Any]], list[Any]]:
        """A function that runs the compiled program on arrays and returns the results in order."""
        runner = backend(device)
        artifact = self.artifact_for(runner)
        lowered = LoweredProgram(runner.platform, runner, "", artifact)
        with remembering(lambda: lowered):
            executable = runner.compile(artifact)
        return lambda arrays: list(executable([np.asarray(a) for a in arrays]))

    def evaluate(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Evaluate the program with NumPy, without compiling."""
        return [np.asarray(r) for r in Evaluator(self._program())("main", *arrays)]


def transformed(request: Request) -> PythonProgram:
    """A transformed program, as a function of its arrays.

    Raises:
      DriverError: the program cannot be read.
    """
    path = request.path
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    known = None if request.args is None else _known_arguments(request.args)
    # Like the program itself, without the transformations: its errors name the line.
    text = read_text(data, path, known)
    ensure_context()
    signature = Program(ir.Module.parse(text, context())).signature("main")
    types = [gnomon.ShapeDtypeStruct(t.shape, t.dtype) for t in signature.arguments]
    given = add_batch_dimensions(types, request.transformations, request.batch_size)
    name = "program" if path == "-" else Path(path).stem
    return PythonProgram(
        request, name, gnomon.import_stablehlo(text.encode()), Arguments(tuple(given), {})
    )


def _known_arguments(given: str) -> list[Argument]:
    """What a specification of arguments says: their types, and the values of integers."""
    arguments = parse_arguments(given)
    if arguments.by_name:
        raise UsageError("--args: the arguments of a program in MLIR have no names")
    known = []
    for argument in arguments.positional:
        if isinstance(argument, gnomon.ShapeDtypeStruct):
            known.append(Argument(TensorType(tuple(argument.shape), np.dtype(argument.dtype))))
        elif isinstance(argument, int) and not isinstance(argument, bool):
            known.append(Argument(None, argument))
        else:
            raise UsageError(
                "--args: a program in MLIR takes types and integers on which sizes depend"
            )
    return known


def read_text(data: bytes, path: str, arguments: Sequence[Argument] | None = None) -> str:
    """The text of a program in the gnomon dialect, from a file of any of the forms.

    Args:
      data: the contents of the file.
      path: its path, for messages.
      arguments: what is known of the arguments of a program whose types leave sizes open.

    Raises:
      DriverError: it cannot be read; the message names the file, and the line if it is known.
    """
    text = "" if data.startswith(MAGIC) else _decode(data, path)
    try:
        return read_program(data, arguments)
    except BytecodeError as error:
        described = describe_parse_error(str(error), path, text)
        raise DriverError(described if path in described else f"{path}: {described}") from error


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DriverError(
            f"{path}: the file is neither MLIR text nor a portable artifact"
        ) from None
