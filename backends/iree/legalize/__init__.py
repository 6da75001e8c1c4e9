"""What IREE cannot take, or takes wrongly, rewritten into what it can.

The passes work on ops of the dialect, just before the lowering to StableHLO. Each room names what
goes wrong and what was seen to work; the forms themselves are native again for other backends.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.barriers import drop_barriers_of_buffers
from gnomon.backends.iree.legalize.branches import RULES as BRANCH_RULES
from gnomon.backends.iree.legalize.closed_expressions import fold_closed
from gnomon.backends.iree.legalize.complex_functions import complex_function_rules
from gnomon.backends.iree.legalize.contractions import ALGORITHM_RULES
from gnomon.backends.iree.legalize.contractions import RULES as CONTRACTION_RULES
from gnomon.backends.iree.legalize.conversions import BFLOAT16_RULES
from gnomon.backends.iree.legalize.conversions import RULES as CONVERSION_RULES
from gnomon.backends.iree.legalize.convolution import convolution_rules
from gnomon.backends.iree.legalize.cumulative import cumulative_rules
from gnomon.backends.iree.legalize.fourier import fourier_rules
from gnomon.backends.iree.legalize.host_ops import host_rules
from gnomon.backends.iree.legalize.integrals import integral_rules, series_rules
from gnomon.backends.iree.legalize.long_fusions import split_long_fusions
from gnomon.backends.iree.legalize.loops import legalize_while
from gnomon.backends.iree.legalize.narrow_arithmetic import narrow_arithmetic_rules
from gnomon.backends.iree.legalize.pads import RULES as PAD_RULES
from gnomon.backends.iree.legalize.powers import power_rules
from gnomon.backends.iree.legalize.refusals import check_dtypes
from gnomon.backends.iree.legalize.scatter import RULES as SCATTER_RULES
from gnomon.backends.iree.legalize.selects import complex_rules
from gnomon.backends.iree.legalize.sorting import sorting_rules
from gnomon.backends.iree.legalize.special_functions import function_rules, rounding_rules
from gnomon.backends.iree.legalize.stored_values import store_values_read_across
from gnomon.backends.iree.legalize.sums import sum_rules
from gnomon.backends.iree.legalize.wide_fusions import split_wide_fusions
from gnomon.backends.iree.legalize.windows import RULES as WINDOW_RULES
from gnomon.backends.iree.targets import Target
from gnomon.backends.narrow import legalize_narrow_dtypes
from gnomon.backends.rewriting import merged, rewrite
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir

__all__ = ["legalize"]

_RULES = merged({"gnomon.while": legalize_while}, BRANCH_RULES, CONVERSION_RULES, SCATTER_RULES)


def legalize(module: ir.Module, target: Target) -> None:
    """Rewrite a module in place so that IREE compiles it for ``target``, and rightly.

    Raises:
        UnsupportedOnTarget: it holds an op or a dtype that the target has no form of.
    """
    program = Program(module)
    rewrite(program, ALGORITHM_RULES)
    legalize_narrow_dtypes(program)
    check_dtypes(program, target)
    drop_barriers_of_buffers(program)
    fold_closed(program)
    # What Python evaluates needs no form for the compiler: these rules come before all others.
    on_host = host_rules(target)
    # Rules that write ops which need rewriting in their turn go first.
    decompositions = merged(
        fourier_rules(target),
        integral_rules(target),
        series_rules(target.capabilities),
        sorting_rules(target),
        complex_function_rules(target.capabilities),
        complex_rules(target.capabilities),
        cumulative_rules(target.capabilities),
        WINDOW_RULES,
        PAD_RULES,
        power_rules(target.capabilities),
    )
    rewrite(program, {**decompositions, **on_host})
    functions = merged(function_rules(target), convolution_rules(target), sum_rules(target))
    rewrite(program, {**merged(_RULES, functions), **on_host})
    # What other rules write is rewritten too.
    last = merged(
        BFLOAT16_RULES,
        CONTRACTION_RULES,
        narrow_arithmetic_rules(target),
        rounding_rules(target),
    )
    rewrite(program, last)
    if target.memory == "device":
        store_values_read_across(program)
    split_long_fusions(program)
    split_wide_fusions(program)
    # What the rules wrote.
    check_dtypes(program, target)
