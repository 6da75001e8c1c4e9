"""LLVM as a compiler for this machine's processor, in this process.

The devices, and the memory of arrays, are those of the platform ``cpu`` (`backends.iree`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from gnomon.backends import profiling
from gnomon.backends.compilation import Artifact
from gnomon.backends.functions.rules import arithmetic_rules
from gnomon.backends.functions.series import series_rules
from gnomon.backends.iree.device import Device, cpu_device
from gnomon.backends.iree.host_functions import HostFunction, collect
from gnomon.backends.iree.legalize.host_ops import HOST_OPS
from gnomon.backends.kernels import KernelBackend, kernels
from gnomon.backends.llvm.executable import Executable
from gnomon.backends.rewriting import SpecialCase
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.host_call import call_on_host
from gnomon.dialects.mlir import ir

__all__ = ["LlvmBackend"]


class LlvmBackend(KernelBackend):
    """Compiles programs for this machine's processor."""

    platform = "cpu"
    written = "be compiled by LLVM in this process"
    in_process = True
    rules: Any = MappingProxyType(
        {**dict.fromkeys(HOST_OPS, SpecialCase(call_on_host)), **series_rules()}
    )
    functions: Any = MappingProxyType(arithmetic_rules())

    def called_functions(
        self, module: ir.Module
    ) -> tuple[tuple[HostFunction, ...], tuple[Callback, ...]]:
        """Name the functions of Python that a legalized program calls."""
        functions, callbacks = collect(module)
        return tuple(functions), callbacks

    def compile(
        self, artifact: Artifact, *, device: Device | None = None, donate: tuple[int, ...] = ()
    ) -> Executable:
        """Compile a lowered program; see `Backend.compile`."""
        with profiling.span("compile", program=artifact.name):
            return Executable(kernels(artifact), artifact, device or cpu_device(), donate)
