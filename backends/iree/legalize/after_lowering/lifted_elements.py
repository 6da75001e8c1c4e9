"""Single elements with more dimensions than their array: sliced after the array was reshaped.

IREE turns a reshape of a slice of one element, such as ``x[:1][:, None]`` of a vector, into a slice
that adds dimensions, which is not valid IR (``expected rank to be smaller or equal to the other
rank``). It does so if the element has several uses. If the dimensions are added to the array
instead, its slice has them already.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.backends.iree.legalize.after_lowering.strided_views import operations
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import stablehlo, stablehlo_constant
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import any_symbolic
from gnomon.dialects.types import TensorType, type_of

__all__ = ["LEGALIZATIONS", "slice_reshaped_arrays"]

_RESHAPE = "stablehlo.reshape"
_SLICE, _DYNAMIC_SLICE = "stablehlo.slice", "stablehlo.dynamic_slice"


def slice_reshaped_arrays(module: ir.Module, target: Target) -> bool:
    """Reshape arrays before slices of one element whose reshapes add dimensions, in place."""
    lifted = [
        op
        for function in module.body.operations
        for op in operations(function.operation)
        if op.name == _RESHAPE and _is_lifted(op)
    ]
    for op in lifted:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_slice_of_reshaped(op))
        op.erase()
    return bool(lifted)


def _is_lifted(reshape: ir.Operation) -> bool:
    maker = _sliced(reshape.operands[0])
    if maker is None:
        return False
    result, array = type_of(reshape.results[0]), type_of(maker.operands[0])
    return (
        result.rank > array.rank
        and all(n == 1 for n in result.shape)
        and not any_symbolic(array.shape)
    )


def _sliced(value: ir.Value) -> ir.Operation | None:
    """The slice that makes a value, if only reshapes come after it."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name in (_SLICE, _DYNAMIC_SLICE):
            return op
        if op.name != _RESHAPE:
            return None
        value = op.operands[0]
    return None


def _slice_of_reshaped(reshape: ir.Operation) -> ir.Value:
    maker = _sliced(reshape.operands[0])
    assert maker is not None
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
