"""Modules that run without gnomon, on any machine with a certain kind of processor or device.

A call returns when the results are ready, so the caller needs no fences. The only Python functions
that it calls are the factorizations of `gnomon_runtime`, which the module names. A module for this
machine's processor is compiled for its level of the architecture and links no libraries, so that it
runs on other machines of that level too.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import iree.runtime as rt

from gnomon.backends.compilation import Artifact
from gnomon.backends.errors import NotDynamic, UnsupportedOnTarget
from gnomon.backends.iree.ahead_of_time import check_serializable
from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.compiler import compiler_version
from gnomon.backends.iree.dynamic.executable import SizedExecutable
from gnomon.backends.iree.host_functions import HostFunction, read_table
from gnomon.backends.iree.legalize import small_matrices
from gnomon.backends.iree.legalize.host_ops import numpy_host_rules
from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.backends.iree.targets import CPU, CPUS, incompatibility
from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.functions import Program
from gnomon.dialects.symbolic.dimension import Dimension
from gnomon.dialects.types import TensorType
from gnomon_runtime import artifact as artifacts
from gnomon_runtime.linear_algebra.functions import FUNCTIONS

__all__ = [
    "StandaloneModule",
    "compile_standalone",
    "compile_standalone_for_all_sizes",
    "level_of_this_machine",
    "load_for_all_sizes",
    "reason_for_refinement",
]

# Levels and general targets; models of processors are chosen by name only.
_LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "aarch64-linux", "riscv64-linux")


@dataclass(frozen=True)
class StandaloneModule:
    """A compiled program with everything that a runtime must know about it.

    Attributes:
      code: IREE's `.vmfb`.
      target: the target's name.
      platform: the platform of the devices that run it.
      execution: ``"sync"`` for inline in the calling thread, ``"blocking"`` for a pool of threads
        or a device.
      machine, features: the processor that it needs, see `Target`.
      versions: the versions of the compiler's packages.
      host: the functions of NumPy that it calls.
    """

    code: bytes
    target: str
    platform: str
    execution: str
    machine: str
    features: tuple[str, ...]
    versions: dict[str, str]
    host: tuple[artifacts.HostFunction, ...] = ()


def level_of_this_machine() -> str:
    """The name of the highest level of the architecture that this processor supports.

    Raises:
      UnsupportedOnTarget: it supports none of the levels for which there are targets.
    """
    by_name = {target.name: target for target in CPUS}
    for name in _LEVELS:
        if not incompatibility(by_name[name]):
            return name
    raise UnsupportedOnTarget(
        f"programs that run elsewhere are compiled for {', '.join(_LEVELS)}; this processor is "
        "none of these"
    )


@functools.cache
def _backend(target: str) -> IreeBackend:
    """The backend of a target for programs that can call NumPy."""
    rules = {"host-calls": numpy_host_rules, "small-matrices": small_matrices.rules_with_numpy}
    rows = [replace(row, rules=rules.get(row.name, row.rules)) for row in LEGALIZATIONS]
    return IreeBackend(target, rows)


def compile_standalone(program: Program, target: str) -> StandaloneModule:
    """Compile a program; its module is consumed.

    Args:
      program: the program; its public function is ``main``.
      target: a name that `find_target` takes; ``"cpu"`` is the level of this machine.

    Raises:
      UnsupportedOnTarget: the target does not support an op or a dtype, or the program calls Python
        for more than factorizations.
      CompilationError: the compiler failed.
    """
    backend = _backend_of(target)
    return _compiled(backend, backend.lower(program))


def compile_standalone_for_all_sizes(
    program: Program, target: str
) -> tuple[StandaloneModule, list[Dimension]]:
    """Compile a program with symbolic dimensions once for all sizes; its module is consumed.

    Returns:
      The module, and the symbolic dimensions of the program's arrays.
    Raises:
      NotDynamic: the program must be refined for the sizes of each call; the message says why.
      UnsupportedOnTarget, CompilationError: see `compile_standalone`.
    """
    backend = _backend_of(target)
    artifact, dimensions = backend.lower_for_all_sizes(program)
    return _compiled(backend, artifact), dimensions


def load_for_all_sizes(program: Program) -> tuple[SizedExecutable, list[Dimension]]:
    """Compile a program with symbolic dimensions once for all sizes, for this machine's CPU.

    It is compiled for a level of the architecture, as programs in files are, because the tests of
    dynamic shapes use those targets.

    Raises:
      NotDynamic, UnsupportedOnTarget, CompilationError: see `compile_standalone_for_all_sizes`.
    """
    return _backend_of(CPU.name).load_for_all_sizes(program)


def reason_for_refinement(program: Program) -> str:
    """Why a program with symbolic dimensions must be compiled for the sizes of each call.

    Empty if this machine's CPU compiles it once for all sizes. Its module is consumed.
    """
    try:
        _backend_of(CPU.name).lower_for_all_sizes(program)
    except (NotDynamic, UnsupportedOnTarget) as error:
        return str(error)
    return ""


def _backend_of(target: str) -> IreeBackend:
    return _backend(level_of_this_machine() if target == CPU.name else target)


def _compiled(backend: IreeBackend, artifact: Artifact) -> StandaloneModule:
    plan = artifact.plan
    try:
        check_serializable([name for name in plan.host_ops if name not in FUNCTIONS])
    except ValueError as error:
        raise UnsupportedOnTarget(f"for target {backend.target.name!r}: {error}") from None
    if plan.options.execution_model == "async":
        options = replace(plan.options, execution_model="blocking")
        artifact.plan = plan._replace(options=options)
    compiled = backend.compile_for(artifact)
    try:
        code = compiled.serialize(answered=FUNCTIONS.keys())
    except ValueError as error:
        raise UnsupportedOnTarget(f"for target {backend.target.name!r}: {error}") from None
    target = backend.target
    return StandaloneModule(
        code,
        target.name,
        target.platform,
        compiled.execution_model,
        target.machine,
        target.features,
        {"iree-base-compiler": compiler_version()},
        _host_functions(code) if plan.host_ops else (),
    )


def _host_functions(vmfb: bytes) -> tuple[artifacts.HostFunction, ...]:
    """The host functions of an executable, from its own table."""
    module = rt.VmModule.copy_buffer(rt.VmInstance(), vmfb)
    return tuple(map(_as_runtime, read_table(module.lookup_function("main"))))


def _as_runtime(function: HostFunction) -> artifacts.HostFunction:
    params: dict[str, Any] = REGISTRY[f"gnomon.{function.op}"].decode(function.params)
    return artifacts.HostFunction(
        function.name,
        function.op,
        params,
        tuple(map(_type, function.operands)),
        tuple(map(_type, function.results)),
    )


def _type(type_: TensorType) -> artifacts.TensorType:
    return artifacts.TensorType(type_.shape, type_.dtype.name)
