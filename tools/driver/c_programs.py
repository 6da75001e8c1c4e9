"""``gnomon compile --emit loops``, ``c`` and ``static-library``: programs as loops, and in C."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.kernels.lowering import KernelBackend
from gnomon.backends.kernels.program import kernels
from gnomon.backends.standalone_c import CBackend, CSource, c_source, static_library
from gnomon.tools.driver.errors import UsageError
from gnomon.tools.driver.programs import compiler_of
from gnomon.tools.driver.progress import progress
from gnomon_runtime.writing import write_file

if TYPE_CHECKING:
    from gnomon.tools.driver.opening import AnyProgram

__all__ = ["C_KINDS", "compile_to_c", "is_for_processors"]

C_KINDS = {"loops": ".mlir", "c": ".c", "static-library": ".a"}


def is_for_processors(target: str) -> bool:
    """Whether a target is a processor, for which programs are written in C."""
    compiler, _ = compiler_of(target)
    return isinstance(compiler, IreeBackend) and compiler.target.code in ("elf", "wasm")


def compile_to_c(
    programs: Sequence[AnyProgram], targets: Sequence[str], kind: str, output: str | None
) -> None:
    """Write programs as loops over scalars, as C source and headers, or as a library and headers.

    Args:
      programs: one for each function.
      targets: processors.
      kind: ``"loops"``, ``"c"`` or ``"static-library"``.
      output: the file to write, or ``-``, the default for loops; otherwise ``<name>.c`` and
        ``lib<name>.a`` by default.
    """
    if kind == "loops":
        _write_loops(programs, output or "-")
        return
    sources = []
    for program in programs:
        with progress(f"{program.name}: {kind}"):
            artifact = program.artifact_for(CBackend())
            arguments = [leaf.name for leaf in program.arguments]
            results = [leaf.name for leaf in program.results]
            sources.append(c_source(artifact, program.name, arguments, results))
    if output == "-":
        if kind != "c" or len(sources) > 1:
            raise UsageError(f"{kind} is several files: name one with -o")
        print(sources[0].code)
        return
    first = sources[0].name
    path = Path(output or (f"{first}.c" if kind == "c" else f"lib{first}.a"))
    if kind == "c":
        _write_sources(sources, path)
        return
    for target in targets:
        with progress(f"{', '.join(s.name for s in sources)}: {kind} for {target}"):
            library = static_library(sources, target)
        where = path if len(targets) == 1 else path.with_name(f"{path.stem}.{target}{path.suffix}")
        write_file(where, [library])
        print(f"{where}: {kind} for {target}, {len(library)} bytes", file=sys.stderr)
    _write_headers(sources, path.parent)


def _write_loops(programs: Sequence[AnyProgram], output: str) -> None:
    if len(programs) > 1:
        raise UsageError("loops are written for one function at a time")
    (program,) = programs
    with progress(f"{program.name}: loops"):
        text = kernels(program.artifact_for(KernelBackend())).text
    if output == "-":
        print(text)
    else:
        write_file(Path(output), [text.encode()])


def _write_sources(sources: Sequence[CSource], path: Path) -> None:
    for source in sources:
        where = path if len(sources) == 1 else path.with_name(f"{source.name}.c")
        write_file(where, [source.code.encode()])
        print(f"{where}: {source.name} in C, {len(source.code)} bytes", file=sys.stderr)
    _write_headers(sources, path.parent)


def _write_headers(sources: Sequence[CSource], folder: Path) -> None:
    for source in sources:
        path = folder / f"{source.name}.h"
        write_file(path, [source.header.encode()])
        memory = f"a workspace of {source.workspace} bytes" if source.workspace else "no workspace"
        print(f"{path}: header of {source.name}, which needs {memory}", file=sys.stderr)
