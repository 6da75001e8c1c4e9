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

# The most elements that are selected one by one, and how many times more there must be.
_MOST_SELECTED = 32


def _sort(builder: Builder, operation: Operation) -> list[Value]:
    """A stable sort of the positions along the dimension, by the region's comparison.

    If only the first few are read, they are selected; otherwise runs are merged.
    """
    dimension = int(operation.attribute("dimension"))
    shape = operation.types[0].shape
    dimension += len(shape) if dimension < 0 else 0
    count = shape[dimension]
    inputs = [builder.stored(x) for x in operation.operands]
    outputs = [builder.result(operation, k) for k in range(len(inputs))]
    block = operation.op.regions[0].blocks[0]
    others = [n for d, n in enumerate(shape) if d != dimension]
    if operation.types[0].size == 0:
        return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]
    code, first = builder.code, _first_read(operation.op, dimension, count)
    selects = first <= _MOST_SELECTED and first * _MOST_SELECTED <= count
    places = TensorType((first if selects else max(count, 2),), np.dtype(np.int64))
    with builder.scratch(places) as source, code.loops(others, independent=False) as outer:

        def at(place: Place) -> Index:
            return (*outer[:dimension], place, *outer[dimension:])

        def precedes(left: Scalar, right: Scalar) -> Scalar:
            values = [x.element(builder, at(place)) for x in inputs for place in (left, right)]
            types = [x.type for x in inputs for _ in range(2)]
            (answer,) = combined(builder, block, types, values)
            return only(answer)

        if selects:
            _select(builder, count, first, source, precedes)
        else:
            with builder.scratch(places) as target:
                _merge_runs(builder, count, source, target, precedes)
        with code.loops([first], independent=False) as (place,):
            position = flattened(code, at(place), shape)
            origin = _read(builder, source, place)
            for x, output in zip(inputs, outputs, strict=True):
                builder.store(output, position, x.element(builder, at(origin)))
    for operand, x in zip(operation.operands, inputs, strict=True):
        if operand is not x:
            builder.release(x.buffer)
    return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]


def _first_read(op: ir.Operation, dimension: int, count: int) -> int:
    """How many of the first elements along the dimension the users of a sort read at most."""
    most = 1
    for result in op.results:
        for use in result.uses:
            user = use.owner
            if user.name != "stablehlo.slice":
                return count
            limits = [int(x) for x in user.attributes["limit_indices"]]
            most = max(most, limits[dimension])
    return most


def _read(builder: Builder, positions: Buffer, place: Place) -> Scalar:
    return builder.code.cast("arith.index_cast", only(builder.load(positions, place)), "index")


def _write(builder: Builder, positions: Buffer, place: Place, position: Scalar) -> None:
    builder.store(positions, place, builder.code.cast("arith.index_cast", position, "i64"))


def _select(
    builder: Builder,
    count: int,
    first: int,
    positions: Buffer,
    precedes: Callable[[Scalar, Scalar], Scalar],
) -> None:
    """Write the positions of the first elements: insert each element that precedes the last one."""
    code = builder.code
    # They are compared before they are set, and must be positions.
    with code.loops([first]) as (place,):
        _write(builder, positions, place, code.at(0))
    with code.loops([count], independent=False) as (place,):
        candidate = code.at(place)
        last = _read(builder, positions, first - 1)
        enters = code.same(
            "arith.ori", code.compare("slt", candidate, code.at(first)), precedes(candidate, last)
        )
        with code.when(enters):
            hole = code.variable("index", code.same("arith.minsi", candidate, code.at(first - 1)))

            def before() -> Scalar:
                return code.same(
                    "arith.maxsi", code.same("arith.subi", code.value(hole), code.at(1)), code.at(0)
                )

            def moves() -> Scalar:
                previous = _read(builder, positions, before())
                return code.both(
                    [
                        code.compare("sgt", code.value(hole), code.at(0)),
                        precedes(candidate, previous),
                    ]
                )

            with code.repeat(moves):
                below = before()
                _write(builder, positions, code.value(hole), _read(builder, positions, below))
                code.assign(hole, below)
            _write(builder, positions, code.value(hole), candidate)


def _merge_runs(
    builder: Builder,
    count: int,
    source: Buffer,
    target: Buffer,
    precedes: Callable[[Scalar, Scalar], Scalar],
) -> None:
    """Write the positions of all elements in order to ``source``, by merging runs of them."""
    code = builder.code
    with code.loops([count]) as (place,):
        _write(builder, source, place, code.at(place))
    width = code.variable("index", code.at(1))
    with code.repeat(lambda: code.compare("slt", code.value(width), code.at(count))):
        for come, go in ((source, target), (target, source)):
            run = code.value(width)
            double = code.same("arith.muli", run, code.at(2))
            with code.loop(0, count, double) as low:
                _merge(builder, low, run, count, come, go, precedes)
            code.assign(width, double)


def _merge(
    builder: Builder,
    low: Scalar,
    run: Scalar,
    count: int,
    source: Buffer,
    target: Buffer,
    precedes: Callable[[Scalar, Scalar], Scalar],
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
            # Equal elements keep their order: the right one goes first only if it is less.
            less = precedes(_read(builder, source, j), _read(builder, source, i))
            code.assign(takes_right, less)
        is_right = code.value(takes_right)
        builder.store(target, to, builder.load(source, code.select(is_right, j, i)))
        one = code.at(1)
        code.assign(left, code.select(is_right, i, code.same("arith.addi", i, one)))
        code.assign(right, code.select(is_right, code.same("arith.addi", j, one), j))


SORTING: dict[str, Callable[[Builder, Operation], Sequence[Value]]] = {"stablehlo.sort": _sort}
