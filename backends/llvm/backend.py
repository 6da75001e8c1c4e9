"""LLVM as a compiler for this machine's processor, in this process.

The devices, and the memory of arrays, are those of the platform ``cpu`` (`backends.iree`).
"""

from __future__ import annotations

from collections.abc import Sequence
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
from gnomon.backends.pjrt.legalize import RULES
from gnomon.backends.rewriting import Rule, SpecialCase
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.contract import Instance
from gnomon.dialects.host_call import call_on_host
from gnomon.dialects.mlir import ir

__all__ = ["LlvmBackend"]


# The factorizations whose loops are quicker than a call of LAPACK, which takes 15 us, and the most
# rows of a matrix for which they are.
_IN_LOOPS = frozenset(
    f"gnomon.{name}"
    for name in ("cholesky", "cofactors", "det", "lu", "slogdet", "solve", "triangular_solve")
)
_MOST_ROWS = 16


def _on_host(name: str) -> Rule:
    """The rule that leaves an op to Python, unless loops are quicker."""

    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        if name in _IN_LOOPS and max(inst.operand_types[0].shape[-2:]) <= _MOST_ROWS:
            return None
        return call_on_host(inst)

    return SpecialCase(rule, RULES.get(name))


class LlvmBackend(KernelBackend):
    """Compiles programs for this machine's processor."""

    platform = "cpu"
    written = "be compiled by LLVM in this process"
    in_process = True
    rules: Any = MappingProxyType({**{name: _on_host(name) for name in HOST_OPS}, **series_rules()})
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
