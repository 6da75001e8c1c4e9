"""Kernels as a backend of the tests: compiled in this process, called with ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gnomon.backends.compilation import Artifact
from gnomon.backends.kernels import KernelBackend, kernels
from gnomon.backends.llvm.engine import compile_module
from gnomon.dialects.mlir import context, ir

__all__ = ["InProcess", "compiled"]

# Before and after each array; no program writes there.
_GUARD, _BYTE = 64, 0xA5


@dataclass
class _Result:
    array: np.ndarray

    def to_numpy(self) -> np.ndarray:
        return self.array


class InProcess(KernelBackend):
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


def compiled(artifact: Artifact) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """A program as a function of arrays."""
    program = kernels(artifact)
    with context():
        module = compile_module(ir.Module.parse(program.text))
    function = ctypes.CFUNCTYPE(None)(module.address("main"))
    function.module = module  # type: ignore[attr-defined]  # the code lives as long as the function
    types = artifact.output_types

    def call(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        given = [np.ascontiguousarray(a) for a in arrays]
        outputs = [_Guarded(t.size * t.dtype.itemsize) for t in types]
        workspace = _Guarded(program.workspace)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in given]
        pointers += [output.pointer for output in (*outputs, workspace)]
        function(*pointers)
        for memory in (*outputs, workspace):
            memory.check()
        return [
            np.frombuffer(output.inner.tobytes(), t.dtype).reshape(t.shape)
            for output, t in zip(outputs, types, strict=True)
        ]

    return call
