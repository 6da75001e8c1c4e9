"""Strided slices of gathered elements: gathered before they are sliced.

IREE 3.13 makes one kernel of a gather and a strided slice of its result, as in ``x[i][::2]``. On
processors that gather vectors (from `x86-64-v3` on), the kernel reads elements that are not in the
slice if the indices are narrower than the elements. A barrier before the slice makes the gathered
elements an array of their own.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.after_lowering.strided_views import ELEMENTWISE, operations
from gnomon.backends.iree.legalize.aliases import READ_IN_PLACE, name_of
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import stablehlo
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["LEGALIZATIONS", "store_sliced_reads"]

_GATHER, _SLICE = "stablehlo.gather", "stablehlo.slice"


def store_sliced_reads(module: ir.Module, target: Target) -> bool:
    """Put barriers before strided slices of what is computed from gathered elements, in place."""
    known: dict[ir.Value, bool] = {}
    readers: dict[ir.Value, list[ir.Operation]] = {}
    for function in module.body.operations:
        for op in operations(function.operation):
            if _is_strided_slice(op) and _is_gathered(op.operands[0], known):
                readers.setdefault(op.operands[0], []).append(op)
    for value, ops in readers.items():
        with ir.InsertionPoint.after(value.owner), value.owner.location:
            (stored,) = stablehlo("optimization_barrier", [value], [type_of(value)])
        for op in ops:
            op.operands[0] = stored
    return bool(readers)


def _is_strided_slice(op: ir.Operation) -> bool:
    return op.name == _SLICE and any(n > 1 for n in ir.DenseI64ArrayAttr(op.attributes["strides"]))


def _is_gathered(value: ir.Value, known: dict[ir.Value, bool]) -> bool:
    """Whether one kernel may gather elements and compute a value from them.

    Args:
      value: the value.
      known: the answers so far.
    """
    waiting, seen = [value], {value}
    while waiting:
        found = waiting.pop()
        if known.get(found):
            known[value] = True
            break
        if found in known or isinstance(found.owner, ir.Block):
            continue
        op = found.owner.operation
        if op.name == _GATHER:
            known[value] = True
            break
        if op.name == _SLICE or op.name in ELEMENTWISE or name_of(op) in READ_IN_PLACE:
            new = [x for x in op.operands if x not in seen]
            seen.update(new)
            waiting += new
    else:
        known.update(dict.fromkeys(seen, False))
    return known[value]


LEGALIZATIONS = (
    Legalization(
        name="strided-reads",
        stage=Stage.LOWERED,
        kind=Kind.MISCOMPILED,
        doc="store gathered elements of which a strided slice is taken",
        upstream="IREE 3.13 gathers other elements than those of the slice, if the indices are "
        "narrower than the elements",
        texts=("strided_slices_of_gathers",),
        reproducer="`x[i][::2] + 1` of f64[5] and i32[5] is wrong from `x86-64-v3` on",
        run=store_sliced_reads,
        needs=frozenset({_GATHER}),
    ),
)
