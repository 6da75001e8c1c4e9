"""``gnomon compile``: compile a program, or write one of its stages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.emission import CODE_KINDS, code_kinds
from gnomon.tools.driver.artifacts import SUFFIX, save_artifact
from gnomon.tools.driver.c_programs import C_KINDS, compile_to_c, is_for_processors
from gnomon.tools.driver.errors import DriverError, UsageError
from gnomon.tools.driver.mlir import MlirProgram
from gnomon.tools.driver.opening import AnyProgram, is_function, open_program
from gnomon.tools.driver.programs import LoweredProgram, PythonProgram, compiler_of
from gnomon.tools.driver.progress import progress
from gnomon.tools.driver.requests import request_of
from gnomon_runtime.writing import write_file

__all__ = ["EMITTED", "STAGES", "compile_command", "emitted_by"]

STAGES = ("traced", "gnomon", "legalized", "stablehlo")

# The values of --emit, with the suffix of the file.
EMITTED = MappingProxyType(
    {
        **dict.fromkeys(STAGES, ".mlir"),
        "vhlo": ".mlirbc",
        "kernels": ".mlir",
        "llvm": ".ll",
        "asm": ".s",
        "object": ".o",
        "shared-library": ".so",
        "iree-static-library": "",
        **C_KINDS,
        "ptx": ".ptx",
        "hsaco": ".hsaco",
        "spirv": ".spv",
        "msl": ".metal",
        "hlo": ".hlo",
        "vmfb": ".vmfb",
        "pjrt": ".pjrt",
        "artifact": SUFFIX,
    }
)
# The kind that the suffix of -o implies if --emit is not given.
_BY_SUFFIX = {
    ".mlir": "stablehlo",
    **{suffix: kind for kind, suffix in EMITTED.items() if suffix not in (".mlir", "")},
}
Files = dict[str, bytes]


def emitted_by(lowered: LoweredProgram) -> list[str]:
    """The values of --emit that a target supports."""
    stages = list(STAGES)
    if isinstance(lowered.backend, IreeBackend):
        in_c = list(C_KINDS) if is_for_processors(lowered.target) else []
        return [*stages, "vhlo", *code_kinds(lowered.backend.target), *in_c, "vmfb"]
    return [*stages, "vhlo", "hlo", "pjrt"]


def _emit(lowered: LoweredProgram, kind: str, debug_info: bool) -> Files:
    """The files of one kind."""
    if kind in STAGES:
        text = lowered.text(kind, debug_info=debug_info)
        return {"": text.encode()}
    known = emitted_by(lowered)
    if kind not in known:
        raise DriverError(
            f"the target {lowered.target!r} has no {kind}; --emit takes {', '.join(known)}"
        )
    if kind == "vhlo":
        return {"": lowered.artifact.portable}
    if kind in ("vmfb", "pjrt"):
        return {"": lowered.executable.serialize()}
    if kind == "hlo":
        return {"": lowered.executable.as_text().encode()}
    files = lowered.emit(kind)
    return {"": next(iter(files.values()))} if len(files) == 1 else files


def _default_kind(program: AnyProgram, output: str | None, target: str) -> str:
    suffix = Path(output).suffix if output and output != "-" else ""
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    if isinstance(program, PythonProgram):
        return "artifact"
    return "pjrt" if target.partition(":")[0] == "tpu" else "vmfb"


def compile_command(options: argparse.Namespace) -> None:
    """Run ``gnomon compile``."""
    programs = [open_program(request_of(options, path)) for path in _paths(options.program)]
    program = programs[0]
    targets = [target for target in options.target.split(",") if target]
    if not targets:
        raise UsageError("--target: give at least one target; `gnomon targets` lists them")
    kind = options.emit or _default_kind(program, options.output, targets[0])
    if kind == "artifact":
        _compile_artifact(programs, targets, options.output or f"{program.name}{SUFFIX}")
        return
    if kind in C_KINDS and all(map(is_for_processors, targets)):
        compile_to_c(programs, targets, kind, options.output)
        return
    if len(programs) > 1:
        raise UsageError(
            f"several functions are compiled into an artifact ({SUFFIX}) or a library, not {kind}"
        )
    for i, target in enumerate(targets):
        kind = options.emit or _default_kind(program, options.output, target)
        with progress(f"{program.name}: {kind} for {target}", i, len(targets)):
            lowered = program.lower(target)
            files = _emit(lowered, kind, options.debug_info)
        where = _where(options.output, program, kind, target if len(targets) > 1 else None)
        _write(where, files, kind, target)


def _paths(path: str) -> list[str]:
    """``model.py:init,step`` as a path for each function."""
    if not is_function(path):
        return [path]
    head, _, names = path.rpartition(":")
    return [f"{head}:{name}" for name in names.split(",") if name]


def _compile_artifact(programs: list[AnyProgram], targets: list[str], output: str) -> None:
    for target in targets:
        compiler_of(target)  # reject unknown targets before anything is compiled
    names = ", ".join(program.name for program in programs)
    with progress(f"{names}: artifact for {', '.join(targets)}"):
        if isinstance(programs[0], MlirProgram):
            programs[0].save(output, targets)
        else:
            save_artifact(output, _functions(programs), targets)
    length = Path(output).stat().st_size
    print(f"{output}: {names} for {', '.join(targets)}, {length} bytes", file=sys.stderr)


def _functions(programs: list[AnyProgram]) -> list[PythonProgram]:
    functions = [program for program in programs if isinstance(program, PythonProgram)]
    if len(functions) < len(programs):
        raise UsageError(
            f"{programs[0].path}: the file is already an artifact; artifacts are made from Python "
            "functions and MLIR programs"
        )
    return functions


def _is_text(kind: str) -> bool:
    return kind in (*STAGES, "hlo") or (kind in CODE_KINDS and CODE_KINDS[kind].is_text)


def _where(output: str | None, program: AnyProgram, kind: str, target: str | None) -> str:
    """The path to write to; it contains the target's name if there are several targets."""
    if output is None and _is_text(kind):
        return "-"
    path = Path(output) if output else Path(f"{program.name}{EMITTED[kind]}")
    if output is None and isinstance(program, MlirProgram) and program.path != "-":
        path = Path(program.path).with_suffix(EMITTED[kind])
    if target is None or output == "-":
        return str(path) if output != "-" else "-"
    return str(path.with_name(f"{path.stem}.{target.replace(':', '-')}{path.suffix}"))


def _write(where: str, files: Files, kind: str, target: str) -> None:
    if where == "-":
        if not _is_text(kind) and sys.stdout.isatty():
            raise UsageError(f"{kind} is binary: name a file with -o")
        _write_standard_output(files, kind)
        return
    path = Path(where)
    if list(files) == [""]:
        write_file(path, [files[""]])
        print(f"{path}: {kind} for {target}, {len(files[''])} bytes", file=sys.stderr)
        return
    path.mkdir(exist_ok=True)
    for name, data in files.items():
        write_file(path / name, [data])
        print(f"{path / name}: {kind} for {target}, {len(data)} bytes", file=sys.stderr)


def _write_standard_output(files: Files, kind: str) -> None:
    if not _is_text(kind):
        if len(files) > 1:
            raise UsageError(
                f"{kind} is {len(files)} files for this program: name a folder with -o"
            )
        sys.stdout.buffer.write(*files.values())
        sys.stdout.buffer.flush()
        return
    texts: Sequence[str] = [data.decode(errors="replace").rstrip() for data in files.values()]
    print("\n\n".join(texts))
