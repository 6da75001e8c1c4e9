"""IREE as a backend: one `IreeBackend` for each target that programs can run on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from gnomon.backends import profiling
from gnomon.backends.cache import cache_key, default_cache
from gnomon.backends.compilation import Artifact, Lowering, Observer
from gnomon.backends.errors import CompilationFailed, CompilerCrashed, ExecutionError
from gnomon.backends.iree.ahead_of_time import AheadOfTimeExecutable
from gnomon.backends.iree.buffer import Buffer
from gnomon.backends.iree.compiler import (
    compile_artifact,
    compile_with_flags,
    executable_key,
)
from gnomon.backends.iree.device import Device, cpu_device, devices_of
from gnomon.backends.iree.dynamic.executable import SizedExecutable
from gnomon.backends.iree.dynamic.lowering import lower_for_all_sizes
from gnomon.backends.iree.emission import (
    LocatedCode,
    check_code_kind,
    emit_code,
    emit_located,
)
from gnomon.backends.iree.executable import Executable
from gnomon.backends.iree.legalize.after_lowering.device_description import describe_device
from gnomon.backends.iree.legalize.control.forms import Form
from gnomon.backends.iree.legalize.legalization import Legalization
from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.backends.iree.options import CompileOptions, ProgramCost, choose_options
from gnomon.backends.iree.pipeline import CompilerInput, Pipeline
from gnomon.backends.iree.remote import put
from gnomon.backends.iree.remote_executable import RemoteExecutable
from gnomon.backends.iree.targets import find_target
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import Dimension

__all__ = ["IreeBackend", "Plan", "iree_backend"]

T = TypeVar("T")

# Programs with at least this many operations or kernels may run long enough to be interrupted.
_SLOW_FLOPS, _SLOW_DISPATCHES = 1e8, 1e4


@dataclass(frozen=True)
class Plan:
    """How IREE compiles a program.

    Attributes:
      code: the compiler's input: None for the portable artifact, or text if control flow runs on
        the host or the device is described.
      options: the compiler's options.
      form: the form of its control flow; None if it has none.
      stepped: whether Python runs steps of it, see `steps`.
      ordered: the host functions whose calls keep their order.
      host_ops: names of the ops that the program leaves to Python.
      unbounded: whether it has a loop that may run any number of times.
    """

    code: bytes | None
    options: CompileOptions
    form: Form | None = None
    stepped: bool = False
    ordered: frozenset[str] = frozenset()
    host_ops: tuple[str, ...] = ()
    unbounded: bool = False


class IreeBackend:
    """The backend of one of IREE's targets.

    Args:
      name: the target's name.
      legalizations: the legalizations to run; all by default.

    Attributes:
      platform: the target's platform, such as "cpu".
      target: the target.
      pipeline: the passes from a program to the compiler's input.
    """

    def __init__(self, name: str, legalizations: Sequence[Legalization] = LEGALIZATIONS) -> None:
        self.target = find_target(name)
        self.pipeline = Pipeline(self.target, legalizations)
        self.platform = self.target.platform

    def devices(self) -> tuple[Device, ...]:
        """The devices; see `Backend.devices`."""
        return devices_of(self.target)

    def lower(
        self, program: Program, *, keep_stages: bool = False, observe: Observer | None = None
    ) -> Artifact:
        """Lower a program for the target; see `Backend.lower`."""
        with profiling.span("lower") as details:
            lowered = self.pipeline.lower(program, keep_stages=keep_stages, observe=observe)
            details["program"] = lowered.artifact.name
        artifact, functions = lowered.artifact, lowered.functions
        options = self._options(ProgramCost(**vars(artifact.cost)))
        if functions and options.execution_model == "async":
            # A call cannot return before the program has ended, since the thread that runs it waits
            # for the operands of host calls.
            options = replace(options, execution_model="blocking")
        plan = Plan(
            None,
            options,
            ordered=lowered.ordered,
            host_ops=tuple(sorted({f.op for f in functions})),
            unbounded=lowered.unbounded,
        )
        artifact.plan = _with_input(plan, lowered.given)
        return artifact

    def lower_stablehlo(self, module: ir.Module) -> Artifact:
        """The artifact of a StableHLO module, which is not changed.

        No legalization runs, so a program that the compiler rejects or miscompiles stays as it is.
        """
        artifact = Lowering(Program(module), keep_stages=True).artifact()
        code = describe_device(module, self.target) if self.target.device else None
        artifact.plan = Plan(
            code.encode() if code is not None else None, self._options(ProgramCost())
        )
        return artifact

    def lower_for_all_sizes(self, program: Program) -> tuple[Artifact, list[Dimension]]:
        """Lower a program with symbolic dimensions to one that runs for all sizes.

        Returns:
          The artifact, and the symbolic dimensions of the program's arrays.
        Raises:
          NotDynamic: it must be refined for the sizes of each call; the message says why.
          UnsupportedOnTarget: it has an op or a dtype that the target does not support.
        """
        lowering, dimensions = lower_for_all_sizes(self.pipeline, program)
        artifact = lowering.artifact()
        options = self._options(ProgramCost(**vars(artifact.cost)))
        artifact.plan = Plan(str(lowering.module).encode(), replace(options, data_tiling=False))
        return artifact, dimensions

    def load_for_all_sizes(self, program: Program) -> tuple[SizedExecutable, list[Dimension]]:
        """Compile a program with symbolic dimensions for all sizes; see `lower_for_all_sizes`.

        Raises:
          CompilationError: the compiler failed.
        """
        artifact, dimensions = self.lower_for_all_sizes(program)
        plan: Plan = artifact.plan
        if plan.options.execution_model == "async":
            # The shapes of the results are known when the program has ended.
            artifact.plan = replace(plan, options=replace(plan.options, execution_model="blocking"))
        vmfb = self._compiled(artifact)
        executable = SizedExecutable(
            vmfb,
            name=artifact.name,
            input_types=artifact.input_types,
            output_types=artifact.output_types,
            device=cpu_device(),
            execution_model=artifact.plan.options.execution_model,
        )
        return executable, dimensions

    def _options(self, cost: ProgramCost) -> CompileOptions:
        if self.target.capabilities.host_memory:
            return choose_options(cost)
        # Execution models and data tiling are choices for CPUs.
        return CompileOptions(execution_model="async")

    def compile(
        self, artifact: Artifact, *, device: Device | None = None, donate: tuple[int, ...] = ()
    ) -> Executable:
        """Compile a lowered program; see `Backend.compile`."""
        device = device or self.devices()[0]
        kind = Executable if device.shares_memory else RemoteExecutable

        def load(vmfb: bytes) -> Executable:
            return kind(
                vmfb,
                name=artifact.name,
                input_types=artifact.input_types,
                output_types=artifact.output_types,
                device=device,
                execution_model=artifact.plan.options.execution_model,
                donate=donate,
                callbacks=artifact.callbacks,
                slow=artifact.cost.flops > _SLOW_FLOPS
                or artifact.cost.dispatches > _SLOW_DISPATCHES,
                unbounded=artifact.plan.unbounded,
            )

        with profiling.span("compile", program=artifact.name):
            vmfb = self._compiled(artifact)
        try:
            with profiling.span("load", program=artifact.name, bytes=len(vmfb)):
                return load(vmfb)
        except ExecutionError:
            # The executable may come from the cache, and differ from the compiler's present output.
            again = self.executable_bytes(artifact, ignore_cache=True)
            if again == vmfb:
                raise
            return load(again)

    def compile_for(
        self, artifact: Artifact, architecture: str = "", *, donate: tuple[int, ...] = ()
    ) -> AheadOfTimeExecutable:
        """Compile a program that this backend lowered, for a device that may be elsewhere.

        Args:
          artifact: the program.
          architecture: ignored, since this backend has a single architecture.
          donate: positions of arguments whose buffers a call consumes.
        """
        artifact = self._without_library(artifact)
        vmfb = self._compiled(artifact)
        plan: Plan = artifact.plan
        return AheadOfTimeExecutable(
            vmfb,
            target=self.target,
            input_types=artifact.input_types,
            output_types=artifact.output_types,
            execution_model=plan.options.execution_model,
            donate=donate,
            callbacks=artifact.callbacks,
            stepped=plan.stepped,
            host_ops=plan.host_ops,
        )

    def emit(self, artifact: Artifact, kind: str) -> dict[str, bytes]:
        """The compiler's code for a lowered program, as files by name.

        Args:
          artifact: the program.
          kind: one of `code_kinds`.

        Raises:
          ValueError: the target has no such kind.
        """
        check_code_kind(self.target, kind)
        artifact = self._without_library(artifact)

        def emit() -> dict[str, bytes]:
            plan: Plan = artifact.plan
            return emit_code(_input_of(artifact), kind, target=self.target, options=plan.options)

        return self._first_that_compiles(artifact, emit)

    def emit_located(self, artifact: Artifact) -> LocatedCode:
        """Kernels and assembly of a lowered program, with the places that they come from.

        Args:
          artifact: the program, with its stages.
        """
        artifact = self._without_library(artifact)

        def emit() -> LocatedCode:
            plan: Plan = artifact.plan
            # The compiler's own text, where there is one, has no locations.
            given = artifact.stages.stablehlo.located if plan.code is None else plan.code
            text = given if isinstance(given, bytes) else given.encode()
            return emit_located(text, target=self.target, options=plan.options)

        return self._first_that_compiles(artifact, emit)

    def _without_library(self, artifact: Artifact) -> Artifact:
        """The program without calls of NumPy's BLAS, which may be missing where it is loaded."""
        given = self.pipeline.without_library(artifact, artifact.plan.ordered)
        if given is None:
            return artifact
        plan: Plan = artifact.plan
        tiled = self._options(ProgramCost(**vars(artifact.cost))).data_tiling
        plan = replace(plan, options=replace(plan.options, data_tiling=tiled))
        return replace(artifact, plan=_with_input(plan, given))

    def locate_refusal(self, artifact: Artifact) -> str:
        """The compiler's error for a program that it rejects, with the user's lines.

        Artifacts have no locations, so that equal programs share executables. This compiles the
        last stage, which was kept with locations, once more. The text is empty if it compiles.
        """
        plan: Plan = artifact.plan
        text = artifact.stages.stablehlo.located
        try:
            compile_with_flags(text.encode(), target=self.target, options=plan.options, extra=())
        except (CompilationFailed, CompilerCrashed) as error:
            return error.diagnostics
        return ""

    def _compiled(self, artifact: Artifact) -> bytes:
        """The executable; sets the artifact's plan to the one that compiled.

        The compiler takes minutes to refuse some large programs. The cache therefore remembers
        which attempt compiled, and later processes begin with it. A crash is not remembered as a
        refusal: the machine may have lacked memory.
        """
        plan: Plan = artifact.plan
        store = default_cache()
        key = cache_key("attempt", executable_key(_input_of(artifact), self.target, plan.options))
        first = int(store.get(key) or b"0") if store is not None else 0

        crashes = []

        def compile_() -> bytes:
            try:
                return self.executable_bytes(artifact)
            except CompilerCrashed as error:
                crashes.append(error)
                raise

        try:
            number, vmfb = self._numbered_that_compiles(artifact, compile_, first)
        except (CompilationFailed, CompilerCrashed):
            if first == 0:
                raise
            number, vmfb = self._numbered_that_compiles(artifact, compile_, 0)
        if store is not None and number != first and not crashes:
            store.put(key, b"%d" % number)
        return vmfb

    def _first_that_compiles(self, artifact: Artifact, compile_: Callable[[], T]) -> T:
        return self._numbered_that_compiles(artifact, compile_, 0)[1]

    def _numbered_that_compiles(
        self, artifact: Artifact, compile_: Callable[[], T], first: int
    ) -> tuple[int, T]:
        """The number of the first attempt from ``first`` on that compiles, and its result.

        The artifact's plan becomes that attempt.

        Raises:
          CompilationFailed, CompilerCrashed: no attempt compiles. It is the error of the first one.
        """
        plan: Plan = artifact.plan
        failure: CompilationFailed | CompilerCrashed | None = None
        for number, attempt in enumerate(self._attempts(artifact, plan)):
            if number < first:
                continue
            artifact.plan = attempt
            try:
                return number, compile_()
            except (CompilationFailed, CompilerCrashed) as error:
                failure = failure or error
        artifact.plan = plan
        raise failure or CompilationFailed(f"there is no attempt {first} of {artifact.name}")

    def _attempts(self, artifact: Artifact, plan: Plan) -> Iterator[Plan]:
        """The plan, then others to try if the compiler rejects it."""
        yield plan
        if plan.options.data_tiling:
            # Data tiling makes programs faster, but a few too large for the compiler.
            plan = replace(plan, options=replace(plan.options, data_tiling=False))
            yield plan
        if plan.form is not None:
            forms = self.pipeline.forms
            others = forms[forms.index(plan.form) + 1 :]
            for given in self.pipeline.in_forms(artifact, plan.ordered, others):
                yield _with_input(plan, given)

    def executable_bytes(
        self,
        artifact: Artifact,
        options: CompileOptions | None = None,
        *,
        ignore_cache: bool = False,
    ) -> bytes:
        """The executable of a lowered program as IREE's ``.vmfb``, cached or compiled."""
        plan: Plan = artifact.plan
        return compile_artifact(
            _input_of(artifact),
            target=self.target,
            options=options or plan.options,
            ignore_cache=ignore_cache,
        )

    def put(self, array: np.ndarray, device: Device | None = None, *, copy: bool = False) -> Buffer:
        """An array on a device; see `Backend.put`."""
        device = device or self.devices()[0]
        if not device.shares_memory:
            return put(array, device, device.driver_state("async"))
        return Buffer.from_numpy(array.copy() if copy else array, device)

    def __repr__(self) -> str:
        return f"IreeBackend({self.platform!r})"


def _input_of(artifact: Artifact) -> bytes:
    """The compiler's input, as the artifact's plan says."""
    plan: Plan = artifact.plan
    return artifact.portable if plan.code is None else plan.code


def _with_input(plan: Plan, given: CompilerInput) -> Plan:
    """A plan with another input for the compiler, and the options that fit its form."""
    options = plan.options
    if given.calls_library:
        # The products that gain by tiling are the library's. For the small ones that are left, the
        # packing of each operand would be a separate kernel.
        options = replace(options, data_tiling=False)
    if given.form not in (None, Form.SELECTS):
        options = replace(options, hoist_constants=False)
    if given.form is Form.STEPS and options.execution_model == "async":
        # Python runs the steps, and returns when they are done.
        options = replace(options, execution_model="blocking")
    return replace(
        plan,
        code=given.code.encode() if given.code is not None else None,
        options=options,
        form=given.form,
        stepped=given.stepped,
    )


profiling.instrument(IreeBackend, "put", profiling.record_put)


@functools.cache
def iree_backend(name: str) -> IreeBackend:
    """The backend of a target, always the same object."""
    return IreeBackend(name)
