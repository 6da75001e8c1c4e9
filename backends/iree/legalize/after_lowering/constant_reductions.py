"""Reductions of values that the compiler may fold to a constant.

IREE 3.13 vectorizes a reduction wrongly if the reduced value is the same number in every iteration,
as a literal or after folding. The number is then a scalar, which the vectorizer takes for an
already reduced vector: it combines it once for each vector instead of once for each element. A sum
of ten times -1 is -1, -2 or -3, depending on the width of the vectors; see
docs/upstream/reductions_of_constants.md.

It is not enough to find the literals: IREE keeps folding until kernels are formed, for example
``(x & 0) | 3``, ``x >= 0`` of unsigned numbers, or a select between equal values. So a value is
reduced unchanged only if it varies whatever IREE folds, see `varying_values`. A zero is added to
every other value. The compiler cannot see that it is zero, since it is read from memory like an
argument. That costs a microsecond per call, or ten in programs on the thread pool, and up to
doubles the time of a sum over cached data. The values that programs usually reduce should therefore
be known to vary (`test_constant_reductions` has a list).

Extrema, ``and`` and ``or`` give the same result however often they combine the same number, and
IREE does not vectorize complex numbers. It compiles products of matrices and convolutions
correctly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.backends.iree.legalize.after_lowering.varying_values import (
    UNKNOWN,
    Known,
    of_argument,
    of_op,
    of_reduction,
)
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import lowered, stablehlo, stablehlo_constant
from gnomon.dialects.functions import symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, names_of
from gnomon.dialects.types import is_complex, is_inexact, type_of

__all__ = ["IDEMPOTENT", "LEGALIZATIONS", "guard_reductions"]

_REDUCTIONS = names_of("stablehlo", Form.REDUCTION, Form.WINDOW)
_LOOPS = ("stablehlo.while", "scf.for")
_BRANCHES = ("stablehlo.case", "stablehlo.if", "scf.if")
_VIEWS = names_of("stablehlo", Form.VIEW)
# Regions with these ops alone combine equal numbers to the same number.
IDEMPOTENT = frozenset(
    f"stablehlo.{name}"
    for name in ("maximum", "minimum", "and", "or", "not", "compare", "select", "return")
)


def guard_reductions(module: ir.Module, target: Target) -> bool:
    """Add hidden zeros to reduced values that may be constant, in a StableHLO module, in place.

    Control flow may be in the dialect ``scf``.
    """
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    functions = [function for function in functions if len(function.regions[0].blocks)]
    names = frozenset(symbol_name(function) for function in functions)
    guarded = [function for function in functions if _reduces(function)]
    for function in guarded:
        _Guard(function, names).visit(function.regions[0].blocks[0])
    return bool(guarded)


def _reduces(function: ir.Operation) -> bool:
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found |= op.name in _REDUCTIONS
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    function.walk(visit)
    return found


class _Guard:
    """Guards the reductions of a function.

    Attributes:
      known: the facts known about the values so far.
      zeros: the hidden zero of each dtype.
      guarded: the values with a hidden zero.
    """

    def __init__(self, function: ir.Operation, with_bodies: frozenset[str]) -> None:
        self._entry = function.regions[0].blocks[0]
        self._with_bodies = with_bodies
        self.known: dict[ir.Value, Known] = {}
        self.zeros: dict[np.dtype, ir.Value] = {}
        self.guarded: set[ir.Value] = set()
        # Arguments of private functions may become literals by inlining.
        if "sym_visibility" not in function.attributes:
            self.known.update((a, of_argument(a)) for a in self._entry.arguments)

    def visit(self, block: ir.Block) -> None:
        """Guard the reductions of a block, its regions included."""
        for view in list(block.operations):
            op = view.operation
            if op.name in _REDUCTIONS:
                self._reduction(op)
            elif op.name in _LOOPS:
                self._loop(op)
            elif op.name in _BRANCHES:
                self._branch(op)
            elif len(op.results) and op.results[0] not in self.guarded:
                known = of_op(op, [self._of(v) for v in op.operands], self._with_bodies)
                self.known.update(dict.fromkeys(op.results, known))

    def _of(self, value: ir.Value) -> Known:
        return self.known.get(value, UNKNOWN)

    def _reduction(self, op: ir.Operation) -> None:
        count = len(op.results)
        region = op.regions[0].blocks[0]
        if any(inner.operation.name not in IDEMPOTENT for inner in region.operations):
            for i in range(count):
                self._guard(op, i)
        known = [self._of(op.operands[i]) for i in range(count)]
        self.known.update(zip(op.results, of_reduction(op, known), strict=True))

    def _guard(self, op: ir.Operation, i: int) -> None:
        value = op.operands[i]
        type_ = type_of(value)
        if self._of(value).varies or is_complex(type_.dtype) or not type_.size:
            return
        with ir.InsertionPoint(op), op.location:
            guarded = self._with_zero(value)
        op.operands[i] = guarded
        self.guarded.add(guarded)
        self.known[guarded] = of_argument(guarded)

    def _with_zero(self, value: ir.Value) -> ir.Value:
        """A value plus the hidden zero, which is added before elements are repeated or moved."""
        maker = value.owner
        if not isinstance(maker, ir.Block) and maker.name in _VIEWS:
            source = self._with_zero(maker.operands[0])
            view = maker.operation.clone()
            view.operands[0] = source
            result: ir.Value = view.results[0]
            return result
        type_ = type_of(value)
        zeros = lowered.broadcast_in_dim(self._zero(type_.dtype), shape=type_.shape, dims=())
        return lowered.add(value, zeros)

    def _zero(self, dtype: np.dtype) -> ir.Value:
        """The hidden identity of addition: -0 for floats, since adding 0 would turn -0 into 0."""
        if dtype not in self.zeros:
            with ir.InsertionPoint.at_block_begin(self._entry), ir.Location.unknown():
                zero = stablehlo_constant(np.asarray(-0.0 if is_inexact(dtype) else 0, dtype))
                (hidden,) = stablehlo("optimization_barrier", [zero], [type_of(zero)])
            self.zeros[dtype] = hidden
        return self.zeros[dtype]

    # --------------------------------------------------------------------------------- control flow

    def _loop(self, loop: ir.Operation) -> None:
        """A carry varies if it does at first and after every iteration; loops may be unrolled."""
        blocks = [region.blocks[0] for region in loop.regions]
        initial = list(loop.operands)[3 if loop.name == "scf.for" else 0 :]
        found = [self._of(v) for v in initial]
        varies, free = [k.varies for k in found], [k.varies and k.free for k in found]
        # This ends: each round drops an assumption, and there are two for each carry.
        while True:
            for block in blocks:
                arguments = list(block.arguments)[len(block.arguments) - len(varies) :]
                for a, v, f in zip(arguments, varies, free, strict=True):
                    self.known[a] = Known(varies=v, free=f)
                self.visit(block)
            carried = [self._of(v) for v in _terminator(blocks[-1]).operands]
            assumed = varies, free
            varies = [v and k.varies for v, k in zip(varies, carried, strict=True)]
            free = [f and k.varies and k.free for f, k in zip(free, carried, strict=True)]
            if (varies, free) == assumed:
                break
        for result, v, f in zip(loop.results, varies, free, strict=True):
            self.known[result] = Known(varies=v, free=f)

    def _branch(self, branch: ir.Operation) -> None:
        given: list[Sequence[ir.Value]] = []
        for region in branch.regions:
            for block in region.blocks:
                self.visit(block)
                given.append(list(_terminator(block).operands))
        for result, *values in zip(branch.results, *given, strict=True):
            varies = all(self._of(v).varies for v in values)
            self.known[result] = Known(varies=varies)


def _terminator(block: ir.Block) -> ir.Operation:
    return block.operations[len(block.operations) - 1].operation


LEGALIZATIONS = (
    Legalization(
        name="constant-reductions",
        stage=Stage.LAST,
        kind=Kind.MISCOMPILED,
        doc="add a hidden zero to reduced values that may be constant",
        upstream="IREE 3.13 combines a reduced constant once for each vector, not once for each "
        "element",
        texts=("reductions_of_constants",),
        reproducer="a sum of ten threes is not 30",
        run=guard_reductions,
        needs=_REDUCTIONS,
    ),
)
