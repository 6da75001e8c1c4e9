"""How IREE compiles and loads a program: the data that its backend keeps in `Artifact.plan`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gnomon.backends.compilation import Artifact
from gnomon.backends.iree.options import CompileOptions, ProgramCost
from gnomon.backends.iree.program_cache import KnownProgram
from gnomon.dialects.deferred import Deferred
from gnomon.dialects.functions import Program
from gnomon.passes.cost import Cost

if TYPE_CHECKING:
    from gnomon.backends.iree.legalize.control import forms
    from gnomon.backends.iree.pipeline import CompilerInput
else:
    forms = Deferred("gnomon.backends.iree.legalize.control.forms")

__all__ = ["KnownPlan", "Plan", "cost_of", "input_of", "with_input"]


class Plan(NamedTuple):
    """How IREE compiles a program.

    Attributes:
      code: the compiler's input: None for the portable artifact, or text, see `CompilerInput`.
      options: the compiler's options.
      form: the form of its control flow; None if it has none.
      stepped: whether Python runs steps of it, see `steps`.
      ordered: the host functions whose calls keep their order.
      host_ops: names of the ops that the program leaves to Python.
      unbounded: whether it has a loop that may run any number of times.
      program_key: the key under which to remember the program as it was traced; None if it is not
        remembered.
    """

    code: bytes | None
    options: CompileOptions
    form: forms.Form | None = None
    stepped: bool = False
    ordered: frozenset[str] = frozenset()
    host_ops: tuple[str, ...] = ()
    unbounded: bool = False
    program_key: str | None = None


class KnownPlan(NamedTuple):
    """What `IreeBackend.compile` needs of a program that was compiled before.

    Attributes:
      program: the program, to be lowered if its executable does not load.
      known: its entry in the cache.
      executable: its executable.
    """

    program: Program
    known: KnownProgram
    executable: bytes


def cost_of(cost: Cost) -> ProgramCost:
    """What the choice of options needs to know of a program's cost."""
    return ProgramCost(*(getattr(cost, name) for name in ProgramCost._fields))


def input_of(artifact: Artifact) -> bytes:
    """The compiler's input, as the artifact's plan says."""
    plan: Plan = artifact.plan
    return artifact.portable if plan.code is None else plan.code


def with_input(plan: Plan, given: CompilerInput) -> Plan:
    """A plan with another input for the compiler, and the options that fit its form."""
    options = plan.options
    if given.calls_library:
        # The products that gain by tiling are the library's. For the small ones that are left, the
        # packing of each operand would be a separate kernel.
        options = replace(options, data_tiling=False)
    if given.form not in (None, forms.Form.SELECTS):
        options = replace(options, hoist_constants=False)
    if given.form is forms.Form.STEPS and options.execution_model == "async":
        # Python runs the steps, and returns when they are done.
        options = replace(options, execution_model="blocking")
    return plan._replace(
        code=given.code.encode() if given.code is not None else None,
        options=options,
        form=given.form,
        stepped=given.stepped,
    )
