"""Programs in C as a backend of the tests: built by the C compiler, called with ctypes."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gnomon.backends.compilation import Artifact
from gnomon.backends.standalone_c import CBackend, c_source
from tests.backends.kernels.guarded import Result, guarded

__all__ = ["FLAGS", "CompiledC", "compiled"]

# Programs may compare unsigned numbers with zero, and values with themselves.
WARNINGS = ("-Wall", "-Wextra", "-Wno-type-limits", "-Wno-tautological-compare", "-Werror")
FLAGS = ("-std=c99", "-O2", "-march=native", *WARNINGS)


class CompiledC(CBackend):
    """Compiles and runs programs."""

    def compile(self, artifact: Artifact) -> Callable[[Sequence[np.ndarray]], list[Result]]:
        """The program as a function of arrays."""
        call = compiled(artifact)
        return lambda arrays: [Result(a) for a in call(arrays)]


def compiled(
    artifact: Artifact, flags: Sequence[str] = FLAGS
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """A program in C as a function of arrays."""
    source = c_source(
        artifact,
        "f",
        [f"x{i}" for i in range(len(artifact.input_types))],
        [str(i) for i in range(len(artifact.output_types))],
    )
    with tempfile.TemporaryDirectory(prefix="gnomon-test-") as folder:
        (Path(folder) / "f.c").write_text(source.code)
        (Path(folder) / "f.h").write_text(source.header)
        command = ["cc", *flags, "-shared", "-fPIC", "f.c", "-o", "program.so", "-lm"]
        subprocess.run(command, cwd=folder, check=True)
        library = ctypes.CDLL(f"{folder}/program.so")

    def run(pointers: list[ctypes.c_void_p]) -> None:
        assert library.f(*pointers) == 0

    return guarded(run, artifact.output_types, source.workspace)
