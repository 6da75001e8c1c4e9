"""The forms in which a program's control flow may be compiled, the best one first.

If the compiler rejects a program in one form, the next form is tried. It accepts every program in
the last one, which contains no control flow, because Python runs every step.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gnomon.backends.iree.legalize.control.guards import guard_loops
from gnomon.backends.iree.legalize.control.host_control import has_control_flow, host_control
from gnomon.backends.iree.legalize.control.pieces import (
    every_step,
    split_into_pieces,
    steps_for_order,
)
from gnomon.backends.iree.legalize.control.rewriter import OpenLoopError
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.dialects.mlir import ir, other_dialects

__all__ = ["LEGALIZATIONS", "ControlFlowResult", "Form", "forms_of", "write_control_flow"]


class Form(enum.Enum):
    """A form of control flow; the value is its legalization's name.

    In all forms, loops and branches that contain calls with a fixed order are steps.
    """

    # Counted loops on the host, small loops as kernels.
    HOST = "host-control"
    # The same, with copies where arrays enter loops and leave branches.
    COPIES = "copied-arrays"
    # StableHLO loops, in which each carry is chosen by a select.
    SELECTS = "guarded-loops"
    # All loops, branches and calls as steps.
    STEPS = "steps"


def forms_of(legalizations: Iterable[Legalization]) -> tuple[Form, ...]:
    """The forms that a list of legalizations has, the best one first."""
    return tuple(Form(one.name) for one in legalizations if one.stage is Stage.CONTROL_FLOW)


class ControlFlowResult(NamedTuple):
    """A program with its control flow rewritten, ready for the compiler.

    Attributes:
      text: the program.
      stepped: whether Python runs steps of it; if so, it cannot run without gnomon.
    """

    text: str
    stepped: bool


def write_control_flow(
    module: ir.Module,
    form: Form,
    *,
    ordered: frozenset[str],
    kernels: bool,
    finish: Callable[[ir.Module], None],
) -> ControlFlowResult | None:
    """Rewrite a StableHLO module in place.

    Args:
      module: the module.
      form: the form of its control flow.
      ordered: symbols of the host functions whose calls keep their order.
      kernels: whether small loops may become kernels.
      finish: rewrites the module after its control flow.

    Returns:
      The program for the compiler, or None if the form cannot express one of its loops. In that
      case the module must not be used any more.
    """
    is_step = every_step if form is Form.STEPS else steps_for_order(ordered)
    try:
        with other_dialects(module.context):
            stepped = split_into_pieces(module, is_step)
            if not has_control_flow(module):
                pass
            elif form is Form.SELECTS:
                guard_loops(module)
            else:
                host_control(module, kernels=kernels, guarded=form is Form.COPIES)
            # After the control flow, since the code of loop kernels is scalar and needs no rewrite.
            finish(module)
            return ControlFlowResult(str(module), stepped)
    except OpenLoopError:
        return None


LEGALIZATIONS = (
    Legalization(
        name="host-control",
        stage=Stage.CONTROL_FLOW,
        kind=Kind.SLOW,
        doc="run counted loops and their counters on the host, and small loops in a kernel",
        upstream="IREE 3.13 keeps counters on the device, and waits for them in each iteration",
        reproducer="the host waits seven times as often in a loop of updates of an array",
    ),
    Legalization(
        name="copied-arrays",
        stage=Stage.CONTROL_FLOW,
        kind=Kind.REFUSED,
        doc="copy arrays that enter loops and leave branches, if the first form is rejected",
        upstream="IREE 3.13 rejects a loop if one of its arrays turns out to be a literal or equal "
        "to another one",
        no_report="only random programs of a hundred operations are known to be rejected",
        no_reproducer="the random program that was rejected without it is now compiled in a later "
        "form, and no other was found",
    ),
    Legalization(
        name="guarded-loops",
        stage=Stage.CONTROL_FLOW,
        kind=Kind.REFUSED,
        doc="select each carry at the end of the body by the loop's condition",
        upstream="IREE 3.13 prunes the two regions of ``scf.while`` differently, and fails to "
        "verify it or crashes",
        texts=("loops_with_flags",),
        reproducer="a loop with a bool carry in its condition does not compile",
    ),
    Legalization(
        name="steps",
        stage=Stage.CONTROL_FLOW,
        kind=Kind.MISCOMPILED,
        doc="let Python run calls with a fixed order, and the loops and branches around them",
        upstream="IREE 3.13 does not keep the order of host calls in and around control flow",
        no_report="a program for IREE's own tools has no host calls",
        reproducer="a random program calls Python in another order",
    ),
)
