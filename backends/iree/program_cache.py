"""Programs that were compiled before, recognized as they were traced, before they are lowered.

The cache of executables is keyed by the compiler's input. To compute that input, the passes and
legalizations must be imported and run, which takes more than half of the first call of a program
that was compiled before. An entry of this module leads from the traced program to its executable.
Its key is a hash of the program without locations, and of all else that determines the compiler's
input: our code, the compiler's flags and version, the machine, and the libraries that programs may
call.

Programs that call Python functions have no entries, since these functions exist in one process
only.
"""

from __future__ import annotations

import functools
import importlib
import io
import json
import logging
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gnomon.backends.cache import IMPORTED_S, cache_key, default_cache
from gnomon.backends.iree.blas import shipped_library
from gnomon.backends.iree.compiler import compile_flags, surroundings
from gnomon.backends.iree.options import CompileOptions, available_cores
from gnomon.backends.iree.targets import Target
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import bindings_file, without_locations

__all__ = ["KnownProgram", "find", "key_of", "remember"]

# The packages whose code turns a traced program into the compiler's input.
_PACKAGES = ("gnomon.dialects", "gnomon.passes", "gnomon.backends")
# Lowering reports its choices here, which an executable from the cache would leave out.
_logger = logging.getLogger("gnomon.backends")


class KnownProgram(NamedTuple):
    """What loading a program takes besides its types.

    Attributes:
      executable: the key of its executable in the cache.
      execution_model: the execution model for which it was compiled.
      slow: whether a call may take long.
      unbounded: whether it has a loop that may run any number of times.
    """

    executable: str
    execution_model: str
    slow: bool
    unbounded: bool


def key_of(program: Program, target: Target) -> str | None:
    """The key of a traced program; None if it must be lowered."""
    if not target.is_host or program.callbacks or _logger.isEnabledFor(logging.DEBUG):
        return None
    code = _code_fingerprint()
    if default_cache() is None or code is None:
        return None
    bytecode = io.BytesIO()
    without_locations(program.module).write_bytecode(bytecode)
    return cache_key("program", bytecode.getvalue(), code, *_environment(target))


def find(key: str) -> tuple[KnownProgram, bytes] | None:
    """A program that was compiled before, and its executable; None if there is none.

    An entry that cannot be read counts as none.
    """
    store = default_cache()
    entry = None if store is None else store.get(key)
    if store is None or entry is None:
        return None
    try:
        known = KnownProgram(**json.loads(entry))
    except (TypeError, ValueError):
        return None
    executable = store.get(known.executable)
    return None if executable is None else (known, executable)


def remember(key: str, known: KnownProgram) -> None:
    """Store the entry of a program."""
    store = default_cache()
    if store is not None:
        store.put(key, json.dumps(known._asdict()).encode())


def _environment(target: Target) -> list[str]:
    """What the compiler's input depends on, besides the program and our code."""
    flags = [flag.name for flag in target.process_flags]
    flags += compile_flags(target, CompileOptions())
    return [
        "\n".join(flags),
        *surroundings(target),
        sys.version,
        np.__version__,
        shipped_library() or "",
        str(available_cores()),  # the cost models choose kernels by it
    ]


@functools.cache
def _code_fingerprint() -> str | None:
    """A hash of the names, sizes and times of the files of our code and of MLIR's bindings.

    None if the code cannot be identified, because it is not in files, or because a file is newer
    than this process, which may have imported what it contained before.
    """
    facts = []
    try:
        for path, status in _files():
            if status.st_mtime >= IMPORTED_S:
                return None
            facts.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    except OSError:
        return None
    return cache_key(*sorted(facts))


def _files() -> Iterator[tuple[str, os.stat_result]]:
    bindings = bindings_file()
    yield bindings, os.stat(bindings)
    for package in _PACKAGES:
        file = importlib.import_module(package).__file__
        yield from _sources(os.path.dirname(file or package))


def _sources(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat()
            elif not entry.name.startswith(("_", ".")) and entry.is_dir():
                yield from _sources(entry.path)
