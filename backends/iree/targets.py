"""The machines that IREE compiles for, as data: one row a target, one reason a flag."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

__all__ = [
    "TARGETS",
    "Capabilities",
    "Flag",
    "Linker",
    "Target",
    "find_linker",
    "host_fingerprint",
]


@dataclass(frozen=True)
class Flag:
    """A command-line flag of the compiler, and why we pass it."""

    name: str
    reason: str


@dataclass(frozen=True)
class Capabilities:
    """What programs for a target may contain, and how its memory is reached.

    Attributes:
        host_memory: NumPy arrays can be read and written in place.
        import_alignment: bytes to which the address of an imported array must be aligned.
        max_bindings: buffers that one dispatch can take.
        system_libm: programs may call the C library's mathematical functions.
    """

    host_memory: bool
    import_alignment: int
    max_bindings: int
    system_libm: bool


@dataclass(frozen=True)
class Target:
    """A kind of machine: how to compile for it and how to run there.

    Attributes:
        name: the key in `TARGETS`.
        platform: the name of the device's platform that users see.
        hal_backend: IREE's name for the code generator.
        drivers: IREE's runtime driver for each execution model.
        flags: passed with each program.
        process_flags: the few that the compiler takes only once, when its process starts.
        capabilities: limits that the legalization heeds.
    """

    name: str
    platform: str
    hal_backend: str
    drivers: Mapping[str, str]
    flags: tuple[Flag, ...]
    process_flags: tuple[Flag, ...]
    capabilities: Capabilities


_INPUT_FLAGS = (
    Flag("--iree-input-type=stablehlo", "skips the detection of the input dialect"),
    Flag("--iree-input-demote-f64-to-f32=false", "by default f64 is computed in f32, silently"),
    Flag("--iree-input-demote-i64-to-i32=false", "the default; it must not change"),
    Flag("--iree-input-demote-f32-to-f16=false", "as above"),
    Flag(
        "--iree-opt-const-eval=false",
        "constants are computed when the program is loaded, not by a second compilation, which "
        "takes time and does not link what calls the C library",
    ),
    Flag("--iree-vm-bytecode-module-strip-source-map=true", "smaller; we keep locations ourselves"),
)

_CPU = Target(
    name="cpu",
    platform="cpu",
    hal_backend="llvm-cpu",
    drivers=MappingProxyType(
        {"sync": "local-sync", "blocking": "local-task", "async": "local-task"}
    ),
    flags=(
        Flag("--iree-hal-target-backends=llvm-cpu", "the code generator"),
        *_INPUT_FLAGS,
        Flag("--iree-llvmcpu-target-cpu=host", "the program runs here; the cache key says where"),
        Flag("--iree-llvmcpu-debug-symbols=false", "less to emit and to link, 20 to 30 ms"),
        Flag(
            "--iree-llvmcpu-enable-ukernels=none",
            "loading their bitcode costs 100 ms for each program; generated code is as fast",
        ),
    ),
    process_flags=(
        Flag(
            "--iree-stream-resource-min-offset-alignment=16",
            "compiled code otherwise assumes buffers at multiples of 64 bytes, and a NumPy array, "
            "which starts at any multiple of 16, crashes the process when used in place; no "
            "slower in a 64 and a 256 matmul and a 10^6 multiply-add with AVX2",
        ),
    ),
    capabilities=Capabilities(
        host_memory=True, import_alignment=16, max_bindings=32, system_libm=True
    ),
)

_VULKAN = Target(
    name="vulkan",
    platform="vulkan",
    hal_backend="vulkan-spirv",
    drivers=MappingProxyType(dict.fromkeys(("sync", "blocking", "async"), "vulkan")),
    flags=(
        Flag("--iree-hal-target-backends=vulkan-spirv", "the code generator"),
        *_INPUT_FLAGS,
        Flag("--iree-vulkan-target=vp_android_baseline_2022", "what nearly every driver has"),
    ),
    process_flags=(),
    capabilities=Capabilities(
        host_memory=False, import_alignment=4096, max_bindings=32, system_libm=False
    ),
)

TARGETS: Mapping[str, Target] = MappingProxyType(
    {target.name: target for target in (_CPU, _VULKAN)}
)


@dataclass(frozen=True)
class Linker:
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

    A system linker is the fastest: with it the smallest program compiles in 310 ms; with the
    linker inside the compiler's package, 460 ms, because each link loads the compiler's library
    again. The bundled one needs a flavour argument that IREE does not pass to a system linker, so
    a two-line script adds it.
    """
    if sys.platform.startswith("linux"):
        for name in ("ld.lld", "ld", "ld.gold"):
            path = shutil.which(name)
            if path is not None:
                return Linker(path, "system")
        bundled = _bundled_linker()
        if bundled is not None and shutil.which("sh") is not None:
            return Linker(str(_bundled_linker_script(bundled)), "bundled")
    return Linker("", "none")


def _bundled_linker() -> Path | None:
    specification = importlib.util.find_spec("iree.compiler")
    for folder in (specification and specification.submodule_search_locations) or ():
        path = Path(folder) / "_mlir_libs" / "iree-lld"
        if path.exists():
            return path
    return None


def _bundled_linker_script(linker: Path) -> Path:
    text = f'#!/bin/sh\nexec "{linker}" -flavor gnu "$@"\n'
    # Named by content and user: processes share it, and one user's file is not another's program.
    name = f"gnomon-ld-{os.getuid()}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    path = Path(tempfile.gettempdir()) / name
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=name, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o700)
    os.replace(file.name, path)
    return path


@functools.cache
def host_fingerprint() -> str:
    """Returns what distinguishes code made for this machine's CPU: its model and features."""
    lines = {platform.system(), platform.machine(), platform.processor()}
    wanted = ("flags", "Features", "model name", "CPU part", "CPU implementer", "isa")
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    lines.update(line for line in text.splitlines() if line.startswith(wanted))
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
