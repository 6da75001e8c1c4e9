"""``gnomon``: the compiler driver.

    gnomon compile program.mlir --target=cuda:sm_90 # to an executable
    gnomon lower program.mlir                       # to StableHLO text, or --emit=artifact
    gnomon run program.mlir --input=3xf32=1,2,3     # compile and run @main, or --evaluate it
    gnomon targets                                  # what --target takes
    gnomon cache info | clear                       # the executables kept on disk
    gnomon version

A program is text of the gnomon dialect, or StableHLO as text or as a portable artifact. StableHLO
is passed to the compiler unchanged, without the rewrites that avoid errors of the compiler.
To run single passes on text, use `gnomon-opt`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.backends.cache import default_cache
from gnomon.backends.compilation import Artifact
from gnomon.backends.errors import BackendUnavailable, CompilationError
from gnomon.backends.iree.backend import IreeBackend, iree_backend
from gnomon.backends.iree.targets import CPUS, FAMILIES
from gnomon.backends.platforms import compiler_for
from gnomon.backends.reference import Evaluator
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir, stablehlo
from gnomon.dialects.types import ANY, TensorType, is_complex, is_inexact, short_name

_DTYPES = {short_name(d): d for d in ANY}


class DriverError(Exception):
    """An error that the tool prints before it exits with status 1."""


_ERRORS = (DriverError, BackendUnavailable, CompilationError)


# The magic number of MLIR bytecode, with which a portable artifact of StableHLO begins.
_BYTECODE = b"ML\xefR"


def read_program(path: str) -> Program:
    """Read a program, MLIR text or a portable artifact, with a public function ``main``."""
    ensure_context()
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        if data.startswith(_BYTECODE):
            module = stablehlo.deserialize_portable_artifact(context(), data)
        else:
            module = ir.Module.parse(decode(data, path), context())
    except (ir.MLIRError, RuntimeError, ValueError) as error:
        raise DriverError(f"{path}: {error}") from error
    program = Program(module)
    if "main" not in program:
        names = ", ".join(sorted(program.names)) or "none"
        raise DriverError(f"{path}: no function @main (the module has {names})")
    return program


def decode(data: bytes, path: str) -> str:
    """Decode the text of a file.

    Raises:
      DriverError: the file is binary.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DriverError(
            f"{path}: the file is neither MLIR text nor a portable artifact"
        ) from None


def is_stablehlo(program: Program) -> bool:
    """Whether a program is StableHLO without ops of the gnomon dialect."""
    names: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        names.add(op.name.partition(".")[0])
        return ir.WalkResult.ADVANCE

    program.module.operation.walk(visit)
    return bool(names & {"stablehlo", "chlo"}) and "gnomon" not in names


def lower(backend: Any, program: Program) -> Artifact:
    """Lower a program for a backend; StableHLO is not changed."""
    if not is_stablehlo(program):
        artifact: Artifact = backend.lower(program, keep_stages=True)
        return artifact
    if not isinstance(backend, IreeBackend):
        raise DriverError(
            "programs of StableHLO are compiled for IREE's targets (`gnomon targets`), not for "
            f"{backend.platform!r}"
        )
    return backend.lower_stablehlo(program.module)


def lowered(path: str, target: str) -> Artifact:
    """The program of a file, lowered for a target."""
    backend, _ = compiler_for(target)
    return lower(backend, read_program(path))


def write(path: str, data: bytes | str) -> None:
    """Write a file, or standard output for ``-``."""
    if path == "-":
        stream = sys.stdout if isinstance(data, str) else sys.stdout.buffer
        stream.write(data)  # type: ignore[arg-type]
    elif isinstance(data, str):
        Path(path).write_text(data)
    else:
        Path(path).write_bytes(data)


def parse_input(text: str, type_: TensorType) -> np.ndarray:
    """An argument from the command line: ``SHAPExDTYPE=VALUES``, ``VALUES``, or ``@file.npy``.

    One value fills the array; otherwise there is one value per element, in row-major order.
    """
    if text.startswith("@"):
        array = np.load(text[1:])
    else:
        head, _, values = text.rpartition("=")
        if head and head.split("x")[-1] not in _DTYPES:
            raise DriverError(f"--input={text}: {head.split('x')[-1]!r} is not a dtype")
        if head:
            *dims, dtype = head.split("x")
            given = TensorType(tuple(int(d) for d in dims if d), _DTYPES[dtype])
            if given != type_:
                raise DriverError(f"--input={text}: @main takes {type_} here")
        number = complex if is_complex(type_.dtype) else float if is_inexact(type_.dtype) else int
        flat = np.array([number(v) for v in values.split(",") if v.strip()]).astype(type_.dtype)
        if flat.size not in (1, type_.size):
            raise DriverError(f"--input={text}: {flat.size} values for {type_}")
        array = np.broadcast_to(flat, type_.shape) if flat.size == 1 else flat.reshape(type_.shape)
    if (array.shape, array.dtype) != tuple(type_):
        raise DriverError(
            f"--input={text}: @main takes {type_} here, got {TensorType(array.shape, array.dtype)}"
        )
    return np.ascontiguousarray(array).reshape(type_.shape)


def compile_command(options: argparse.Namespace) -> None:
    """Run ``gnomon compile``."""
    backend, rest = compiler_for(options.target)
    artifact = lower(backend, read_program(options.file))
    data = backend.compile_for(artifact, rest).serialize()
    suffix = ".vmfb" if isinstance(backend, IreeBackend) else ".pjrt"
    write(options.output or str(Path(options.file).with_suffix(suffix)), data)


def lower_command(options: argparse.Namespace) -> None:
    """Run ``gnomon lower``."""
    artifact = lowered(options.file, options.target)
    if options.emit == "artifact":
        write(options.output or "-", artifact.portable)
    else:
        write(options.output or "-", getattr(artifact.stages, options.emit).plain)


def run_command(options: argparse.Namespace) -> None:
    """Run ``gnomon run``."""
    program = read_program(options.file)
    types = program.signature("main").arguments
    if len(options.input) != len(types):
        shown = ", ".join(map(str, types)) or "nothing"
        raise DriverError(f"@main takes {shown}; got {len(options.input)} --input options")
    arrays = [parse_input(text, t) for text, t in zip(options.input, types, strict=True)]
    if options.evaluate and is_stablehlo(program):
        raise DriverError("--evaluate takes programs of the gnomon dialect, not StableHLO")
    if options.evaluate:
        results = Evaluator(program)("main", *arrays)
    else:
        backend = iree_backend("cpu")
        executable = backend.compile(lower(backend, program))
        results = [buffer.to_numpy() for buffer in executable(arrays)]
    for result in results:
        print(f"{TensorType(result.shape, result.dtype)}")
        print(result)


def targets_command(options: argparse.Namespace) -> None:
    """Run ``gnomon targets``."""
    for target in CPUS:
        print(f"{target.name:32} {target.code}, on {target.machine or 'this machine'}")
    for family in FAMILIES:
        for member in family.architectures:
            name = f"{family.target.name}:{member.name}"
            print(f"{name:32} {family.target.code}, {member.meaning}")


def cache_command(options: argparse.Namespace) -> None:
    """Run ``gnomon cache``."""
    cache = default_cache()
    if cache is None:
        print("the cache is off (GNOMON_CACHE=0)")
    elif options.action == "clear":
        print(f"removed {cache.clear()} executables")
    else:
        print(f"{cache!r}: {len(cache.entries())} executables, {cache.size_bytes()} bytes")


def version_command(options: argparse.Namespace) -> None:
    """Run ``gnomon version``."""
    for package in ("gnomon", "iree-base-compiler", "iree-base-runtime", "torch-mlir", "numpy"):
        try:
            print(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            print(f"{package} (not installed as a package)")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="gnomon", description="The gnomon compiler driver.")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(
        name: str, help_: str, run: Callable[[argparse.Namespace], None]
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help_)
        sub.set_defaults(run=run)
        return sub

    sub = command("compile", "compile a program of the dialect, or of StableHLO", compile_command)
    sub.add_argument("file")
    sub.add_argument("-o", "--output", help="default: the file's name with .vmfb")
    sub.add_argument("--target", default="cpu", help="see `gnomon targets`; tpu:v5e:2x2")

    sub = command("lower", "lower MLIR text", lower_command)
    sub.add_argument("file")
    sub.add_argument("-o", "--output")
    sub.add_argument(
        "--emit", choices=("expanded", "legalized", "stablehlo", "artifact"), default="stablehlo"
    )
    sub.add_argument("--target", default="cpu", help="see `gnomon targets`")

    sub = command("run", "run the function @main of MLIR text", run_command)
    sub.add_argument("file")
    sub.add_argument(
        "--input",
        action="append",
        default=[],
        help="an argument: 2x3xf32=1,2,3,4,5,6, or one value for all, or @file.npy",
    )
    sub.add_argument("--evaluate", action="store_true", help="with NumPy, without compiling")

    command("targets", "list the values of the option --target", targets_command)

    sub = command("cache", "show or clear the cache of executables", cache_command)
    sub.add_argument("action", choices=("info", "clear"))

    command("version", "print the versions of gnomon and its dependencies", version_command)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit status."""
    options = parse_arguments(arguments)
    try:
        options.run(options)
    except (*_ERRORS, TypeError, ValueError, OSError, ir.MLIRError) as error:
        print(f"gnomon: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
