"""The compilers of programs for this machine's processor, and the choice between them.

LLVM compiles a program in this process (`backends.llvm`) in a fraction of the time that IREE takes.
IREE's code uses several threads, and libraries for large products and Fourier transforms. So small
programs are compiled by LLVM, and the others by IREE. The estimated cost of a program decides, so
equal programs always have the same compiler.

Programs of LLVM that were compiled before are recognized as they were traced, as those of IREE are
(`iree.program_cache`), and loaded without the passes and the compiler.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

from gnomon._native import ObjectCode
from gnomon.backends import profiling
from gnomon.backends.cache import cache_key
from gnomon.backends.compilation import Artifact, Lowering, Observer, is_verifying, known_artifact
from gnomon.backends.iree import program_cache
from gnomon.backends.iree.device import Device, cpu_device
from gnomon.backends.iree.host_functions import from_text
from gnomon.backends.iree.options import seconds_of_work
from gnomon.backends.iree.plan import cost_of
from gnomon.backends.iree.targets import find_target
from gnomon.backends.llvm import stored
from gnomon.backends.llvm.executable import Executable
from gnomon.backends.llvm.host import HostCalls
from gnomon.backends.narrow_formats import is_narrow
from gnomon.dialects.body import operands_of, results_of
from gnomon.dialects.callbacks import debug_callback, io_callback, pure_callback
from gnomon.dialects.contract import all_operations, lookup
from gnomon.dialects.cumulative import cumsum
from gnomon.dialects.deferred import Deferred
from gnomon.dialects.fourier import fft
from gnomon.dialects.functions import Program
from gnomon.dialects.random_bits import threefry2x32
from gnomon.dialects.reduction import argmax, argmin
from gnomon.dialects.sorting import sort
from gnomon.dialects.structural import transpose
from gnomon.dialects.types import type_of
from gnomon.passes.cost import Cost

if TYPE_CHECKING:
    from gnomon.backends.llvm import backend as llvm
else:
    # Programs that were compiled before need no passes, whose import takes longer than loading one.
    llvm = Deferred("gnomon.backends.llvm.backend")

__all__ = ["HostCompiler"]

# The most work of a program that LLVM compiles, as IREE's cost model estimates it, in one thread:
# 18 us for `softmax` of 128 x 128 numbers, 28 for a product of 96 rows, which take as long with
# either. Below, LLVM's calls take 0.2 to 0.9 of IREE's time, and above, IREE gains by its threads.
_WORK_S = 30e-6
# The most operations: LLVM takes longer than IREE for a GPT's training step with 800.
_MOST_OPS = 400
# The most elements of results or operands of ops for which IREE has better kernels or libraries:
# with more, LLVM's calls took 1.2 to 10 times as long.
_MOST_ELEMENTS = {
    fft: 4096,
    sort: 512,
    argmax: 1024,
    argmin: 1024,
    cumsum: 8192,
    threefry2x32: 2048,
    transpose: 8192,
}
# The most elements of f16 and bf16: LLVM's `exp` of 16384 took 1.4 times as long, of 65536 1.8.
_HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_MOST_HALVES = 4096

# Calls of Python, which LLVM's programs cannot make with arrays of these dtypes (`narrow`).
_CALLBACKS = (pure_callback, io_callback, debug_callback)


class _KnownPlan(NamedTuple):
    """What `HostCompiler.compile` needs of a program that LLVM compiled before."""

    facts: stored.Facts
    code: ObjectCode


def _is_small(cost: Cost, program: Program) -> bool:
    """Whether LLVM compiles a program: its code is as fast as IREE's, and it is compiled sooner."""
    if seconds_of_work(cost_of(cost)) > _WORK_S:
        return False
    for number, op in enumerate(all_operations(program.body("main"))):
        if number >= _MOST_OPS:
            return False
        definition = lookup(op)
        if definition.is_control_flow:
            continue
        types = [type_of(value) for value in (*operands_of(op), *results_of(op))]
        most = _MOST_ELEMENTS.get(definition)
        if most is not None and any(type_.size > most for type_ in types):
            return False
        if any(t.dtype in _HALVES and t.size > _MOST_HALVES for t in types):
            return False
        if definition in _CALLBACKS and any(is_narrow(t.dtype) for t in types):
            return False
    return True


class HostCompiler:
    """Compiles programs for this machine's processor.

    Args:
      choice: ``"llvm"`` for all programs, or ``"auto"`` for the choice by cost.
    """

    platform = "cpu"

    def __init__(self, choice: str) -> None:
        self._choice = choice

    @functools.cached_property
    def _llvm(self) -> llvm.LlvmBackend:
        return llvm.LlvmBackend()

    @property
    def _iree(self) -> Any:
        return cpu_device().backend

    def lower(
        self, program: Program, *, keep_stages: bool = False, observe: Observer | None = None
    ) -> Artifact:
        """Lower a program; see `Backend.lower`."""
        return self._lower(Lowering(program, keep_stages=keep_stages, observe=observe))

    def _lower(self, lowering: Lowering, *, runs: bool = False) -> Artifact:
        with profiling.span("lower", program=lowering.name):
            cost = lowering.expand()
            if self._choice == "llvm" or (
                # On other systems, an engine would have to be kept for each program.
                ObjectCode.is_supported() and _is_small(cost, Program(lowering.module))
            ):
                return self._llvm.lower_in(lowering)
            if runs:
                self._iree.prestart()
            lowered: Artifact = self._iree.lower_in(lowering)
            return lowered

    def lower_to_run(self, program: Program) -> Artifact:
        """Lower a program only to `compile` it; see `interface.lower_to_run`."""
        key = None if is_verifying() else program_cache.key_of(program, find_target("cpu"))
        if key is not None:
            # Each choice has its own entries, so that what is on the disk does not change it.
            key = cache_key(self._choice, key)
            known = stored.find(cache_key("llvm", key))
            if known is not None:
                return known_artifact(program, _KnownPlan(*known))
            found: Artifact | None = self._iree.find_known(program, key)
            if found is not None:
                return found
        artifact = self._lower(Lowering(program), runs=True)
        if key is not None and isinstance(artifact.plan, llvm.KernelPlan):
            key = cache_key("llvm", key)
        artifact.plan = artifact.plan._replace(program_key=key)
        return artifact

    def compile(
        self, artifact: Artifact, *, device: Device | None = None, donate: tuple[int, ...] = ()
    ) -> Any:
        """Compile a lowered program; see `Backend.compile`."""
        device = device or cpu_device()
        plan = artifact.plan
        if isinstance(plan, _KnownPlan):
            facts = plan.facts
            with profiling.span("load", program=artifact.name):
                host = HostCalls(from_text(facts.functions), ()) if facts.functions else None
                return Executable(artifact, plan.code, facts, device, donate, host)
        if isinstance(plan, llvm.KernelPlan):
            return self._llvm.compile(artifact, device=device, donate=donate)
        return self._iree.compile(artifact, device=device, donate=donate)
