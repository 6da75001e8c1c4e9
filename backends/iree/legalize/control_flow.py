"""The forms in which IREE may get a program's control flow, the best one first.

What the compiler refuses in one form it gets in the next. The last one is always taken: it has no
control flow, since Python takes every step.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from gnomon.backends.iree.legalize.constant_reductions import guard_reductions
from gnomon.backends.iree.legalize.guards import guard_loops
from gnomon.backends.iree.legalize.host_control import OpenLoopError, has_control_flow, host_control
from gnomon.backends.iree.legalize.pieces import every_step, split_into_pieces, steps_for_order
from gnomon.backends.iree.legalize.selects import split_complex_selects
from gnomon.dialects.mlir import ir, other_dialects

__all__ = ["Form", "Written", "write_control_flow"]


class Form(enum.Enum):
    """A form of control flow.

    In the first three, loops and branches with calls whose order counts are steps.
    """

    HOST = "loops that count on the host, small ones as kernels"
    COPIES = "the same, with copies where arrays enter loops and leave branches"
    SELECTS = "loops as they are, each carry behind a select"
    STEPS = "all loops, branches and calls as steps"


class Written(NamedTuple):
    """What the compiler reads.

    Attributes:
      text: the program.
      stepped: whether Python takes steps of it: it is no program without gnomon then.
    """

    text: str
    stepped: bool


def write_control_flow(
    module: ir.Module,
    form: Form,
    *,
    ordered: frozenset[str],
    kernels: bool,
    complex_selects: bool = True,
) -> Written | None:
    """Rewrite a StableHLO module in place.

    Args:
      module: what to rewrite.
      form: how.
      ordered: symbols of the host functions whose calls keep their order.
      kernels: whether small loops may become kernels.
      complex_selects: whether the device can choose between complex numbers.

    Returns:
      what the compiler reads, or None where the program has a loop that the form cannot say: the
      module is of no use then.
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
            # Kernels of loops have no reductions any more, and no vectors.
            guard_reductions(module)
            if not complex_selects:
                split_complex_selects(module)
            return Written(str(module), stepped)
    except OpenLoopError:
        return None
