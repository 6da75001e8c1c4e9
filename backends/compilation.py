"""From a program of the gnomon dialect to something that runs: the pipeline of a backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gnomon.backends.iree.compiler import (
    CompileOptions,
    ProgramCost,
    choose_options,
    compile_artifact,
)
from gnomon.backends.iree.device import cpu_device
from gnomon.backends.iree.errors import CompilationFailed, CompilerCrashed
from gnomon.backends.iree.executable import Executable
from gnomon.backends.iree.host import collect, publish
from gnomon.backends.iree.legalize import legalize
from gnomon.backends.iree.legalize.host_control import (
    guard_loops,
    has_control_flow,
    host_control,
    runs_on_host,
)
from gnomon.backends.iree.targets import TARGETS
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir, stablehlo
from gnomon.dialects.types import TensorType
from gnomon.passes.cost import estimate
from gnomon.passes.pipeline import EXPAND, LOWER, PASSES, Pass, run_passes

Observer = Callable[[Pass, ir.Module], None]


@dataclass
class Text:
    """A program as text, without locations and with them."""

    plain: str = ""
    located: str = ""

    @staticmethod
    def of(module: ir.Module) -> Text:
        """The text of a module."""
        return Text(str(module), module.operation.get_asm(enable_debug_info=True))


@dataclass
class Stages:
    """The texts of a program at its stages, kept where somebody asked for them.

    Attributes:
      traced: as Python traced it, transformations as ops.
      expanded: without transformations.
      legalized: rewritten for the backend.
      stablehlo: what the compiler gets.
    """

    traced: Text = field(default_factory=Text)
    expanded: Text = field(default_factory=Text)
    legalized: Text = field(default_factory=Text)
    stablehlo: Text = field(default_factory=Text)


@dataclass
class Artifact:
    """A lowered program.

    Attributes:
      portable: the portable StableHLO artifact (VHLO bytecode).
      code: what the compiler gets: the same, or text where control flow runs on the host.
      input_types, output_types: of ``main``.
      options: how the backend should compile it.
      cost: what it does, as estimated.
      callbacks: the Python functions that it calls.
      stages: texts, where they were asked for.
    """

    portable: bytes
    code: bytes
    input_types: Sequence[TensorType]
    output_types: Sequence[TensorType]
    options: CompileOptions
    cost: ProgramCost
    callbacks: tuple[Callback, ...] = ()
    stages: Stages = field(default_factory=Stages)


def lower(
    program: Program, *, keep_stages: bool = False, observe: Observer | None = None
) -> Artifact:
    """Lower a program whose public function is ``main``; the module is consumed."""
    module = program.module
    signature = program.signature("main")
    stages = Stages()
    if keep_stages:
        stages.traced = Text.of(module)
    run_passes(module, EXPAND, observe)
    if keep_stages:
        stages.expanded = Text.of(module)
    cost = ProgramCost(**vars(estimate(Program(module).body("main"))))
    options = choose_options(cost)
    run_passes(module, ("expand-scan",), observe)
    legalize(module, TARGETS["cpu"])
    if observe is not None:
        observe(Pass("legalize-for-iree", "rewrite what IREE cannot take", lambda _: None), module)
    functions, callbacks = collect(module)
    if functions and options.execution_model == "async":
        # The program's thread waits for the operands of a host call, so it is not free to return.
        options = replace(options, execution_model="blocking")
    if keep_stages:
        stages.legalized = Text.of(module)
    run_passes(module, LOWER, observe)
    publish(module, functions)
    on_host = not functions and runs_on_host(module)
    if not on_host and has_control_flow(module):
        guard_loops(module)
    text = str(module)
    if keep_stages:
        stages.stablehlo = Text.of(module)
    portable = stablehlo.serialize_portable_artifact_str(text, stablehlo.get_current_version())
    code = host_control(module).encode() if on_host else portable
    return Artifact(
        portable, code, signature.arguments, signature.results, options, cost, callbacks, stages
    )


def compile_lowered(artifact: Artifact, donate: tuple[int, ...] = ()) -> Executable:
    """Compile a lowered program for the CPU."""
    options = artifact.options
    try:
        vmfb = compile_artifact(artifact.code, target=TARGETS["cpu"], options=options)
    except (CompilationFailed, CompilerCrashed):
        if not options.data_tiling:
            raise
        # It makes programs faster, and a few too large for the compiler.
        options = replace(options, data_tiling=False)
        vmfb = compile_artifact(artifact.code, target=TARGETS["cpu"], options=options)
    return Executable(
        vmfb,
        input_types=artifact.input_types,
        output_types=artifact.output_types,
        device=cpu_device(),
        execution_model=options.execution_model,
        donate=donate,
        callbacks=artifact.callbacks,
    )


__all__ = ["PASSES", "Artifact", "Stages", "Text", "compile_lowered", "lower"]
