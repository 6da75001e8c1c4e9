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
from gnomon.backends.iree.host_functions import HostFunction, as_text, collect
from gnomon.backends.iree.legalize.host_ops import HOST_OPS
from gnomon.backends.kernels.lowering import KernelBackend, KernelPlan
from gnomon.backends.kernels.program import kernels
from gnomon.backends.llvm.engine import compile_module
from gnomon.backends.llvm.executable import Executable
from gnomon.backends.llvm.host import HostCalls
from gnomon.backends.llvm.stored import Facts, remember
from gnomon.backends.pjrt.legalize import RULES
from gnomon.backends.rewriting import Rule, SpecialCase
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.contract import Instance
from gnomon.dialects.host_call import call_on_host
from gnomon.dialects.mlir import context, ir

__all__ = ["KernelPlan", "LlvmBackend"]


# The factorizations whose loops are quicker than a call of LAPACK, which takes 15 us, and the most
# rows of a matrix for which they are.
_IN_LOOPS = frozenset(
    f"gnomon.{name}"
    for name in ("cholesky", "cofactors", "det", "lu", "slogdet", "solve", "triangular_solve")
)
_MOST_ROWS = 16
# A call with at least this many operations may take so long that someone interrupts it.
_SLOW_OPERATIONS = 1e8


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
        plan: KernelPlan = artifact.plan
        host = HostCalls(plan.functions, artifact.callbacks) if plan.functions else None
        with profiling.span("compile", program=artifact.name):
            program = kernels(artifact)
            with context():
                module = ir.Module.parse(program.text)
                # As the loops spell them.
                names = [function.symbol.replace(".", "_") for function in plan.functions]
                code, content = compile_module(module, names)
                facts = Facts(
                    program.workspace,
                    plan.unbounded or artifact.cost.operations > _SLOW_OPERATIONS,
                    as_text(plan.functions) if plan.functions else "",
                )
            executable = Executable(artifact, code, facts, device or cpu_device(), donate, host)
        if plan.program_key is not None and content is not None:
            remember(plan.program_key, facts, content)
        return executable
