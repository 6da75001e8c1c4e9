"""IREE as a backend: one `IreeBackend` for each target that programs can run on."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from gnomon.backends import profiling
from gnomon.backends.cache import cache_key, default_cache
from gnomon.backends.compilation import (
    Artifact,
    Lowering,
    Observer,
    is_verifying,
    known_artifact,
)
from gnomon.backends.errors import CompilationFailed, CompilerCrashed, ExecutionError
from gnomon.backends.iree import program_cache
from gnomon.backends.iree.compiler import (
    compile_artifact,
    compile_with_flags,
    executable_key,
    prestart_if_possible,
)
from gnomon.backends.iree.device import Device, cpu_device, devices_of
from gnomon.backends.iree.emission import (
    LocatedCode,
    check_code_kind,
    emit_code,
    emit_located,
)
from gnomon.backends.iree.options import CompileOptions, ProgramCost, choose_options
from gnomon.backends.iree.plan import (
    KnownPlan,
    Plan,
    cost_of,
    input_of,
    with_input,
)
from gnomon.backends.iree.program_cache import KnownProgram
from gnomon.backends.iree.targets import find_target
from gnomon.dialects.deferred import Deferred
from gnomon.dialects.functions import Program
from gnomon.dialects.symbolic.dimension import Dimension

if TYPE_CHECKING:
    from gnomon.backends.iree import ahead_of_time, remote, remote_executable
    from gnomon.backends.iree import buffer as buffers
    from gnomon.backends.iree import executable as executables
    from gnomon.backends.iree import pipeline as pipelines
    from gnomon.backends.iree.dynamic import executable as sized_executables
    from gnomon.backends.iree.dynamic import lowering as dynamic_lowering
    from gnomon.backends.iree.legalize.after_lowering import device_description
    from gnomon.backends.iree.legalize.legalization import Legalization
else:
    # Programs that were compiled before need no passes, whose import takes longer than loading one.
    pipelines = Deferred("gnomon.backends.iree.pipeline")
    dynamic_lowering = Deferred("gnomon.backends.iree.dynamic.lowering")
    device_description = Deferred("gnomon.backends.iree.legalize.after_lowering.device_description")
    # The runtime is imported while the compiler's process works.
    ahead_of_time = Deferred("gnomon.backends.iree.ahead_of_time")
    buffers = Deferred("gnomon.backends.iree.buffer")
    executables = Deferred("gnomon.backends.iree.executable")
    remote = Deferred("gnomon.backends.iree.remote")
    remote_executable = Deferred("gnomon.backends.iree.remote_executable")
    sized_executables = Deferred("gnomon.backends.iree.dynamic.executable")

__all__ = ["IreeBackend", "Plan", "iree_backend"]

T = TypeVar("T")

# Programs with at least this many operations or kernels may run long enough to be interrupted.
_SLOW_FLOPS, _SLOW_DISPATCHES = 1e8, 1e4


class IreeBackend:
    """The backend of one of IREE's targets.

    Args:
      name: the target's name.
      legalizations: the legalizations to run; all by default.

    Attributes:
      platform: the target's platform, such as "cpu".
      target: the target.
    """

    def __init__(self, name: str, legalizations: Sequence[Legalization] | None = None) -> None:
        self.target = find_target(name)
        self.platform = self.target.platform
        self._legalizations = legalizations

    @functools.cached_property
    def pipeline(self) -> pipelines.Pipeline:
        """The passes from a program to the compiler's input."""
        if self._legalizations is None:
            return pipelines.Pipeline(self.target)
        return pipelines.Pipeline(self.target, self._legalizations)

    def devices(self) -> tuple[Device, ...]:
        """The devices; see `Backend.devices`."""
        return devices_of(self.target)

    def lower(
        self, program: Program, *, keep_stages: bool = False, observe: Observer | None = None
    ) -> Artifact:
        """Lower a program for the target; see `Backend.lower`."""
        lowering = Lowering(program, keep_stages=keep_stages, observe=observe)
        with profiling.span("lower", program=lowering.name):
            return self.lower_in(lowering)

    def lower_in(self, lowering: Lowering) -> Artifact:
        """Lower a program that may be expanded already; see `lower`."""
        lowered = self.pipeline.lower_in(lowering)
        artifact, functions = lowered.artifact, lowered.functions
        options = self._options(cost_of(artifact.cost), len(functions))
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
        artifact.plan = with_input(plan, lowered.given)
        return artifact

    def lower_to_run(self, program: Program) -> Artifact:
        """Lower a program only to `compile` it; see `interface.lower_to_run`.

        A program whose executable is in the cache is not lowered.
        """
        key = None
        if self._legalizations is None and not is_verifying():
            key = program_cache.key_of(program, self.target)
        if key is not None and (found := self.find_known(program, key)) is not None:
            return found
        if key is not None:
            self.prestart()
        artifact = self.lower(program)
        artifact.plan = artifact.plan._replace(program_key=key)
        return artifact

    def prestart(self) -> None:
        """Start the compiler's process, while this one lowers the program."""
        prestart_if_possible(self.target)

    def find_known(self, program: Program, key: str) -> Artifact | None:
        """The artifact of a program that was compiled before; None if there is none.

        Args:
          program: the program.
          key: see `program_cache.key_of`.
        """
        found = program_cache.find(key)
        return None if found is None else known_artifact(program, KnownPlan(program, *found))

    def lower_for_all_sizes(self, program: Program) -> tuple[Artifact, list[Dimension]]:
        """Lower a program with symbolic dimensions to one that runs for all sizes.

        Returns:
          The artifact, and the symbolic dimensions of the program's arrays.
        Raises:
          NotDynamic: it must be refined for the sizes of each call; the message says why.
          UnsupportedOnTarget: it has an op or a dtype that the target does not support.
        """
        lowering, dimensions = dynamic_lowering.lower_for_all_sizes(self.pipeline, program)
        artifact = lowering.artifact()
        options = self._options(cost_of(artifact.cost))
        artifact.plan = Plan(str(lowering.module).encode(), replace(options, data_tiling=False))
        return artifact, dimensions

    def load_for_all_sizes(
        self, program: Program
    ) -> tuple[sized_executables.SizedExecutable, list[Dimension]]:
        """Compile a program with symbolic dimensions for all sizes; see `lower_for_all_sizes`.

        Raises:
          CompilationError: the compiler failed.
        """
        artifact, dimensions = self.lower_for_all_sizes(program)
        plan: Plan = artifact.plan
        if plan.options.execution_model == "async":
            # The shapes of the results are known when the program has ended.
            artifact.plan = plan._replace(options=replace(plan.options, execution_model="blocking"))
        vmfb = self._compiled(artifact)
        executable = sized_executables.SizedExecutable(
            vmfb,
            name=artifact.name,
            input_types=artifact.input_types,
            output_types=artifact.output_types,
            device=cpu_device(),
            execution_model=artifact.plan.options.execution_model,
        )
        return executable, dimensions

    def _options(self, cost: ProgramCost, host_calls: int = 0) -> CompileOptions:
        if self.target.capabilities.host_memory:
            return choose_options(cost, host_calls)
        # Execution models and data tiling are choices for CPUs.
        return CompileOptions(execution_model="async")

    def compile(
        self, artifact: Artifact, *, device: Device | None = None, donate: tuple[int, ...] = ()
    ) -> executables.Executable:
        """Compile a lowered program; see `Backend.compile`."""
        device = device or self.devices()[0]
        plan = artifact.plan
        if isinstance(plan, KnownPlan):
            try:
                return self._load(artifact, plan.executable, plan.known, device, donate)
            except ExecutionError:
                artifact = self.lower(plan.program)
        with profiling.span("compile", program=artifact.name):
            vmfb = self._compiled(artifact, self._prepare_to_load)
        known = self._facts_of(artifact)
        try:
            return self._load(artifact, vmfb, known, device, donate)
        except ExecutionError:
            # The executable may come from the cache, and differ from the compiler's present output.
            again = self.executable_bytes(artifact, ignore_cache=True)
            if again == vmfb:
                raise
            return self._load(artifact, again, known, device, donate)

    def _load(
        self,
        artifact: Artifact,
        vmfb: bytes,
        known: KnownProgram,
        device: Device,
        donate: tuple[int, ...],
    ) -> executables.Executable:
        kind = (
            executables.Executable if device.shares_memory else remote_executable.RemoteExecutable
        )
        with profiling.span("load", program=artifact.name, bytes=len(vmfb)):
            return kind(
                vmfb,
                name=artifact.name,
                input_types=artifact.input_types,
                output_types=artifact.output_types,
                device=device,
                execution_model=known.execution_model,
                donate=donate,
                callbacks=artifact.callbacks,
                slow=known.slow,
                unbounded=known.unbounded,
            )

    def _facts_of(self, artifact: Artifact) -> KnownProgram:
        """What must be known of a compiled program to load it."""
        plan: Plan = artifact.plan
        return KnownProgram(
            executable_key(input_of(artifact), self.target, plan.options),
            plan.options.execution_model,
            artifact.cost.flops > _SLOW_FLOPS or artifact.cost.dispatches > _SLOW_DISPATCHES,
            plan.unbounded,
        )

    def compile_for(
        self, artifact: Artifact, architecture: str = "", *, donate: tuple[int, ...] = ()
    ) -> ahead_of_time.AheadOfTimeExecutable:
        """Compile a program that this backend lowered, for a device that may be elsewhere.

        Args:
          artifact: the program.
          architecture: ignored, since this backend has a single architecture.
          donate: positions of arguments whose buffers a call consumes.
        """
        artifact = self._without_library(artifact)
        vmfb = self._compiled(artifact)
        plan: Plan = artifact.plan
        return ahead_of_time.AheadOfTimeExecutable(
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
            return emit_code(input_of(artifact), kind, target=self.target, options=plan.options)

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
        tiled = self._options(cost_of(artifact.cost)).data_tiling
        plan = plan._replace(options=replace(plan.options, data_tiling=tiled))
        return replace(artifact, plan=with_input(plan, given))

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

    def _compiled(
        self, artifact: Artifact, meanwhile: Callable[[Plan], object] | None = None
    ) -> bytes:
        """The executable; sets the artifact's plan to the one that compiled.

        ``meanwhile`` is called with the plan while the compiler works.

        The compiler takes minutes to refuse some large programs. The cache therefore remembers
        which attempt compiled, and later processes begin with it. A crash is not remembered as a
        refusal: the machine may have lacked memory.
        """
        plan: Plan = artifact.plan
        store = default_cache()
        key = cache_key("attempt", executable_key(input_of(artifact), self.target, plan.options))
        first = int(store.get(key) or b"0") if store is not None else 0

        crashes = []

        def compile_() -> bytes:
            try:
                return self.executable_bytes(artifact, meanwhile=meanwhile)
            except CompilerCrashed as error:
                crashes.append(error)
                raise

        try:
            number, vmfb = self._numbered_that_compiles(artifact, compile_, first)
        except (CompilationFailed, CompilerCrashed):
            if first == 0:
                raise
            number, vmfb = self._numbered_that_compiles(artifact, compile_, 0)
        if crashes:
            return vmfb
        if store is not None and number != first:
            store.put(key, b"%d" % number)
        if plan.program_key is not None and not artifact.callbacks:
            program_cache.remember(plan.program_key, self._facts_of(artifact))
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
            plan = plan._replace(options=replace(plan.options, data_tiling=False))
            yield plan
        if plan.form is not None:
            forms = self.pipeline.forms
            others = forms[forms.index(plan.form) + 1 :]
            for given in self.pipeline.in_forms(artifact, plan.ordered, others):
                yield with_input(plan, given)

    def executable_bytes(
        self,
        artifact: Artifact,
        options: CompileOptions | None = None,
        *,
        ignore_cache: bool = False,
        meanwhile: Callable[[Plan], object] | None = None,
    ) -> bytes:
        """The executable of a lowered program as IREE's ``.vmfb``, cached or compiled."""
        plan: Plan = artifact.plan
        return compile_artifact(
            input_of(artifact),
            target=self.target,
            options=options or plan.options,
            ignore_cache=ignore_cache,
            meanwhile=functools.partial(meanwhile, plan) if meanwhile else None,
        )

    def _prepare_to_load(self, plan: Plan) -> None:
        """Import what loads a program and start its device, while the compiler works."""
        if self.target.is_host:
            importlib.import_module(executables.__name__)
            cpu_device().driver_state(plan.options.execution_model)

    def put(
        self, array: np.ndarray, device: Device | None = None, *, copy: bool = False
    ) -> buffers.Buffer:
        """An array on a device; see `Backend.put`."""
        device = device or self.devices()[0]
        if not device.shares_memory:
            return remote.put(array, device, device.driver_state("async"))
        return buffers.Buffer.from_numpy(array.copy() if copy else array, device)

    def __repr__(self) -> str:
        return f"IreeBackend({self.platform!r})"


profiling.instrument(IreeBackend, "put", profiling.record_put)


@functools.cache
def iree_backend(name: str) -> IreeBackend:
    """The backend of a target, always the same object."""
    return IreeBackend(name)
