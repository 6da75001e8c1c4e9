"""This machine: its linker for compiled code, and its processor, which is part of cache keys."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from gnomon.backends.iree.inside.linker import bundled_linker
from gnomon.backends.iree.targets.model import Flag, Target

__all__ = [
    "Linker",
    "bundled_linker_script",
    "find_linker",
    "host_fingerprint",
    "incompatibility",
    "linking_flags",
]


class Linker(NamedTuple):
    """The tool that turns object code into a loadable library.

    Attributes:
      path: the program.
      kind: "system" for the machine's own linker, "bundled" for the compiler's, "none" for
        IREE's own library format, which has no C library to call.
    """

    path: str
    kind: str

    @property
    def flags(self) -> tuple[Flag, ...]:
        """The compiler's flags that choose this linker."""
        if self.kind == "none":
            return (Flag("--iree-llvmcpu-link-embedded=true", "no linker of the system was found"),)
        return (
            Flag(
                "--iree-llvmcpu-link-embedded=false",
                "f64 sine and its like, and f32 to bf16, call the C library",
            ),
            Flag(f"--iree-llvmcpu-system-linker-path={self.path}", "the linker found here"),
        )


@functools.cache
def find_linker() -> Linker:
    """Finds the linker to use on this machine.

    The system linker is the fastest: the smallest program compiles in 310 ms with it, and in
    460 ms with the linker in the compiler's package, because each link loads the compiler's library
    again. The bundled linker needs a flavour argument that IREE does not pass to a system linker,
    so a two-line script adds it.
    """
    if sys.platform.startswith("linux"):
        for name in ("ld.lld", "ld", "ld.gold"):
            path = shutil.which(name)
            if path is not None:
                return Linker(path, "system")
        bundled = bundled_linker()
        if bundled is not None and shutil.which("sh") is not None:
            return Linker(str(bundled_linker_script(bundled)), "bundled")
    return Linker("", "none")


def linking_flags(target: Target) -> tuple[Flag, ...]:
    """The compiler's flags that depend on the linker of this machine."""
    if target.capabilities.libm == "system":
        return find_linker().flags
    linker = bundled_linker() if target.code == "wasm" else None
    if linker is None:
        return ()
    return (Flag(f"--iree-llvmcpu-wasm-linker-path={linker}", "the one in the compiler's package"),)


def bundled_linker_script(linker: Path) -> Path:
    """A script that calls the bundled linker and takes a system linker's arguments."""
    text = f'#!/bin/sh\nexec "{linker}" -flavor gnu "$@"\n'
    # Named by content and user: processes share it, but no user runs a file of another user.
    name = f"gnomon-ld-{os.getuid()}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    path = Path(tempfile.gettempdir()) / name
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=name, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o700)
    os.replace(file.name, path)
    return path


@functools.cache
def host_fingerprint() -> str:
    """Returns a hash of the CPU's model and features, on which code for this machine depends."""
    lines = {platform.system(), platform.machine()}
    wanted = ("flags", "Features", "model name", "CPU part", "CPU implementer", "isa")
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
        # This may run another program.
        lines.add(platform.processor())
    lines.update(line for line in text.splitlines() if line.startswith(wanted))
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def incompatibility(target: Target) -> str:
    """Returns why artifacts for a processor do not run on this one; empty if they do."""
    if target.is_host:
        return ""
    machine = platform.machine()
    if target.machine != machine:
        return f"this machine is {machine}, not {target.machine}"
    missing = [f for f in target.features if f not in _features()]
    return f"this machine's processor lacks {', '.join(missing)}" if missing else ""


@functools.cache
def _features() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return frozenset()
    lines = (line for line in text.splitlines() if line.startswith(("flags", "Features")))
    return frozenset(next(lines, "").split())
