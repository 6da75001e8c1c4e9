"""Static libraries of programs in C, made by a C compiler for the target.

This machine's compiler makes libraries for its architecture. A cross compiler (Debian's
``gcc-aarch64-linux-gnu``) or ``zig cc`` (the package ``ziglang``) makes them for other machines.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gnomon.backends.errors import CompilationFailed, CompilerUnavailable, UnsupportedOnTarget
from gnomon.backends.iree.scratch import temporary_folder
from gnomon.backends.iree.standalone import level_of_this_machine
from gnomon.backends.standalone_c.source import CSource

__all__ = ["FLAGS", "CCompiler", "find_compiler", "machine_names", "static_library"]

FLAGS = ("-std=c99", "-O3", "-fPIC")


@dataclass(frozen=True)
class _Machine:
    """A kind of machine.

    Attributes:
      machine: its name, as `platform.machine` gives it.
      cross: the prefix of GNU's cross compiler and tools; empty if there are none.
      zig: its name as the target of ``zig cc``.
      flags: the flags that select it in GCC and clang.
      zig_flags: the flags that select it in ``zig cc``.
    """

    machine: str
    cross: str = ""
    zig: str = ""
    flags: tuple[str, ...] = ()
    zig_flags: tuple[str, ...] = ()


def _x86(name: str, zig: str) -> _Machine:
    return _Machine(
        "x86_64",
        "x86_64-linux-gnu-",
        "x86_64-linux-gnu",
        (f"-march={name}",),
        (f"-mcpu={zig}",),
    )


_MACHINES = {
    **{f"x86-64-v{n}": _x86(f"x86-64-v{n}", f"x86_64_v{n}") for n in (2, 3, 4)},
    **{
        name: _x86(name, name.replace("-", "_"))
        for name in ("skylake-avx512", "sapphirerapids", "znver4", "znver5")
    },
    "aarch64-linux": _Machine("aarch64", "aarch64-linux-gnu-", "aarch64-linux-gnu"),
    "graviton3": _Machine(
        "aarch64",
        "aarch64-linux-gnu-",
        "aarch64-linux-gnu",
        ("-mcpu=neoverse-v1",),
        ("-mcpu=neoverse_v1",),
    ),
    "riscv64-linux": _Machine("riscv64", "riscv64-linux-gnu-", "riscv64-linux-gnu"),
    "wasm32": _Machine("wasm32", zig="wasm32-wasi", zig_flags=("-msimd128",)),
}


def machine_names() -> tuple[str, ...]:
    """The targets for which `static_library` can compile."""
    return ("cpu", *_MACHINES)


@dataclass(frozen=True)
class CCompiler:
    """A C compiler for a target.

    Attributes:
      command: the compiler and the flags of the target.
      archiver: the command that makes libraries.
    """

    command: tuple[str, ...]
    archiver: tuple[str, ...]


def _zig() -> list[str] | None:
    """The command of Zig, whose package is a C compiler for every target."""
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang"]
    zig = shutil.which("zig")
    return [zig] if zig else None


def find_compiler(target: str) -> CCompiler:
    """The C compiler for a target.

    Raises:
      CompilerUnavailable: there is none; the message says what to install.
    """
    name = target
    if target == "cpu":
        # As in artifacts: compile for the level of this machine's architecture, so that similar
        # machines run the library too.
        with suppress(UnsupportedOnTarget):
            name = level_of_this_machine()
    machine = _MACHINES.get(name, _Machine(platform.machine()))
    if machine.machine == platform.machine():
        chosen = shlex.split(os.environ.get("CC", ""))
        archiver = shutil.which(os.environ.get("AR", "ar"))
        for words in [chosen] if chosen else [["cc"], ["gcc"], ["clang"]]:
            if shutil.which(words[0]) and archiver:
                return CCompiler((*words, *machine.flags), (archiver,))
    elif machine.cross and shutil.which(f"{machine.cross}gcc"):
        return CCompiler((f"{machine.cross}gcc", *machine.flags), (f"{machine.cross}ar",))
    zig = _zig()
    if zig and machine.zig:
        command = (*zig, "cc", "-target", machine.zig, *machine.zig_flags)
        return CCompiler(command, (*zig, "ar"))
    wanted = ["a C compiler (cc, gcc or clang, or the one that CC names)"]
    if machine.machine != platform.machine():
        wanted = [f"{machine.cross}gcc"] if machine.cross else []
    if machine.zig:
        wanted.append("zig (pip install ziglang)")
    raise CompilerUnavailable(
        f"a static library for {target!r} needs {' or '.join(wanted)}, and there is none; "
        "--emit c writes the program in C, for any compiler"
    )


def static_library(sources: Sequence[CSource], target: str) -> bytes:
    """A static library of programs, for a target.

    Raises:
      CompilerUnavailable: there is no C compiler for the target.
      CompilationFailed: the C compiler refuses a program.
    """
    compiler = find_compiler(target)
    with temporary_folder() as folder:
        objects = []
        for source in sources:
            (Path(folder) / f"{source.name}.h").write_text(source.header)
            (Path(folder) / f"{source.name}.c").write_text(source.code)
            objects.append(f"{source.name}.o")
            _run([*compiler.command, *FLAGS, "-c", f"{source.name}.c", "-o", objects[-1]], folder)
        _run([*compiler.archiver, "rcs", "library.a", *objects], folder)
        return (Path(folder) / "library.a").read_bytes()


def _run(command: Sequence[str], folder: str) -> None:
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if process.returncode:
        raise CompilationFailed(
            f"{shlex.join(command[:2])} failed (exit status {process.returncode}):\n"
            f"{process.stderr}",
            diagnostics=process.stderr,
        )
