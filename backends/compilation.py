"""From a program of the gnomon dialect to a portable artifact: the part shared by all backends.

A backend's `lower` drives a `Lowering`, with its own legalization in between:

    lowering = Lowering(program, keep_stages=keep_stages, observe=observe)
    cost = lowering.expand()                    # transformations and calls are gone
    ...                                         # the backend's legalization
    lowering.to_stablehlo()
    return lowering.artifact(plan=...)
"""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gnomon.backends import profiling
from gnomon.backends.errors import add_note
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir, stablehlo
from gnomon.dialects.types import TensorType
from gnomon.passes.cost import Cost, estimate
from gnomon.passes.pipeline import EXPAND, LOWER, PASSES, Pass, run_passes

__all__ = [
    "Artifact",
    "Lowering",
    "Observer",
    "Portable",
    "Stages",
    "Text",
    "is_verifying",
    "serialize",
    "verified",
]

Observer: TypeAlias = "Callable[[Pass, ir.Module], None]"


class Text:
    """A program as text, with or without locations, printed on demand.

    Printing costs several times as much as copying the module, and most texts are never read.
    """

    def __init__(self, module: ir.Module | None = None) -> None:
        self._copy = module.operation.clone(ip=False) if module is not None else None

    @functools.cached_property
    def plain(self) -> str:
        """The text without locations."""
        return self._print(enable_debug_info=False)

    @functools.cached_property
    def located(self) -> str:
        """The text with locations, which name the user's lines."""
        return self._print(enable_debug_info=True)

    def _print(self, *, enable_debug_info: bool) -> str:
        if self._copy is None:
            return ""
        return str(self._copy.get_asm(enable_debug_info=enable_debug_info, assume_verified=True))


@dataclass
class Stages:
    """The texts of a program at its stages, kept only on request.

    Attributes:
      traced: the program as traced, with transformations as ops.
      expanded: the program without transformations.
      legalized: the program rewritten for the backend.
      stablehlo: the program that the compiler gets.
    """

    traced: Text = field(default_factory=Text)
    expanded: Text = field(default_factory=Text)
    legalized: Text = field(default_factory=Text)
    stablehlo: Text = field(default_factory=Text)


class Portable:
    """A module of StableHLO as a portable artifact, serialized on first use.

    Serializing takes longer than lowering, and programs that are only printed do not need it.

    Args:
      module: the module, which is copied.
      version: the version of StableHLO.
    """

    def __init__(self, module: ir.Module, version: str) -> None:
        self._copy: ir.Module | None = _copied(module)
        self._version = version
        self._bytes = b""
        self._lock = threading.Lock()

    def read(self) -> bytes:
        """The artifact."""
        with self._lock:
            if self._copy is not None:
                self._bytes = _serialize(self._copy, self._version)
                self._copy = None
            return self._bytes


@dataclass
class Artifact:
    """A lowered program.

    Attributes:
      program: the lowered module, which `portable` serializes.
      input_types, output_types: the types of the arguments and results of ``main``.
      cost: the estimated cost.
      callbacks: the Python functions that it calls.
      stages: its texts, if they were requested.
      plan: additional data that the backend that lowered it needs to compile it.
      name: the name of the module: ``"jit_f"``.
    """

    program: Portable
    input_types: Sequence[TensorType]
    output_types: Sequence[TensorType]
    cost: Cost
    callbacks: tuple[Callback, ...] = ()
    stages: Stages = field(default_factory=Stages)
    plan: Any = None
    name: str = "main"

    @property
    def portable(self) -> bytes:
        """The portable StableHLO artifact (VHLO bytecode)."""
        return self.program.read()


class _NotLowered(Portable):
    """The portable form of a program that was not lowered, which has no reader."""

    def __init__(self) -> None:
        """There is nothing to serialize."""

    def read(self) -> bytes:
        raise RuntimeError("the program was compiled before, and is not lowered")


def known_artifact(program: Program, plan: Any) -> Artifact:
    """The artifact of a program that was compiled before, which is not lowered.

    Args:
      program: the program.
      plan: what loading the program takes.
    """
    arguments, results = program.signature("main")
    return Artifact(_NotLowered(), arguments, results, Cost(), plan=plan, name=program.module_name)


_verifies = contextvars.ContextVar("verifies", default=False)


@contextmanager
def verified(on: bool = True) -> Iterator[None]:
    """Within the block, verify programs after each pass of their lowering."""
    token = _verifies.set(on)
    try:
        yield
    finally:
        _verifies.reset(token)


def is_verifying() -> bool:
    """Whether programs are verified after each pass of their lowering; see `verified`."""
    return _verifies.get()


def _verifying(observe: Observer | None) -> Observer:
    def check(step: Pass, module: ir.Module) -> None:
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            add_note(error, f"The pass {step.name} produced this invalid program.")
            raise
        if observe is not None:
            observe(step, module)

    return check


class Lowering:
    """A program on its way to StableHLO.

    Args:
      program: a program whose public function is ``main``; the module is consumed.
      keep_stages: whether to keep its text at each stage.
      observe: called after each pass.

    Attributes:
      module: the program in its current form.
      stages: the texts so far.
      cost: the estimated cost, available once the program is expanded.
    """

    def __init__(
        self, program: Program, *, keep_stages: bool = False, observe: Observer | None = None
    ) -> None:
        self.module = program.module
        self.stages = Stages()
        self.cost = Cost()
        self._signature = program.signature("main")
        self._keep_stages = keep_stages
        self._expanded = False
        self._observe = _verifying(observe) if _verifies.get() else observe
        self._keep("traced")

    @property
    def name(self) -> str:
        """The name of the module."""
        return Program(self.module).module_name

    def _keep(self, stage: str) -> None:
        if self._keep_stages:
            setattr(self.stages, stage, Text(self.module))

    def run(self, names: Sequence[str]) -> None:
        """Run passes of the common table, by name."""
        for name in names:
            with profiling.span(name):
                run_passes(self.module, [name], self._observe)

    def expand(self, then: Sequence[str] = ()) -> Cost:
        """Expand transformations, inline calls, run more passes; return the estimated cost.

        A second call only runs its passes.
        """
        if not self._expanded:
            self.run(EXPAND)
            self._keep("expanded")
            self._expanded = True
        self.run(then)
        self.cost = estimate(Program(self.module).body("main"))
        return self.cost

    def legalize(self, step: Pass) -> None:
        """Run a legalization pass of the backend."""
        with profiling.span(step.name):
            step.run(self.module)
        if self._observe is not None:
            self._observe(step, self.module)

    def to_stablehlo(self) -> None:
        """Lower the legalized program to StableHLO."""
        self._keep("legalized")
        self.run(LOWER)

    def artifact(
        self,
        *,
        version: str | None = None,
        plan: Any = None,
        callbacks: tuple[Callback, ...] = (),
    ) -> Artifact:
        """The lowered program.

        Args:
          version: the version of StableHLO; the newest by default.
          plan, callbacks: see `Artifact`.
        """
        self._keep("stablehlo")
        return Artifact(
            Portable(self.module, version or stablehlo.get_current_version()),
            self._signature.arguments,
            self._signature.results,
            self.cost,
            callbacks,
            self.stages,
            plan,
            self.name,
        )


def has_open_loops(module: ir.Module) -> bool:
    """Whether a program whose scans are not expanded yet has loops without a trip count."""
    found = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name != "gnomon.while":
            return ir.WalkResult.ADVANCE
        found.append(op)
        return ir.WalkResult.INTERRUPT

    module.operation.walk(visit)
    return bool(found)


def serialize(module: ir.Module, version: str) -> bytes:
    """The portable artifact of a module of StableHLO, without locations.

    Without locations, programs that differ only in locations share an entry of the cache.
    """
    return _serialize(_copied(module), version)


def _copied(module: ir.Module) -> ir.Module:
    """A copy of a module of StableHLO to serialize, since serializing modifies it."""
    copy = ir.Module.create(ir.Location.unknown(context()))
    for name in module.operation.attributes:
        copy.operation.attributes[name] = module.operation.attributes[name]
    for function in module.body.operations:
        cloned = function.operation.clone(ip=ir.InsertionPoint(copy.body))
        # The portable form has no such attribute; nothing is inlined after this.
        if "no_inline" in cloned.attributes:
            del cloned.attributes["no_inline"]
    return copy


def _serialize(module: ir.Module, version: str) -> bytes:
    PASSES["strip-debuginfo"].run(module)
    return bytes(stablehlo.serialize_portable_artifact(module, version))
