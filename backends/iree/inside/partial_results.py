"""Reductions on GPUs whose partial results IREE loses.

IREE 3.13 divides a reduction among the lanes of a subgroup and among subgroups. Each subgroup
stores its partial result, and then the lanes of the first one combine these, one for each lane. If
the reduction has fewer lanes than subgroups, it takes one partial result and drops the others. For
a reduction of f32[64,256,3] along the last two dimensions, three subgroups have one lane each.

The legalization ``stepwise-reductions`` rewrites the programs in which this happens. `check` makes
sure: it refuses a program that would have a wrong result.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["check", "loses_partial_results"]

# The sizes of the basis, and for each loop the one that it has.
_BASIS = r"_basis = \[\[([0-9, ]*)\], \[([0-9, ]*)\]\]"
_LANES, _SUBGROUPS = re.compile(f"lane{_BASIS}"), re.compile(f"subgroup{_BASIS}")
_KIND = re.compile(r"parallel|reduction|window")


def check(ir: CompilerIR, module: int) -> None:
    """Check the reductions of a program.

    Args:
      ir: access to the program.
      module: the program after its kernels were configured.

    Raises:
      ValueError: a reduction would lose partial results.
    """
    for op in ir.nested(module):
        config, kinds = (ir.attribute(op, n) for n in ("lowering_config", "iterator_types"))
        if config and kinds:
            text = ir.attribute_text(config)
            if loses_partial_results(ir.attribute_text(kinds), text):
                raise ValueError(
                    f"IREE would combine only some partial results of a reduction ({text}); "
                    "reduce one dimension at a time, and please report the program"
                )


def loses_partial_results(kinds: str, config: str) -> bool:
    """Whether fewer lanes than subgroups take part in a reduction.

    Args:
      kinds: the kinds of an operation's loops, as the compiler prints them.
      config: the configuration of its code, as the compiler prints it.
    """
    lanes, subgroups = _LANES.search(config), _SUBGROUPS.search(config)
    if not lanes or not subgroups:
        return False
    reduced = [i for i, kind in enumerate(_KIND.findall(kinds)) if kind == "reduction"]

    def along_reduced(basis: re.Match[str]) -> int:
        sizes, place_of = ([int(n) for n in text.split(",")] for text in basis.groups())
        return math.prod(sizes[place_of[i]] for i in reduced if i < len(place_of))

    return along_reduced(subgroups) > along_reduced(lanes)
