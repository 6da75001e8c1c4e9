"""Single elements with more dimensions than their array: sliced after the array was reshaped.

IREE turns a reshape of a slice of one element, such as ``x[:1][:, None]`` of a vector, into a slice
that adds dimensions, which is not valid IR (``expected rank to be smaller or equal to the other
rank``). It does so if the element has several uses. If the dimensions are added to the array
instead, its slice has them already. IREE drops operations like ``x - 0`` first, so an element to
which they were applied is an element of the array, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gnomon.backends.iree.legalize.after_lowering.strided_views import operations
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import stablehlo, stablehlo_constant
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import any_symbolic
from gnomon.dialects.types import TensorType, is_inexact, type_of

__all__ = ["LEGALIZATIONS", "slice_reshaped_arrays"]

_RESHAPE = "stablehlo.reshape"
_SLICE, _DYNAMIC_SLICE = "stablehlo.slice", "stablehlo.dynamic_slice"
# Ops that change at most the rank of a single element.
_VIEWS = frozenset({_RESHAPE, "stablehlo.transpose", "stablehlo.reverse", _SLICE, _DYNAMIC_SLICE})
# The right operand that leaves the left one as it is, bit by bit.
_NEUTRAL = {
    "stablehlo.add": -0.0,
    "stablehlo.subtract": 0.0,
    "stablehlo.multiply": 1.0,
    "stablehlo.divide": 1.0,
    "stablehlo.maximum": -math.inf,
    "stablehlo.minimum": math.inf,
}
_IDEMPOTENT = frozenset({"stablehlo.maximum", "stablehlo.minimum"})
_COMMUTATIVE = _IDEMPOTENT | {"stablehlo.add", "stablehlo.multiply"}
# Ops that undo themselves; a conversion does so if the first one widens.
_OWN_INVERSES = frozenset({"stablehlo.negate", "stablehlo.convert", "stablehlo.bitcast_convert"})


def slice_reshaped_arrays(module: ir.Module, target: Target) -> bool:
    """Reshape arrays before slices of one element whose reshapes add dimensions, in place."""
    # Found before any op changes: of two reshapes in sequence, both take the slice of the array.
    lifted = [
        (op, maker)
        for function in module.body.operations
        for op in operations(function.operation)
        if op.name == _RESHAPE
        and all(n == 1 for n in type_of(op.results[0]).shape)
        and (maker := _sliced(op.operands[0])) is not None
        and _adds_dimensions(op, maker)
    ]
    for reshape, maker in lifted:
        with ir.InsertionPoint(reshape), reshape.location:
            reshape.results[0].replace_all_uses_with(_slice_of_reshaped(reshape, maker))
        reshape.erase()
    return bool(lifted)


def _adds_dimensions(reshape: ir.Operation, maker: ir.Operation) -> bool:
    """Whether the result of a reshape has more dimensions than the array of the slice."""
    array = type_of(maker.operands[0])
    return type_of(reshape.results[0]).rank > array.rank and not any_symbolic(array.shape)


def _sliced(value: ir.Value | None) -> ir.Operation | None:
    """The slice of an array that makes an element, if only ops without effect come after it."""
    while value is not None and (op := _maker(value)) is not None:
        if op.name in _VIEWS and type_of(op.operands[0]).size == 1:
            value = op.operands[0]
        elif op.name in (_SLICE, _DYNAMIC_SLICE):
            return op
        else:
            value = _unchanged(op)
    return None


def _unchanged(op: ir.Operation) -> ir.Value | None:
    """The operand that an op returns as it is; None if it computes something.

    These are the folds of MLIR's arithmetic that StableHLO's own folder lacks.
    """
    operands = op.operands
    if op.name in _OWN_INVERSES:
        before = _maker(operands[0])
        if before is None or before.name != op.name or not _is_undone(before, op):
            return None
        return before.operands[0]
    if op.name == "stablehlo.select":
        return operands[1] if operands[1] == operands[2] else None
    if op.name == "stablehlo.clamp":
        bounds = _splat(operands[0]), _splat(operands[2])
        return operands[1] if bounds == (-math.inf, math.inf) else None
    if op.name in _IDEMPOTENT and operands[0] == operands[1]:
        return operands[0]
    for kept, other in ((0, 1), (1, 0)) if op.name in _COMMUTATIVE else ((0, 1),):
        if op.name in _NEUTRAL and _is_number(operands[other], _NEUTRAL[op.name]):
            return operands[kept]
    return None


def _is_undone(first: ir.Operation, second: ir.Operation) -> bool:
    """Whether two ops of `_OWN_INVERSES` in sequence return the operand of the first."""
    given, between, made = map(type_of, (first.operands[0], first.results[0], second.results[0]))
    if given != made:
        return False
    same_kind = is_inexact(given.dtype) == is_inexact(between.dtype)
    widens = same_kind and between.dtype.itemsize > given.dtype.itemsize
    return widens or first.name != "stablehlo.convert"


def _maker(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _is_number(value: ir.Value, number: float) -> bool:
    """Whether a value is a float literal that repeats a number, with its sign."""
    found = _splat(value)
    return found == number and math.copysign(1, found) == math.copysign(1, number)


def _splat(value: ir.Value) -> float | None:
    """The element of a float literal whose elements are equal; None for other values."""
    maker = _maker(value)
    if maker is None or maker.name != "stablehlo.constant":
        return None
    literal = maker.attributes["value"]
    if not isinstance(literal, ir.DenseElementsAttr) or not literal.is_splat:
        return None
    element = literal.get_splat_value()
    return float(element.value) if isinstance(element, ir.FloatAttr) else None


def _slice_of_reshaped(reshape: ir.Operation, maker: ir.Operation) -> ir.Value:
    source, *starts = maker.operands
    result, whole = type_of(reshape.results[0]), type_of(source)
    added = result.rank - whole.rank
    shape = (1,) * added + whole.shape
    (reshaped,) = stablehlo("reshape", [source], [whole.with_shape(shape)])
    if maker.name == _SLICE:
        firsts = [0] * added + list(ir.DenseI64ArrayAttr(maker.attributes["start_indices"]))
        return _slice(reshaped, firsts, result)
    zero = stablehlo_constant(type_of(starts[0]).dtype.type(0))
    sizes = ir.DenseI64ArrayAttr.get([1] * result.rank)
    operands = [reshaped, *([zero] * added), *starts]
    (value,) = stablehlo("dynamic_slice", operands, [result], slice_sizes=sizes)
    return value


def _slice(array: ir.Value, firsts: Sequence[int], result: TensorType) -> ir.Value:
    attributes = {
        "start_indices": firsts,
        "limit_indices": [n + 1 for n in firsts],
        "strides": [1] * len(firsts),
    }
    arrays = {name: ir.DenseI64ArrayAttr.get(list(n)) for name, n in attributes.items()}
    (value,) = stablehlo("slice", [array], [result], **arrays)
    return value


LEGALIZATIONS = (
    Legalization(
        name="lifted-elements",
        stage=Stage.LOWERED,
        kind=Kind.REFUSED,
        doc="reshape an array before one element is sliced from it, if a reshape of the element "
        "would add dimensions",
        upstream="IREE 3.13 makes a slice of more dimensions than its operand of the two ops, "
        "which is not valid",
        texts=("elements_with_added_dimensions",),
        reproducer="`x[:1][:, None]` of f32[2], returned and added to a row, does not compile",
        run=slice_reshaped_arrays,
        needs=frozenset({_RESHAPE}),
    ),
)
