"""Modules that run without gnomon: compiled for a kind of processor or device, not for one process.

A call returns when the results are there, so the caller needs no fences, and it never calls Python.
A module for this machine's processor is compiled for its level of the architecture and links no
libraries, so that other machines of that level run it too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.iree.ahead_of_time import check_serializable
from gnomon.backends.iree.backend import IreeBackend, iree_backend
from gnomon.backends.iree.compiler import compiler_version
from gnomon.backends.iree.targets import CPU, CPUS, what_is_missing
from gnomon.dialects.functions import Program

__all__ = ["StandaloneModule", "compile_standalone", "level_of_this_machine"]

# Levels and general targets; models of processors are chosen by name only.
_LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "aarch64-linux", "riscv64-linux")


@dataclass(frozen=True)
class StandaloneModule:
    """A compiled program with what a runtime must know about it.

    Attributes:
      code: IREE's `.vmfb`.
      target: the target's name.
      platform: of the devices that run it.
      execution: ``"sync"`` for inline in the calling thread, ``"blocking"`` for a pool of threads
        or a device.
      machine, features: the processor that it needs, see `Target`.
      versions: of the compiler.
    """

    code: bytes
    target: str
    platform: str
    execution: str
    machine: str
    features: tuple[str, ...]
    versions: dict[str, str]


def level_of_this_machine() -> str:
    """The name of the highest level of the architecture that this processor has.

    Raises:
        UnsupportedOnTarget: it has none of the levels that there are targets for.
    """
    by_name = {target.name: target for target in CPUS}
    for name in _LEVELS:
        if not what_is_missing(by_name[name]):
            return name
    raise UnsupportedOnTarget(
        f"programs that run elsewhere are compiled for {', '.join(_LEVELS)}; this processor is "
        "none of these"
    )


def compile_standalone(program: Program, target: str) -> StandaloneModule:
    """Compile a program; its module is consumed.

    Args:
      program: its public function is ``main``.
      target: a name that `find_target` takes; ``"cpu"`` is the level of this machine.

    Raises:
      UnsupportedOnTarget: the target has no form of an op or a dtype, or the program calls Python.
      CompilationError: the compiler failed.
    """
    backend = iree_backend(level_of_this_machine() if target == CPU.name else target)
    artifact = backend.lower(program)
    plan = artifact.plan
    try:
        check_serializable(plan.host_ops)
    except ValueError as error:
        raise UnsupportedOnTarget(f"for target {backend.target.name!r}: {error}") from None
    if plan.options.execution_model == "async":
        options = replace(plan.options, execution_model="blocking")
        artifact.plan = replace(plan, options=options)
    elif not backend.target.capabilities.host_memory:
        raise AssertionError("programs of devices are asynchronous")
    compiled = backend.compile_for(artifact)
    try:
        code = compiled.serialize()
    except ValueError as error:
        raise UnsupportedOnTarget(f"for target {backend.target.name!r}: {error}") from None
    return _described(backend, code, compiled.execution_model)


def _described(backend: IreeBackend, code: bytes, execution: str) -> StandaloneModule:
    target = backend.target
    return StandaloneModule(
        code,
        target.name,
        target.platform,
        execution,
        target.machine,
        target.features,
        {"iree-base-compiler": compiler_version()},
    )
