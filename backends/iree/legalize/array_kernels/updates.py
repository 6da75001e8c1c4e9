"""Scatters of rows in a kernel of vector code.

The updates are applied one after the other, so a row may be updated several times. A row that is
out of bounds is skipped.
"""

from __future__ import annotations

import math

from gnomon.backends.iree.legalize.array_kernels.code import Kernel, shape_of
from gnomon.backends.iree.legalize.array_kernels.emitter import Place, first_place, width_of
from gnomon.backends.iree.legalize.array_kernels.layout import Layout, Splat, View
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    UnsupportedError,
    index,
    number,
    scalar,
)
from gnomon.dialects.mlir import ir, stablehlo

__all__ = ["scatter"]

_LESS = 6  # the unsigned predicate of ``arith.cmpi``


def scatter(kernel: Kernel, op: ir.Operation, target: View | None = None) -> list[Layout]:
    """The rule of ``stablehlo.scatter`` of whole rows of a matrix.

    Args:
      kernel: the kernel.
      op: the scatter.
      target: memory for the result.
    """
    if len(op.operands) != 3 or not _is_of_rows(op):
        raise UnsupportedError("a scatter of anything but rows")
    operand = op.operands[0]
    if not all(math.prod(shape_of(v)) for v in op.operands):
        raise UnsupportedError("an array without elements")
    kernel.flush_all()
    layout, places, new = (kernel.layout(v) for v in op.operands)
    element = operand.type.element_type
    if target is not None:
        kernel.copy(layout, target)
        layout = target
    elif not kernel.may_overwrite(operand, layout):
        layout = kernel.copied(layout, element)
    assert isinstance(layout, View)
    # An update in place must not overwrite what it reads later.
    new, places = (
        kernel.copied(v, old.type.element_type)
        if isinstance(v, View) and v.may_overlap(layout)
        else v
        for v, old in ((new, op.operands[2]), (places, op.operands[1]))
    )
    _apply(kernel, op, layout, places, new)
    return [layout]


def _is_of_rows(op: ir.Operation) -> bool:
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    found = (
        list(numbers.update_window_dims),
        list(numbers.inserted_window_dims),
        list(numbers.scattered_dims_to_operand_dims),
        numbers.index_vector_dim,
        list(numbers.input_batching_dims),
    )
    return found == ([1], [0], [0], 1, [])


def _apply(kernel: Kernel, op: ir.Operation, rows: View, places: Layout, new: Layout) -> None:
    count, width = rows.shape
    (combine,) = op.regions[0].blocks
    row_stride, stride = (s if n > 1 else 1 for s, n in zip(rows.strides, rows.shape, strict=True))
    lanes = width_of([rows.element])
    i1 = ir.IntegerType.get_signless(1)
    kernel.loops += kernel.trips

    def update(i: ir.Value | int, _: list[ir.Value]) -> list[ir.Value]:
        at = kernel.load(places, first_place(places).plus(i, places.strides[0]), 1, 1)
        row = scalar("arith.index_cast", [at], index())
        # A negative row is a large unsigned number.
        inside = scalar("arith.cmpi", [row, number(index(), count)], i1, predicate=_LESS)
        kernel.spend(3)
        conditional = ir.Operation.create("scf.if", results=[], operands=[inside], regions=2)
        with kernel.inside(conditional.regions[0].blocks.append()):
            start = first_place(rows).plus(row, row_stride)
            read = first_place(new).plus(i, new.strides[0])
            kernel.pieces(width, lanes, lambda j, n: piece(start, read, j, n))
            ir.Operation.create("scf.yield")
        with ir.InsertionPoint(conditional.regions[1].blocks.append()):
            ir.Operation.create("scf.yield")
        return []

    def piece(start: Place, read: Place, j: ir.Value | int, n: int) -> None:
        place = start.plus(j, stride)
        x = kernel.load(rows, place, n, stride)
        y = kernel.load(new, read.plus(j, new.strides[1]), n, new.strides[1])
        kernel.store(kernel.region(combine, [x, y])[0], rows, place, stride)

    updates = shape_of(op.operands[1])[0]
    assert isinstance(new, Splat) or len(new.strides) == 2
    kernel.steps(updates, 1, [], update)
