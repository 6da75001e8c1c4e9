"""Reductions of several dimensions for CUDA and ROCm, one dimension after the other.

IREE 3.13 divides a reduction of several dimensions among subgroups by its last dimension, and its
lanes by what is left. If the number of elements is a multiple of a subgroup's lanes, but the last
dimension is not, there can be fewer lanes than subgroups. Then the partial results of all subgroups
but one are lost: a sum of f32[64,256,3] along the last two dimensions is that of every third
element.

Dimensions that follow each other in memory become one dimension, which has no such remainder. That
is not so if the kernel computes the elements from an array that is broadcast, or reads them in
another order. So such a reduction is taken apart: the last dimension first, then the others.

`partial_results` checks the compiled programs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gnomon.backends.iree.legalize.aliases import MOVES_DIMENSIONS, name_of
from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.fusion.wide_fusions import is_fused, is_splat
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.targets import Target
from gnomon.dialects.body import operands_of
from gnomon.dialects.combinators import accumulator
from gnomon.dialects.contract import all_operations, instance_of
from gnomon.dialects.emit import convert
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, form_of
from gnomon.dialects.types import type_of

__all__ = ["LEGALIZATIONS", "reduce_stepwise"]

# The numbers of lanes that subgroups can have, by the code that the target runs.
_LANES = {"ptx": (32,), "hsaco": (32, 64)}
# Ops that a kernel runs by reading the operand at other places.
_REORDERS = MOVES_DIMENSIONS | {"slice", "rev", "pad"}
# The most ops that are searched for one that is not stored in order.
_SEARCHED = 64


def reduce_stepwise(program: Program, target: Target) -> None:
    """Take apart reductions that would lose partial results, in place."""
    for function in program.functions:
        for op in list(all_operations(program.body(symbol_name(function)))):
            if not _is_reduction(op):
                continue
            (x,), axes = operands_of(op), sorted(instance_of(op).params["axes"])
            shape = type_of(x).shape
            if _leaves_lanes(shape, axes, _LANES[target.code]) and not _is_in_order(x):
                with ir.InsertionPoint(op), op.location:
                    result = _in_steps(op, x, axes, next(d for d in axes[::-1] if shape[d] > 1))
                op.results[0].replace_all_uses_with(result)
                op.erase()


def _is_reduction(op: ir.Operation) -> bool:
    """Whether an op reduces along several axes, unlike argmax."""
    return form_of(op.name) is Form.REDUCTION and "axes" in op.attributes


def _leaves_lanes(shape: Sequence[int], axes: Sequence[int], lanes: Sequence[int]) -> bool:
    """Whether the elements can be divided among lanes, but not those of the last dimension."""
    long = [d for d, size in enumerate(shape) if size > 1]
    reduced = [d for d in axes if d in long]
    if len(reduced) < 2 or reduced[-1] != long[-1]:
        return False
    total, last = math.prod(shape[d] for d in reduced), shape[reduced[-1]]
    return any(total % n == 0 and last % n for n in lanes)


def _is_in_order(value: ir.Value) -> bool:
    """Whether the kernel that reads a value reads whole arrays, each in the order of memory."""
    waiting = [value]
    for _ in range(_SEARCHED):
        if not waiting:
            return True
        value = waiting.pop()
        if isinstance(value.owner, ir.Block) or type_of(value).size <= 1:
            continue
        op = value.owner.operation
        if is_splat(op) or _is_reduction(op):
            continue
        if name_of(op) in _REORDERS and type_of(operands_of(op)[0]).size > 1:
            return False
        if name_of(op) == "iota":
            return False
        if is_fused(op.name):
            waiting += operands_of(op)
    return False


def _in_steps(op: ir.Operation, x: ir.Value, axes: Sequence[int], last: int) -> ir.Value:
    inst = instance_of(op)
    dtype = type_of(x).dtype
    is_sum = name_of(op) in ("reduce_sum", "reduce_prod")
    wide = accumulator(dtype) if is_sum else dtype
    x = x if wide == dtype else convert(x, wide)
    for step in ((last,), tuple(d - (d > last) for d in axes if d != last)):
        (x,) = inst.op.build([x], {**inst.params, "axes": step})
    return x if wide == dtype else rounded(x, dtype)


LEGALIZATIONS = (
    Legalization(
        name="stepwise-reductions",
        stage=Stage.FUSE,
        kind=Kind.MISCOMPILED,
        doc="reduce several dimensions of computed arrays one after the other",
        upstream="IREE 3.13 loses the partial results of subgroups if there are more of them than "
        "lanes; `backends/iree/inside/partial_results.py` refuses such a program",
        texts=("lost_partial_sums_on_cuda",),
        reproducer="a sum of f32[64,256,3] and a broadcast f32[64,256] has a kernel of three "
        "subgroups with one lane each",
        targets=Targets.where(code=("ptx", "hsaco")),
        run=reduce_stepwise,
    ),
)
