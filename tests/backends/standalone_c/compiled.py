"""Programs in C as a backend of the tests: built by the C compiler, called with ctypes."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnomon.backends.compilation import Artifact
from gnomon.backends.standalone_c import CBackend, c_source

__all__ = ["FLAGS", "CompiledC", "compiled"]

# Programs may compare unsigned numbers with zero, and values with themselves.
WARNINGS = ("-Wall", "-Wextra", "-Wno-type-limits", "-Wno-tautological-compare", "-Werror")
FLAGS = ("-std=c99", "-O2", "-march=native", *WARNINGS)
# Before and after each array; no program writes there.
_GUARD, _BYTE = 64, 0xA5


@dataclass
class _Result:
    array: np.ndarray

    def to_numpy(self) -> np.ndarray:
        return self.array


class CompiledC(CBackend):
    """Compiles and runs programs."""

    def compile(self, artifact: Artifact) -> Callable[[Sequence[np.ndarray]], list[_Result]]:
        """The program as a function of arrays."""
        call = compiled(artifact)
        return lambda arrays: [_Result(a) for a in call(arrays)]


class _Guarded:
    """Memory between bytes that must not change."""

    def __init__(self, size: int) -> None:
        self.bytes = np.full(size + 2 * _GUARD, _BYTE, np.uint8)
        self.inner = self.bytes[_GUARD : _GUARD + size]
        self.pointer = ctypes.c_void_p(self.bytes.ctypes.data + _GUARD)

    def check(self) -> None:
        outside = np.concatenate([self.bytes[:_GUARD], self.bytes[len(self.bytes) - _GUARD :]])
        assert (outside == _BYTE).all(), "the program writes next to an array"


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

    def call(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        given = [np.ascontiguousarray(a) for a in arrays]
        outputs = [_Guarded(t.size * t.dtype.itemsize) for t in artifact.output_types]
        workspace = _Guarded(source.workspace)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in given]
        pointers += [output.pointer for output in (*outputs, workspace)]
        assert library.f(*pointers) == 0
        for memory in (*outputs, workspace):
            memory.check()
        return [
            np.frombuffer(output.inner.tobytes(), t.dtype).reshape(t.shape)
            for output, t in zip(outputs, artifact.output_types, strict=True)
        ]

    return call
