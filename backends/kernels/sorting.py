"""Sorting along a dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.kernels.arithmetic import only
from gnomon.backends.kernels.code import Place, Scalar
from gnomon.backends.kernels.folds import combined
from gnomon.backends.kernels.values import Buffer, Index, Stored, Value, flattened
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder, Operation

__all__ = ["SORTING"]


def _sort(builder: Builder, operation: Operation) -> list[Value]:
    """A stable merge sort of the positions along the dimension, by the region's comparison."""
    dimension = int(operation.attribute("dimension"))
    shape = operation.types[0].shape
    dimension += len(shape) if dimension < 0 else 0
    count = shape[dimension]
    inputs = [builder.stored(x) for x in operation.operands]
    outputs = [builder.result(operation, k) for k in range(len(inputs))]
    block = operation.op.regions[0].blocks[0]
    others = [n for d, n in enumerate(shape) if d != dimension]
    places = TensorType((max(count, 2),), np.dtype(np.int64))
    if operation.types[0].size == 0:
        return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]
    code = builder.code
    with (
        builder.scratch(places) as source,
        builder.scratch(places) as target,
        code.loops(others, independent=False) as outer,
    ):

        def at(place: Place) -> Index:
            return (*outer[:dimension], place, *outer[dimension:])

        def read(place: Place) -> Scalar:
            return code.cast("arith.index_cast", only(builder.load(source, place)), "index")

        with code.loops([count]) as (place,):
            builder.store(source, place, code.cast("arith.index_cast", code.at(place), "i64"))
        width = code.variable("index", code.at(1))
        with code.repeat(lambda: code.compare("slt", code.value(width), code.at(count))):
            for come, go in ((source, target), (target, source)):
                run = code.value(width)
                double = code.same("arith.muli", run, code.at(2))
                with code.loop(0, count, double) as low:
                    _merge(builder, low, run, count, come, go, inputs, at, block)
                code.assign(width, double)
        with code.loops([count], independent=False) as (place,):
            position = flattened(code, at(place), shape)
            origin = read(place)
            for x, output in zip(inputs, outputs, strict=True):
                builder.store(output, position, x.element(builder, at(origin)))
    for operand, x in zip(operation.operands, inputs, strict=True):
        if operand is not x:
            builder.release(x.buffer)
    return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]


def _merge(
    builder: Builder,
    low: Scalar,
    run: Scalar,
    count: int,
    source: Buffer,
    target: Buffer,
    inputs: Sequence[Stored],
    at: Callable[[Place], Index],
    block: ir.Block,
) -> None:
    """Merge two sorted runs of positions, which start at ``low``."""
    code = builder.code

    def bounded(place: Place) -> Scalar:
        return code.same("arith.minsi", code.at(place), code.at(count))

    middle = bounded(code.plus(low, run))
    high = bounded(code.plus(middle, run))
    left, right = code.variable("index", low), code.variable("index", middle)
    with code.loop(low, high) as to:
        i, j = code.value(left), code.value(right)
        takes_right = code.variable("i1", code.compare("sge", i, middle))
        is_both = code.both([code.compare("slt", i, middle), code.compare("slt", j, high)])
        with code.when(is_both):
            origins = [
                code.cast("arith.index_cast", only(builder.load(source, k)), "index")
                for k in (j, i)
            ]
            values = [x.element(builder, at(origin)) for x in inputs for origin in origins]
            types = [x.type for x in inputs for _ in range(2)]
            # Equal elements keep their order: the right one goes first only if it is less.
            (less,) = combined(builder, block, types, values)
            code.assign(takes_right, only(less))
        is_right = code.value(takes_right)
        builder.store(target, to, builder.load(source, code.select(is_right, j, i)))
        one = code.at(1)
        code.assign(left, code.select(is_right, i, code.same("arith.addi", i, one)))
        code.assign(right, code.select(is_right, code.same("arith.addi", j, one), j))


SORTING: dict[str, Callable[[Builder, Operation], Sequence[Value]]] = {"stablehlo.sort": _sort}
