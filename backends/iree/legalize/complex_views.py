"""The parts of large complex arrays, copied as real numbers.

IREE 3.13 vectorizes no kernel that reads a complex number, and makes its workgroups of a power of
two that divides the number of elements. With an odd number, each element is a workgroup: two
threads took 30 % of the processor time of a program to claim the workgroups of two kernels that
split 197 x 257 numbers.

A complex array is an array of pairs in memory. So a strided copy of f32 or f64 reads each part from
a view of the array. Its kernel has vectors, and workgroups of any size.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import stablehlo
from gnomon.dialects.mlir import ir, other_dialects
from gnomon.dialects.types import TensorType, mlir_type, type_of

__all__ = ["BITCAST", "FEWEST", "LEGALIZATIONS", "view_parts"]

logger = logging.getLogger(__name__)

BITCAST = "flow.tensor.bitcast"
"""The compiler's op for a view of an array with elements of another type."""

FEWEST = 1 << 14
"""The least number of elements of an array whose parts are copied.

Processor time of `abs` with the copies, in units of that without them: 1.2 for 4096 elements, 1.0
for 8192, 0.4 for 50629; the smallest wall time for 2^20: 0.6. That of `x.real + 1`, which reads
only one part, is 1.5 for 8192.
"""

_REAL, _IMAG = "stablehlo.real", "stablehlo.imag"
# Taking a part of them needs no kernel.
_JOINED = ("stablehlo.constant", "stablehlo.complex")


def view_parts(module: ir.Module, target: Target) -> bool:
    """Copy the parts of the large complex arrays of a module; the module is changed."""
    del target
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in (_REAL, _IMAG) and _pays(op):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    with other_dialects(module.context):
        for op in found:
            with ir.InsertionPoint(op), op.location:
                part = _part(op)
            op.results[0].replace_all_uses_with(part)
            op.erase()
    return bool(found)


def _pays(op: ir.Operation) -> bool:
    type_ = ir.RankedTensorType(op.results[0].type)
    if not type_.has_static_shape or _is_joined(op):
        return False
    size = math.prod(type_.shape)
    if logger.isEnabledFor(logging.DEBUG):
        how = "a strided copy" if size >= FEWEST else f"in its kernel, for it has under {FEWEST}"
        logger.debug("%s of %d elements: %s", op.name, size, how)
    return size >= FEWEST


def _is_joined(op: ir.Operation) -> bool:
    (x,) = op.operands
    return isinstance(x, ir.OpResult) and x.owner.name in _JOINED


def _part(op: ir.Operation) -> ir.Value:
    """The real or the imaginary part of an array, stored as an array of its own."""
    number = int(op.name == _IMAG)
    part = type_of(op.results[0])
    pairs = part.with_shape((*part.shape, 2))
    view = _viewed(op.operands[0], pairs)
    column = _column(part)
    (strided,) = stablehlo(
        "slice",
        [view],
        [column],
        start_indices=_numbers([*(0 for _ in part.shape), number]),
        limit_indices=_numbers([*part.shape, number + 1]),
        strides=_numbers([1] * (part.rank + 1)),
    )
    (dense,) = stablehlo("reshape", [strided], [part])
    # Not every kernel can read a strided view in place, see `strided_views`.
    (stored,) = stablehlo("optimization_barrier", [dense], [part])
    return stored


def _column(part: TensorType) -> TensorType:
    return part.with_shape((*part.shape, 1))


def _numbers(values: list[Any]) -> ir.Attribute:
    return ir.DenseI64ArrayAttr.get(values)


def _viewed(value: ir.Value, type_: TensorType) -> ir.Value:
    return ir.Operation.create(
        BITCAST,
        results=[mlir_type(type_)],
        operands=[value],
        attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0])},
    ).results[0]


LEGALIZATIONS = (
    Legalization(
        name="complex-views",
        stage=Stage.COMPILER_OPS,
        kind=Kind.SLOW,
        doc="copy the parts of large complex arrays as strided arrays of real numbers",
        upstream="IREE 3.13 vectorizes no kernel that reads complex numbers, and makes a workgroup "
        "of each element if their number is odd",
        reproducer="`abs` of 197 x 257 complex numbers takes twice as long",
        targets=Targets.where(memory="host"),
        run=view_parts,
        needs=frozenset({_REAL, _IMAG}),
    ),
)
