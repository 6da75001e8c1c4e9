"""The code that IREE's compiler generates for a program, as files: kernels, assembly, objects.

On request, the compiler writes files into a folder. Each row of `CODE_KINDS` is a kind of code: the
flag for that folder, and the suffix of the files' names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gnomon.backends.iree.compiler import compile_with_flags
from gnomon.backends.iree.options import CompileOptions
from gnomon.backends.iree.scratch import temporary_folder
from gnomon.backends.iree.targets import Target

__all__ = [
    "CODE_KINDS",
    "LocatedCode",
    "check_code_kind",
    "code_kinds",
    "emit_code",
    "emit_located",
]


class CodeKind(NamedTuple):
    """A kind of code.

    Attributes:
      meaning: a description.
      folder: the part of the compiler's flag that names the kind of files.
      suffixes: the suffix of the files' names, by the kind of code in a target's executables.
      is_text: whether the files are text.
    """

    meaning: str
    folder: str
    suffixes: Mapping[str, str]
    is_text: bool = True


_EVERY = ("elf", "wasm", "ptx", "hsaco", "spirv", "msl")


def _kind(
    meaning: str, folder: str, suffixes: dict[str, str] | str, is_text: bool = True
) -> CodeKind:
    if isinstance(suffixes, str):
        suffixes = dict.fromkeys(_EVERY, suffixes)
    return CodeKind(meaning, folder, MappingProxyType(suffixes), is_text)


CODE_KINDS: Mapping[str, CodeKind] = MappingProxyType(
    {
        "kernels": _kind("the kernels that the program is divided into", "sources", ".mlir"),
        "llvm": _kind(
            "optimized LLVM IR of the kernels",
            "intermediates",
            dict.fromkeys(("elf", "wasm", "ptx", "hsaco"), ".optimized.ll"),
        ),
        "asm": _kind(
            "assembly of the kernels",
            "intermediates",
            {"elf": ".s", "wasm": ".s", "hsaco": ".rocmasm"},
        ),
        "object": _kind(
            "an object file of the kernels",
            "intermediates",
            {"elf": ".o", "wasm": ".o"},
            is_text=False,
        ),
        "shared-library": _kind(
            "a shared library of the kernels",
            "binaries",
            {"elf": ".so", "wasm": ".wasm"},
            is_text=False,
        ),
        # A separate flag requests its files, instead of a dump.
        "iree-static-library": _kind(
            "an object and a header to link into a C program, and the program that calls it",
            "",
            {"elf": "", "wasm": ""},
            is_text=False,
        ),
        "ptx": _kind("PTX of the kernels", "binaries", {"ptx": ".ptx"}),
        "hsaco": _kind("AMD's code objects of the kernels", "binaries", {"hsaco": ".hsaco"}, False),
        "spirv": _kind(
            "SPIR-V of the kernels",
            "binaries",
            {"spirv": ".spv"},
            is_text=False,
        ),
        "msl": _kind("the kernels in Metal's language", "binaries", {"msl": ".metal"}),
    }
)


def code_kinds(target: Target) -> list[str]:
    """The kinds of code that the compiler generates for a target."""
    return [name for name, kind in CODE_KINDS.items() if target.code in kind.suffixes]


def check_code_kind(target: Target, kind: str) -> None:
    """Raise `ValueError` if the compiler generates no such code for a target."""
    if kind not in code_kinds(target):
        raise ValueError(
            f"the compiler emits no {kind} for the target {target.name!r}; it emits "
            f"{', '.join(code_kinds(target))}"
        )


def emit_code(
    artifact: bytes, kind: str, *, target: Target, options: CompileOptions
) -> dict[str, bytes]:
    """The files of one kind of code, by name.

    Args:
      artifact: the compiler's input.
      kind: one of `code_kinds` of the target.
      target, options: see `compile_artifact`.
    """
    with temporary_folder() as folder:
        if kind == "iree-static-library":
            return _static_library(artifact, Path(folder), target, options)
        row = CODE_KINDS[kind]
        flag = f"--iree-hal-dump-executable-{row.folder}-to={folder}"
        compile_with_flags(artifact, target=target, options=options, extra=[flag])
        suffix = row.suffixes[target.code]
        paths = sorted(path for path in Path(folder).iterdir() if path.name.endswith(suffix))
        return {path.name: path.read_bytes() for path in paths}


class LocatedCode(NamedTuple):
    """The code of a program with the places that its instructions come from.

    Attributes:
      kernels: text of the kernels by the names of their files.
      assembly: with ``.loc`` lines of the program's locations; empty where a target has none.
      assembly_of_kernels: the same, with lines of the kernels' files.
    """

    kernels: Mapping[str, str]
    assembly: str
    assembly_of_kernels: str


def emit_located(artifact: bytes, *, target: Target, options: CompileOptions) -> LocatedCode:
    """Kernels and assembly of a program whose text has locations.

    If the target has assembly, the program is compiled twice.

    Args:
      artifact: text of StableHLO with locations.
      target, options: as `compile_artifact` takes them.
    """
    assembly = [""]
    kernels: dict[str, str] = {}
    suffix = CODE_KINDS["asm"].suffixes.get(target.code)
    # Once the compiler has written the kernels to files, its locations are lines of those files.
    folders = [["sources"]] if suffix is None else [["intermediates"], ["sources", "intermediates"]]
    for written in folders:
        with temporary_folder() as folder:
            extra = [f"--iree-hal-dump-executable-{name}-to={folder}" for name in written]
            compile_with_flags(artifact, target=target, options=options, extra=extra)
            paths = sorted(Path(folder).iterdir())
            kernels = {p.name: p.read_text() for p in paths if p.name.endswith(".mlir")}
            if suffix is not None:
                texts = (p.read_text() for p in paths if p.name.endswith(suffix))
                assembly.append("\n".join(texts))
    return LocatedCode(kernels, assembly[-2] if suffix else "", assembly[-1])


def _static_library(
    artifact: bytes, folder: Path, target: Target, options: CompileOptions
) -> dict[str, bytes]:
    extra = (
        "--iree-llvmcpu-link-embedded=false",
        "--iree-llvmcpu-link-static",
        f"--iree-llvmcpu-static-library-output-path={folder / 'kernels.o'}",
    )
    vmfb = compile_with_flags(artifact, target=target, options=options, extra=extra)
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    return {**files, "program.vmfb": vmfb}
