"""Programs in MLIR: text of the gnomon dialect or of StableHLO, bytecode, portable artifacts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gnomon._export.programs import save_program
from gnomon.backends.bytecode import MAGIC, BytecodeError, read_bytecode
from gnomon.backends.compilation import Artifact
from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.platforms import backend
from gnomon.backends.reference import Evaluator
from gnomon.backends.standalone_c import CBackend
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.tools.driver.errors import DriverError
from gnomon.tools.driver.programs import Leaf, LoweredProgram, compiler_of, remembering
from gnomon.tools.source_lines import describe_parse_error

__all__ = ["MlirProgram", "lower_for"]


class MlirProgram:
    """A program of the gnomon dialect or of StableHLO, whose public function is ``main``.

    Attributes:
      path: the path of the file, or ``-``.
      name: the name of the file without its suffix.
      is_stablehlo: whether the program has StableHLO ops and no ops of the gnomon dialect.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "program" if path == "-" else Path(path).stem
        ensure_context()
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        text = _parse(data, path).operation.get_asm(enable_debug_info=True, assume_verified=True)
        # The parser calls its input "-".
        self._text = str(text).replace('loc("-":', f'loc("{path}":')
        program = self._program()
        if "main" not in program:
            names = ", ".join(sorted(program.names)) or "none"
            raise DriverError(f"{path}: no function @main (the module has {names})")
        self.is_stablehlo = _is_stablehlo(program)
        signature = program.signature("main")
        self.arguments = [Leaf(f"arg{i}", type_) for i, type_ in enumerate(signature.arguments)]
        count = len(signature.results)
        self.results = [
            Leaf("result" if count == 1 else str(i), type_)
            for i, type_ in enumerate(signature.results)
        ]

    def _program(self) -> Program:
        return Program(ir.Module.parse(self._text, context()))

    def save(self, path: str, targets: Sequence[str]) -> None:
        """Write the program into an artifact, compiled for targets."""
        save_program(
            path, self.name, self._program(), is_stablehlo=self.is_stablehlo, targets=targets
        )

    def lower(self, target: str) -> LoweredProgram:
        """Lower the program for a target; StableHLO is not changed."""
        compiler, rest = compiler_of(target)
        artifact = self.artifact_for(compiler)
        return LoweredProgram(target, compiler, rest, artifact, self.is_stablehlo)

    def artifact_for(self, compiler: Any) -> Artifact:
        """The program lowered by a backend; StableHLO is not changed."""
        return lower_for(compiler, self._program(), self.is_stablehlo)

    def caller(self, device: str | None) -> Callable[[Sequence[Any]], list[Any]]:
        """A function that runs the compiled program on arrays and returns the results in order."""
        runner = backend(device)
        artifact = lower_for(runner, self._program(), self.is_stablehlo)
        lowered = LoweredProgram(runner.platform, runner, "", artifact, self.is_stablehlo)
        with remembering(lambda: lowered):
            executable = runner.compile(artifact)
        return lambda arrays: list(executable([np.asarray(a) for a in arrays]))

    def evaluate(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Evaluate the program with NumPy, without compiling."""
        if self.is_stablehlo:
            raise DriverError("--evaluate takes programs of the gnomon dialect, not StableHLO")
        return [np.asarray(r) for r in Evaluator(self._program())("main", *arrays)]


def _parse(data: bytes, path: str) -> ir.Module:
    text = ""
    try:
        if data.startswith(MAGIC):
            return read_bytecode(data)
        text = _decode(data, path)
        return ir.Module.parse(text, context())
    except (ir.MLIRError, BytecodeError) as error:
        described = describe_parse_error(str(error), path, text)
        raise DriverError(described if path in described else f"{path}: {described}") from error


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DriverError(
            f"{path}: the file is neither MLIR text nor a portable artifact"
        ) from None


def _is_stablehlo(program: Program) -> bool:
    names: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        names.add(op.name.partition(".")[0])
        return ir.WalkResult.ADVANCE

    program.module.operation.walk(visit)
    return bool(names & {"stablehlo", "chlo"}) and "gnomon" not in names


def lower_for(compiler: Any, program: Program, is_stablehlo: bool) -> Artifact:
    """Lower a program with a backend; StableHLO is not changed."""
    if not is_stablehlo:
        artifact: Artifact = compiler.lower(program, keep_stages=True)
        return artifact
    if not isinstance(compiler, (IreeBackend, CBackend)):
        raise DriverError(
            "programs of StableHLO are compiled for IREE's targets (`gnomon targets`), not for "
            f"{compiler.platform!r}"
        )
    return compiler.lower_stablehlo(program.module)
