"""The pipeline from a program of the gnomon dialect to the input of IREE's compiler.

`IreeBackend` compiles the result of `Pipeline.lower`, and `gnomon-opt --pipeline=iree` prints it.
An observer is called after each pass, and legalizations are passes.

MLIR's own pass manager also runs Python passes (``PassManager.add``), and propagates their
exceptions. It is not used here, for these reasons. The pipeline is not a fixed sequence: between
passes, the cost is estimated, host functions are collected and a form of control flow is chosen,
and later forms start from the serialized artifact. Its IR printing and timing write to standard
error, and printing needs a context without threads, while an observer gets the module. Its crash
reproducers are textual pipelines, which cannot name Python passes. It also costs 13 us per pass,
and 190 with its verifier, against less than one here, and a small program has 35 passes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from gnomon.backends.compilation import Artifact, Lowering, Observer, has_open_loops
from gnomon.backends.iree.blas import SYMBOL
from gnomon.backends.iree.host_functions import HostFunction, collect, publish
from gnomon.backends.iree.legalize import library_products, text_kernels
from gnomon.backends.iree.legalize.after_lowering.device_description import describe_device
from gnomon.backends.iree.legalize.control.forms import Form, forms_of, write_control_flow
from gnomon.backends.iree.legalize.control.host_control import has_control_flow
from gnomon.backends.iree.legalize.control.rewriter import CONTROL_FLOW
from gnomon.backends.iree.legalize.legalization import (
    DIALECT_STAGES,
    Legalization,
    OnModule,
    OnProgram,
    Rules,
    Stage,
    of_stage,
    rules_of,
)
from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.backends.iree.targets import Target
from gnomon.backends.rewriting import Rule, rewrite
from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir, other_dialects, stablehlo
from gnomon.passes.pipeline import Pass

__all__ = [
    "CompilerInput",
    "Lowered",
    "Pipeline",
    "has_compiler_ops",
    "legalization_passes",
    "legalize",
]

# The host runs one or several kernels for each iteration of a loop, so ops that need not be in the
# loop are moved out of it.
_BEFORE_LOOPS_ARE_EXPANDED = (
    "hoist-invariants",
    "split-scans",
    "drop-unused-results",
    "canonicalize",
    "cse",
)

# Legalizations write bounds of indices, for example, which need not be computed in a loop either.
_BEFORE_THE_LOWERING = ("hoist-invariants",)

# Ops of the compiler's own dialects, which the portable artifact cannot have.
_COMPILER_OPS = frozenset({text_kernels.EXECUTABLE})


class CompilerInput(NamedTuple):
    """The compiler's input for a program, besides flags.

    Attributes:
      code: text if control flow runs on the host, the device is described, or kernels are written
        for the compiler; None for the portable artifact.
      form: the form of its control flow; None if it has none.
      stepped: whether Python runs steps of it, see `steps`.
    """

    code: str | None
    form: Form | None = None
    stepped: bool = False

    @property
    def calls_library(self) -> bool:
        """Whether NumPy's BLAS computes the program's large products."""
        return self.code is not None and SYMBOL in self.code


class Lowered(NamedTuple):
    """A lowered program.

    Attributes:
      artifact: the portable artifact, with the program's cost.
      given: the compiler's input, with control flow in the first form that can express it.
      functions: the host functions that it calls.
      ordered: the symbols of the host functions whose calls keep their order.
      unbounded: whether it has a loop that may run any number of times.
    """

    artifact: Artifact
    given: CompilerInput
    functions: tuple[HostFunction, ...] = ()
    ordered: frozenset[str] = frozenset()
    unbounded: bool = False

    @property
    def text(self) -> str:
        """The compiler's input as text."""
        if self.given.code is not None:
            return self.given.code
        ensure_context()
        module = stablehlo.deserialize_portable_artifact(context(), self.artifact.portable)
        return str(module)


class Pipeline:
    """The passes from programs to the compiler's input for one target.

    Args:
      target: the target.
      legalizations: the legalizations to run; all by default.

    Attributes:
      target: the target.
      forms: the forms of control flow to try, the best one first.
      legalizations: the legalizations that run.
    """

    def __init__(
        self, target: Target, legalizations: Sequence[Legalization] = LEGALIZATIONS
    ) -> None:
        self.target = target
        self.forms = forms_of(legalizations)
        self.legalizations = tuple(legalizations)

    def lower(
        self, program: Program, *, keep_stages: bool = False, observe: Observer | None = None
    ) -> Lowered:
        """Lower a program, whose module is consumed.

        Args:
          program: the program, whose public function is ``main``.
          keep_stages: whether to keep its text at each stage.
          observe: a function to call after each pass.

        Raises:
          UnsupportedOnTarget: it has an op or a dtype that the target does not support.
        """
        return self.lower_in(Lowering(program, keep_stages=keep_stages, observe=observe))

    def lower_in(self, lowering: Lowering) -> Lowered:
        """Lower a program that may be expanded already; see `lower`."""
        lowering.expand(_BEFORE_LOOPS_ARE_EXPANDED)
        module = lowering.module
        unbounded = has_open_loops(module)
        lowering.run(("expand-scan",))
        for step in self._on_program(module):
            lowering.legalize(step)
        lowering.run(_BEFORE_THE_LOWERING)
        functions, callbacks = collect(module)
        lowering.to_stablehlo()
        names = _OpNames()
        for step in self._on_module(Stage.LOWERED, names):
            lowering.legalize(step)
        publish(module, functions)
        controlled = names.occurs(CONTROL_FLOW, module)
        if not controlled:
            for step in self._on_module(Stage.LAST, names):
                lowering.legalize(step)
        artifact = lowering.artifact(callbacks=callbacks)
        code = describe_device(module, self.target) if self.target.device else None
        ordered = frozenset(f.symbol for f in functions if REGISTRY[f"gnomon.{f.op}"].effects)
        given = CompilerInput(code)
        if controlled:
            given = next(self.in_forms(artifact, ordered, self.forms, module), given)
        elif (code := self._with_kernels(module, names, lowering.legalize)) is not None:
            given = CompilerInput(code)
        return Lowered(artifact, given, tuple(functions), ordered, unbounded)

    def in_forms(
        self,
        artifact: Artifact,
        ordered: frozenset[str],
        forms: Sequence[Form],
        module: ir.Module | None = None,
    ) -> Iterator[CompilerInput]:
        """A program with its control flow in each of the forms that can express it.

        Args:
          artifact: the program.
          ordered: symbols of the host functions whose calls keep their order.
          forms: the forms to try.
          module: the program as a module, which is consumed.
        """
        has_open_loops = False
        for form in forms:
            if has_open_loops and form is Form.COPIES:
                continue
            module = module or self.read(artifact)
            written = write_control_flow(
                module,
                form,
                ordered=ordered if Form.STEPS in self.forms else frozenset(),
                # A kernel of a loop is a single thread, which is fast only on a CPU.
                kernels=self.target.capabilities.host_memory,
                finish=self._finish,
            )
            module = None
            if written is None:
                has_open_loops = True
                continue
            yield CompilerInput(written.text, form, written.stepped)

    def without_library(self, artifact: Artifact, ordered: frozenset[str]) -> CompilerInput | None:
        """The compiler's input for a program that must run without NumPy's BLAS.

        Args:
          artifact: the program.
          ordered: see `in_forms`.

        Returns:
          The input; None if programs for the target never call the BLAS.
        """
        kept = tuple(one for one in self.legalizations if one not in library_products.LEGALIZATIONS)
        of_target = functools.partial(of_stage, stage=Stage.COMPILER_OPS, target=self.target)
        if len(of_target(kept)) == len(of_target(self.legalizations)):
            return None
        module = self.read(artifact)
        pipeline = Pipeline(self.target, kept)
        if not has_control_flow(module):
            return CompilerInput(
                pipeline._with_kernels(module, _OpNames(), lambda step: step.run(module))
            )
        return next(pipeline.in_forms(artifact, ordered, self.forms, module), CompilerInput(None))

    def _with_kernels(
        self, module: ir.Module, names: _OpNames, run: Callable[[Pass], object]
    ) -> str | None:
        """A module without control flow as text, with kernels of ours; None if it needs none."""
        with other_dialects(context()):
            for step in self._on_module(Stage.COMPILER_OPS, names):
                run(step)
            return str(module) if names.occurs(_COMPILER_OPS, module) else None

    def read(self, artifact: Artifact) -> ir.Module:
        """The StableHLO module of a lowered program, with the target's device."""
        ensure_context()
        module = stablehlo.deserialize_portable_artifact(context(), artifact.portable)
        if self.target.device:
            describe_device(module, self.target)
        return module

    def _finish(self, module: ir.Module) -> None:
        for stage in (Stage.LAST, Stage.COMPILER_OPS):
            for step in self._on_module(stage):
                step.run(module)

    def _on_program(self, module: ir.Module) -> Iterator[Pass]:
        """The legalizations on the gnomon dialect: the rules of each stage, then its passes."""
        program = Program(module)
        for stage in DIALECT_STAGES:
            rules = rules_of(self.legalizations, stage, self.target)
            if rules:
                yield Pass(
                    f"{stage.name.lower().replace('_', '-')}-ops",
                    f"rewrite {stage.value}",
                    functools.partial(_rewrite, program, rules),
                )
            for one in of_stage(self.legalizations, stage, self.target):
                if one.run is not None:
                    yield Pass(one.name, one.doc, _on_program(one.run, program, self.target))

    def _on_module(self, stage: Stage, names: _OpNames | None = None) -> Iterator[Pass]:
        # Between stages that share names, only declarations may be added.
        names = names or _OpNames()
        for one in of_stage(self.legalizations, stage, self.target):
            if one.run is not None:
                yield Pass(one.name, one.doc, functools.partial(names.run, one, self.target))


class _OpNames:
    """Runs legalizations where their ops occur; collects names again after a change.

    A module of thousands of ops takes milliseconds to walk, and most legalizations are for ops
    that it does not have.
    """

    def __init__(self) -> None:
        self._names: frozenset[str] | None = None

    def occurs(self, names: frozenset[str], module: ir.Module) -> bool:
        """Whether a module has an op with one of the names."""
        if self._names is None:
            self._names = _names_of(module)
        return not self._names.isdisjoint(names)

    def run(self, one: Legalization, target: Target, module: ir.Module) -> None:
        """Run a legalization on a module, unless the module has none of the ops that it needs."""
        if one.needs and not self.occurs(one.needs, module):
            return
        if cast(OnModule, one.run)(module, target):
            self._names = None


def has_compiler_ops(module: ir.Module) -> bool:
    """Whether a module has ops of the compiler's own dialects."""
    return not _names_of(module).isdisjoint(_COMPILER_OPS)


def _names_of(module: ir.Module) -> frozenset[str]:
    """The names of all ops of a module."""
    found: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.add(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return frozenset(found)


def _rewrite(program: Program, rules: Mapping[str, Rule], module: ir.Module) -> None:
    # `program` wraps the module. It is passed on because it numbers the functions that rules write.
    rewrite(program, rules)


def _on_program(
    run: OnProgram | OnModule, program: Program, target: Target
) -> Callable[[ir.Module], None]:
    chosen = cast(OnProgram, run)
    return lambda _module: chosen(program, target)


def _on_module(run: OnProgram | OnModule, target: Target) -> Callable[[ir.Module], None]:
    chosen = cast(OnModule, run)

    def on_module(module: ir.Module) -> None:
        chosen(module, target)

    return on_module


def legalize(
    module: ir.Module, target: Target, legalizations: Sequence[Legalization] = LEGALIZATIONS
) -> None:
    """Rewrite a module of the gnomon dialect in place, by the stages before the lowering.

    Raises:
      UnsupportedOnTarget: it has an op or a dtype that the target does not support.
    """
    for step in Pipeline(target, legalizations)._on_program(module):
        step.run(module)


def legalization_passes(
    target: Target, legalizations: Sequence[Legalization] = LEGALIZATIONS
) -> dict[str, Pass]:
    """The legalizations for a target, each as a separate pass, by name.

    Those of control flow produce StableHLO with ops of the compiler's dialects.
    """
    passes = [
        Pass(
            "legalize-for-iree",
            "run all legalizations that come before the lowering",
            lambda module: legalize(module, target, legalizations),
        )
    ]
    for one in legalizations:
        if target not in one.targets:
            continue
        run: Callable[[ir.Module], None]
        if one.stage is Stage.CONTROL_FLOW:
            run = functools.partial(_write_form, Form(one.name), target)
        elif one.rules is not None:
            run = functools.partial(_rewrite_alone, one.rules, target)
        elif one.stage in DIALECT_STAGES:
            run = functools.partial(_run_alone, cast(OnProgram, one.run), target)
        else:
            run = _on_module(cast(OnModule, one.run), target)
        passes.append(Pass(one.name, one.doc, run))
    return {one.name: one for one in passes}


def _write_form(form: Form, target: Target, module: ir.Module) -> None:
    kernels = target.capabilities.host_memory
    written = write_control_flow(
        module, form, ordered=frozenset(), kernels=kernels, finish=lambda _module: None
    )
    if written is None:
        raise ValueError(f"{form.value}: a loop has no trip count and is not a kernel")


def _rewrite_alone(rules: Rules, target: Target, module: ir.Module) -> None:
    rewrite(Program(module), rules(target))


def _run_alone(run: OnProgram, target: Target, module: ir.Module) -> None:
    run(Program(module), target)
