"""Kernels as a backend of the tests: compiled in this process, called with ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from gnomon.backends.compilation import Artifact
from gnomon.backends.kernels.lowering import KernelBackend
from gnomon.backends.kernels.program import kernels
from gnomon.backends.llvm.backend import LlvmBackend
from gnomon.backends.llvm.engine import call_function, compile_module, entry_of
from gnomon.dialects.mlir import context, ir
from tests.backends.kernels.guarded import Result, guarded

__all__ = ["InProcess"]


class InProcess(KernelBackend):
    """Compiles and runs programs, with the elementary functions of `LlvmBackend`."""

    functions = LlvmBackend.functions

    def compile(self, artifact: Artifact) -> Callable[[Sequence[np.ndarray]], list[Result]]:
        """The program as a function of arrays."""
        program = kernels(artifact)
        with context():
            code = compile_module(ir.Module.parse(program.text)).code

        def run(pointers: list[ctypes.c_void_p]) -> None:
            call_function(entry_of(code, "main"), [pointer.value or 0 for pointer in pointers])

        call = guarded(run, artifact.output_types, program.workspace)
        return lambda arrays: [Result(a) for a in call(arrays)]
