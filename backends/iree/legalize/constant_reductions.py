"""Reductions of what the compiler may take for a constant.

IREE 3.13 vectorizes a reduction wrongly where the reduced value is the same number in every
iteration, a literal or what folds to one: the number is no vector then, the vectorizer takes it for
one that is reduced already, and combines it once for each vector instead of once for each element.
A sum of ten times -1 is -1, -2 or -3, as wide as the vectors are; see
docs/upstream/reductions_of_constants.md.

It is not enough to find the literals: IREE folds until after kernels are formed, such as ``(x & 0)
| 3``, ``x >= 0`` of unsigned numbers, a choice between equal values. So a value is reduced as it is
only where it *varies*: where it is read from memory, or computed from such a value by operations
that no rule of algebra makes a constant. To any other a zero is added that the compiler does not
see, read from memory like an argument. (`test_constant_reductions` has what must not be guarded.)

Extrema, ``and`` and ``or`` give the same however often they combine a number, and vectors hold no
complex numbers. Products of matrices and convolutions are right.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np

from gnomon.dialects.combinators import lowered, stablehlo, stablehlo_constant
from gnomon.dialects.functions import callee, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import BOOL, is_complex, is_inexact, type_of

__all__ = ["guard_reductions"]

_REDUCTIONS = ("stablehlo.reduce", "stablehlo.reduce_window")
_LOOPS = ("stablehlo.while", "scf.for")
_BRANCHES = ("stablehlo.case", "stablehlo.if", "scf.if")


class _Kind(enum.Enum):
    LITERAL = "made of literals and ramps alone"
    VARIES = "no constant, whatever is folded"
    UNKNOWN = "may be folded to a constant"


def _names(*names: str) -> frozenset[str]:
    return frozenset(f"stablehlo.{name}" for name in names)


# Regions with these ops alone combine equal numbers to the same number.
_IDEMPOTENT = _names("maximum", "minimum", "and", "or", "compare", "select", "return")
# What they give varies where an operand of floats does. Not here: those that choose (a clamp, the
# sign, extrema), and powers, of which the 0th is 1.
_ARITHMETIC = _names(
    *("add", "subtract", "multiply", "divide", "negate", "abs", "reduce_precision"),
    *("exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "tanh"),
    *("sine", "cosine", "tan", "sqrt", "rsqrt", "cbrt", "floor", "ceil"),
    *("round_nearest_even", "round_nearest_afz", "dot_general", "convolution", "fft"),
)
# What they give varies where the operand does, and a literal does not change that.
_ONE_TO_ONE = _names("add", "subtract", "xor", "negate", "not")
_COMPUTE = _ARITHMETIC | _ONE_TO_ONE | _names("convert")
# What they give has the elements of the first operands, so many, or of all.
_MOVES: dict[str, int | None] = {
    **dict.fromkeys(
        _names(
            *("broadcast_in_dim", "reshape", "transpose", "slice", "reverse", "concatenate"),
            *("pad", "bitcast_convert", "real", "imag", "complex", "sort"),
        )
    ),
    **dict.fromkeys(_names("gather", "dynamic_slice"), 1),
    **dict.fromkeys(_names("dynamic_update_slice"), 2),
}


def guard_reductions(module: ir.Module) -> None:
    """Add hidden zeros to what a StableHLO module reduces and may be constant, in place.

    Control flow may be that of the dialect ``scf``.
    """
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    functions = [function for function in functions if len(function.regions[0].blocks)]
    names = frozenset(symbol_name(function) for function in functions)
    for function in functions:
        if _reduces(function):
            _Guard(function, names).visit(function.regions[0].blocks[0])


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
      kinds: what is known of the values so far; all others are unknown.
      zeros: the hidden zero of each dtype.
      guarded: the values with a hidden zero.
    """

    def __init__(self, function: ir.Operation, with_bodies: frozenset[str]) -> None:
        self._entry = entry = function.regions[0].blocks[0]
        self._with_bodies = with_bodies
        # The arguments of others may be literals once they are inlined.
        is_called = "sym_visibility" in function.attributes
        kind = _Kind.UNKNOWN if is_called else _Kind.VARIES
        self.kinds: dict[ir.Value, _Kind] = dict.fromkeys(entry.arguments, kind)
        self.zeros: dict[np.dtype, ir.Value] = {}
        self.guarded: set[ir.Value] = set()

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
            elif len(op.results):
                kind = self._of_op(op)
                self.kinds.update(dict.fromkeys(op.results, kind))

    def _of(self, value: ir.Value) -> _Kind:
        if value in self.guarded:
            return _Kind.VARIES
        return self.kinds.get(value, _Kind.UNKNOWN)

    def _all_of(self, values: Sequence[ir.Value]) -> _Kind:
        kinds = {self._of(v) for v in values}
        return kinds.pop() if len(kinds) == 1 else _Kind.UNKNOWN

    def _of_op(self, op: ir.Operation) -> _Kind:
        name, operands = op.name, list(op.operands)
        if op.results[0] in self.guarded:
            return _Kind.VARIES
        if name in ("stablehlo.constant", "stablehlo.iota"):
            return _Kind.LITERAL
        if name in ("stablehlo.optimization_barrier", "stablehlo.custom_call"):
            return _Kind.VARIES
        if name == "func.call":
            return _Kind.UNKNOWN if callee(op) in self._with_bodies else _Kind.VARIES
        if not name.startswith("stablehlo.") or not operands:
            return _Kind.UNKNOWN
        kinds = [self._of(v) for v in operands]
        if all(kind is _Kind.LITERAL for kind in kinds) and not len(op.regions):
            return _Kind.LITERAL
        if name in _MOVES:
            return self._all_of(operands[: _MOVES[name]])
        if name == "stablehlo.select":
            return self._all_of(operands[1:])
        if name not in _COMPUTE or any(0 in type_of(v).shape for v in operands):
            return _Kind.UNKNOWN
        dtype = type_of(op.results[0]).dtype
        if name == "stablehlo.convert":
            return _Kind.UNKNOWN if dtype == BOOL else kinds[0]
        if name in _ARITHMETIC and is_inexact(dtype) and _Kind.VARIES in kinds:
            return _Kind.VARIES
        if name in _ONE_TO_ONE and kinds.count(_Kind.VARIES) == 1 and _Kind.UNKNOWN not in kinds:
            return _Kind.VARIES
        return _Kind.UNKNOWN

    def _reduction(self, op: ir.Operation) -> None:
        count = len(op.results)
        region = op.regions[0].blocks[0]
        if any(inner.operation.name not in _IDEMPOTENT for inner in region.operations):
            for i in range(count):
                self._guard(op, i)
        for operand, result in zip(list(op.operands)[:count], op.results, strict=True):
            type_ = type_of(operand)
            varies = self._of(operand) is _Kind.VARIES and type_.size and is_inexact(type_.dtype)
            self.kinds[result] = _Kind.VARIES if varies else _Kind.UNKNOWN

    def _guard(self, op: ir.Operation, i: int) -> None:
        value = op.operands[i]
        type_ = type_of(value)
        if self._of(value) is _Kind.VARIES or is_complex(type_.dtype) or not type_.size:
            return
        zero = self._zero(type_.dtype)
        with ir.InsertionPoint(op), op.location:
            zeros = lowered.broadcast_in_dim(zero, shape=type_.shape, dims=())
            guarded = lowered.add(value, zeros)
        op.operands[i] = guarded
        self.guarded.add(guarded)

    def _zero(self, dtype: np.dtype) -> ir.Value:
        """What changes no number that it is added to, not even -0."""
        if dtype not in self.zeros:
            with ir.InsertionPoint.at_block_begin(self._entry), ir.Location.unknown():
                zero = stablehlo_constant(np.asarray(-0.0 if is_inexact(dtype) else 0, dtype))
                (hidden,) = stablehlo("optimization_barrier", [zero], [type_of(zero)])
            self.zeros[dtype] = hidden
        return self.zeros[dtype]

    # --------------------------------------------------------------------------------- control flow

    def _loop(self, loop: ir.Operation) -> None:
        """A carry varies where it does at first and after each iteration; loops may be unrolled."""
        blocks = [region.blocks[0] for region in loop.regions]
        initial = list(loop.operands)[3 if loop.name == "scf.for" else 0 :]
        kinds = [self._of(v) for v in initial]
        kinds = [k if k is _Kind.VARIES else _Kind.UNKNOWN for k in kinds]
        # The assumption fails once for each carry at most.
        while True:
            for block in blocks:
                arguments = list(block.arguments)[-len(kinds) :] if kinds else []
                self.kinds.update(zip(arguments, kinds, strict=True))
                self.visit(block)
            carried = [self._of(v) for v in _terminator(blocks[-1]).operands]
            kept = [
                k if c is _Kind.VARIES else _Kind.UNKNOWN
                for k, c in zip(kinds, carried, strict=True)
            ]
            if kept == kinds:
                break
            kinds = kept
        self.kinds.update(zip(loop.results, kinds, strict=True))

    def _branch(self, branch: ir.Operation) -> None:
        given: list[Sequence[ir.Value]] = []
        for region in branch.regions:
            for block in region.blocks:
                self.visit(block)
                given.append(list(_terminator(block).operands))
        for result, *values in zip(branch.results, *given, strict=True):
            self.kinds[result] = self._all_of(values)


def _terminator(block: ir.Block) -> ir.Operation:
    return block.operations[len(block.operations) - 1].operation
