"""From a portable StableHLO artifact to an executable.

The compiler is a C++ program that sometimes aborts or does not end, so it runs in a process of its
own (`process.py`, `worker.py`). This module looks into the cache, sends missing programs to that
process, and turns every outcome into an executable or a named error with a reproducer.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import logging
import os
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from gnomon.backends import profiling
from gnomon.backends.cache import (
    ExecutableCache,
    cache_directory,
    cache_key,
    default_cache,
    make_private,
)
from gnomon.backends.errors import (
    BackendUnavailable,
    CompilationError,
    CompilationFailed,
    CompilerCrashed,
    CompilerTimeout,
    CompilerUnavailable,
)
from gnomon.backends.iree.inside.versions import TESTED, check_version
from gnomon.backends.iree.kernel_cache import Kernels, stop_helpers
from gnomon.backends.iree.options import (
    EXECUTION_MODELS,
    CompileOptions,
    ProgramCost,
    choose_options,
)
from gnomon.backends.iree.process import COMPILER, ProcessDiedError, ProcessTimeoutError
from gnomon.backends.iree.scratch import make_private_folder
from gnomon.backends.iree.targets import (
    Target,
    find_linker,
    find_target,
    host_fingerprint,
    linking_flags,
)
from gnomon.backends.iree.worker import (
    ALLOCATE_AT_THE_CALL,
    CHECK_PARTIAL_RESULTS,
    KERNELS_APART,
    OWN_FLAGS,
)

__all__ = [
    "DEFAULT_CACHE",
    "CompileOptions",
    "ProgramCost",
    "choose_options",
    "compile_artifact",
    "compile_flags",
    "compile_with_flags",
    "compiler_version",
    "prestart",
    "prestart_if_nothing_is_cached",
    "prestart_if_possible",
    "shutdown",
    "surroundings",
]

logger = logging.getLogger(__name__)

_SUMMARY_LINES = 12
_MAX_REPRODUCERS = 20
_REPRODUCER_PREFIX = "program-"


class _DefaultCache:
    """A placeholder for the cache that the environment chooses."""

    def __repr__(self) -> str:
        return "DEFAULT_CACHE"


DEFAULT_CACHE: Final = _DefaultCache()


@functools.cache
def compiler_version() -> str:
    """The version of the installed compiler, found without importing it.

    Raises:
      CompilerUnavailable: the compiler is not installed, or of an untested version.
    """
    try:
        version = importlib.metadata.version("iree-base-compiler")
    except importlib.metadata.PackageNotFoundError:
        raise CompilerUnavailable(
            "compiling needs the package iree-base-compiler, which is not installed; "
            f"install it with `pip install 'iree-base-compiler=={TESTED}.*'`"
        ) from None
    check_version("iree-base-compiler", version, CompilerUnavailable)
    return version


@functools.cache
def _between_phases_digest() -> str:
    """A hash of our passes between the compiler's phases, which do not appear in its flags."""
    folder = Path(__file__).parent
    files = [folder / "worker.py", *sorted((folder / "inside").glob("*.py"))]
    return cache_key(*(file.read_bytes() for file in files))


def prestart(target: Target) -> None:
    """Start the compiler's process in the background, so that it is warm when first needed.

    Raises:
      CompilerUnavailable: the compiler is not installed.
    """
    compiler_version()
    COMPILER.start([flag.name for flag in target.process_flags])


def prestart_if_possible(target: Target) -> None:
    """Start the compiler's process; if that fails, the first compilation reports the reason."""
    with contextlib.suppress(CompilerUnavailable, OSError, ValueError):
        prestart(target)


def prestart_if_nothing_is_cached() -> None:
    """Start the compiler's process if the first program for this machine is sure to need it."""
    with contextlib.suppress(ValueError):
        if (cache := default_cache()) is None or cache.is_empty():
            prestart_if_possible(find_target("cpu"))


def shutdown() -> None:
    """End the compiler's processes; the next compilation starts others."""
    COMPILER.stop()
    stop_helpers()


def compile_flags(target: Target, options: CompileOptions) -> list[str]:
    """The flags for one program, without those of the compiler's process."""
    flags = [flag.name for flag in target.flags]
    flags += [flag.name for flag in linking_flags(target)]
    flags.append(f"--iree-opt-level={options.opt_level}")
    flags.append(f"--iree-opt-data-tiling={'true' if options.data_tiling else 'false'}")
    if not options.hoist_constants:
        flags.append("--iree-opt-const-expr-hoisting=false")
    flags.append(f"--iree-execution-model={EXECUTION_MODELS[options.execution_model]}")
    if target.capabilities.host_memory:
        flags.append(ALLOCATE_AT_THE_CALL)
    if target.code in ("ptx", "hsaco"):
        flags.append(CHECK_PARTIAL_RESULTS)
    # Joining the kernels' objects needs a linker, and their calls of the C library need a loader.
    if (
        options.kernels_apart
        and target.code == "elf"
        and target.capabilities.libm == "system"
        and find_linker().kind != "none"
    ):
        flags.append(KERNELS_APART)
    return flags


def executable_key(artifact: bytes, target: Target, options: CompileOptions) -> str:
    """The key of a program's executable in the cache: a hash of all that determines the code."""
    flags = [flag.name for flag in target.process_flags] + compile_flags(target, options)
    return cache_key(artifact, "\n".join(flags), *surroundings(target))


def surroundings(target: Target) -> tuple[str, str, str]:
    """The inputs of the code besides the program and the flags: compiler, machine and passes."""
    machine = host_fingerprint() if target.is_host else target.name
    return compiler_version(), machine, _between_phases_digest()


def compile_artifact(
    artifact: bytes,
    *,
    target: Target,
    options: CompileOptions | None = None,
    cache: ExecutableCache | _DefaultCache | None = DEFAULT_CACHE,
    ignore_cache: bool = False,
    meanwhile: Callable[[], object] | None = None,
) -> bytes:
    """Compile a program whose entry is `func.func public @main`.

    Args:
      artifact: the program, as VHLO bytecode or as text for the compiler.
      target: the target.
      options: the options; by default those of a synchronous program.
      cache: the cache to look into, and to store the result in; None for no cache.
      ignore_cache: whether to compile even if the cache has the executable.
      meanwhile: called while the compiler's process works, if it has to.

    Returns:
      The executable, in IREE's `.vmfb` format.

    Raises:
      CompilationFailed: the compiler rejected the program.
      CompilerCrashed: its process died.
      CompilerTimeout: it took longer than `options.timeout_s`.
      CompilerUnavailable: it is not installed or does not start.
    """
    if not isinstance(artifact, bytes):
        raise TypeError(f"artifact must be bytes, got {type(artifact).__name__}")
    options = options or CompileOptions()
    store = default_cache() if isinstance(cache, _DefaultCache) else cache
    flags = compile_flags(target, options)
    process_flags = [flag.name for flag in target.process_flags]
    key = executable_key(artifact, target, options)
    if store is not None and not ignore_cache and (found := store.get(key)) is not None:
        return found

    started = time.perf_counter()
    kernels = None
    if KERNELS_APART in flags:
        kernels = Kernels(
            store,
            flags,
            process_flags,
            (*_flags_of_kernels(process_flags + flags), *surroundings(target)),
            options.timeout_s,
        )
    try:
        executable = _run_compiler(
            artifact, flags, process_flags, options.timeout_s, key, kernels, meanwhile
        )
    except CompilationFailed as error:
        if kernels is None or not kernels.used:
            raise
        logger.warning("a program is compiled whole, since its kernels do not link: %s", error)
        whole = [flag for flag in flags if flag != KERNELS_APART]
        executable = _run_compiler(artifact, whole, process_flags, options.timeout_s, key)
    logger.info(
        "compiled %d bytes to %d bytes in %.3f s",
        len(artifact),
        len(executable),
        time.perf_counter() - started,
    )
    if store is not None:
        store.put(key, executable)
    return executable


def compile_with_flags(
    artifact: bytes, *, target: Target, options: CompileOptions, extra: Sequence[str]
) -> bytes:
    """Compile without the cache and with additional flags, such as those that write files.

    Args:
      artifact, target, options: see `compile_artifact`, which also lists the errors.
      extra: the additional flags.
    """
    # The files should show the program's kernels together, with their names.
    flags = [*compile_flags(target, replace(options, kernels_apart=False)), *extra]
    process_flags = [flag.name for flag in target.process_flags]
    key = cache_key(artifact, "\n".join(flags))
    return _run_compiler(artifact, flags, process_flags, options.timeout_s, key)


def _flags_of_kernels(flags: Sequence[str]) -> list[str]:
    """The flags that may affect the code of a kernel."""
    others = (OWN_FLAGS, "--iree-execution-model=", "--iree-opt-const-expr-hoisting=")
    return [flag for flag in flags if not flag.startswith(others)]


def _run_compiler(
    artifact: bytes,
    flags: list[str],
    process_flags: list[str],
    timeout_s: float,
    key: str,
    kernels: Kernels | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> bytes:
    """Run the compiler; every outcome but an executable is a named error with a reproducer."""
    reproducer = _Reproducer(artifact, process_flags + flags, key)
    try:
        with profiling.span("iree-compile"):
            ok, executable, diagnostics = COMPILER.compile(
                artifact, flags, process_flags, timeout_s, kernels, meanwhile
            )
    except ProcessTimeoutError as error:
        raise reproducer.error(
            CompilerTimeout,
            f"the compiler did not finish within {timeout_s:g} s; simplify the program, "
            "or allow more time (GNOMON_COMPILE_TIMEOUT_S, or timeout_s of CompileOptions)",
            error.diagnostics,
        ) from None
    except ProcessDiedError as error:
        raise reproducer.error(
            CompilerCrashed,
            f"the compiler's process died ({_describe_exit(error.status)}) while it compiled the "
            "program",
            error.diagnostics,
        ) from None
    if not ok:
        raise reproducer.error(CompilationFailed, "the compiler refused the program", diagnostics)
    return executable


class _Reproducer(NamedTuple):
    """The files that reproduce a failure."""

    artifact: bytes
    flags: list[str]
    key: str

    def error(self, kind: type[CompilationError], what: str, diagnostics: str) -> CompilationError:
        """Write the files and return an error that names them."""
        path = self._write()
        lines = [what]
        summary = _summary(diagnostics)
        if summary:
            lines.append(summary)
        if path is not None:
            lines.append(f"The program is kept in {path}; compile it again with")
            lines.append(f"  sh {shlex.quote(str(path.with_suffix('.sh')))}")
        return kind("\n".join(lines), diagnostics=diagnostics, reproducer=path)

    def _write(self) -> Path | None:
        # A failure to write must not hide the error itself.
        for make_folder in (self._folder_in_cache, make_private_folder):
            try:
                path = Path(make_folder()) / f"{self.key[:16]}.mlirbc"
                flags = [flag for flag in self.flags if not flag.startswith(OWN_FLAGS)]
                command = shlex.join(["iree-compile", *flags, str(path), "-o", os.devnull])
                path.write_bytes(self.artifact)
                path.with_suffix(".sh").write_text(command + "\n")
            except (OSError, ValueError, BackendUnavailable):
                continue
            return path
        return None

    def _folder_in_cache(self) -> str:
        """Make a new folder that only this user can access, and remove the oldest ones."""
        parent = cache_directory() / "reproducers"
        make_private(parent.parent)
        make_private(parent)
        folder = tempfile.mkdtemp(prefix=_REPRODUCER_PREFIX, dir=parent)
        old = sorted(parent.glob(f"{_REPRODUCER_PREFIX}*"), key=lambda f: f.stat().st_mtime)
        for entry in old[:-_MAX_REPRODUCERS]:
            shutil.rmtree(entry, ignore_errors=True)
        return folder


def _describe_exit(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def _summary(diagnostics: str) -> str:
    """The lines of `diagnostics` that a reader needs first."""
    lines = [line.rstrip() for line in diagnostics.splitlines() if line.strip()]
    relevant = [line for line in lines if "error:" in line or "ERROR" in line or "Error" in line]
    chosen = dict.fromkeys(relevant or lines)
    return "\n".join(f"  {line[:400]}" for line in list(chosen)[:_SUMMARY_LINES])
