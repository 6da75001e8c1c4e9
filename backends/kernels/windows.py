"""Reductions over windows, cumulative operations, and scatters to selected elements of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.kernels.arithmetic import only
from gnomon.backends.kernels.code import Place, Scalar
from gnomon.backends.kernels.folds import Total, combined, fold, started
from gnomon.backends.kernels.movements import filled, splat
from gnomon.backends.kernels.values import Buffer, Index, Stored, Value, flattened
from gnomon.dialects.attributes import DENSE
from gnomon.dialects.mlir import ir

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder, Operation

__all__ = ["WINDOWS", "place_in_windows"]


def _dimensions(operation: Operation, rank: int) -> list[tuple[int, ...]]:
    """The size, stride, dilations of base and window, and low padding of each dimension."""
    ones = (1,) * rank
    padding = operation.attribute("padding")
    edges = np.zeros((rank, 2), int) if padding is None else DENSE.decode(padding)
    return list(
        zip(
            operation.integers("window_dimensions"),
            operation.integers("window_strides", ones),
            operation.integers("base_dilations", ones),
            operation.integers("window_dilations", ones),
            (int(low) for low in edges[:, 0]),
            strict=True,
        )
    )


def _reduce_window(builder: Builder, operation: Operation) -> list[Value]:
    count = len(operation.operands) // 2
    initial = operation.operands[count:]
    inputs = [builder.stored(x) for x in operation.operands[:count]]
    shape = inputs[0].type.shape
    window = _dimensions(operation, len(shape))
    block = operation.op.regions[0].blocks[0]
    outputs = [builder.result(operation, k) for k in range(count)]
    axis = _cumulative_axis(window, shape, operation.types[0].shape)
    if axis is not None:
        _accumulate(builder, block, inputs, initial, outputs, axis, reverse=window[axis][4] == 0)
    elif operation.types[0].size:
        _each_window(builder, block, inputs, initial, outputs, window, operation.types[0].shape)
    for operand, x in zip(operation.operands, inputs, strict=False):
        if operand is not x:
            builder.release(x.buffer)
    return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]


def _cumulative_axis(
    window: Sequence[tuple[int, ...]], shape: Sequence[int], result: Sequence[int]
) -> int | None:
    """The axis if this is a cumulative operation: each window starts or ends at an element."""
    wide = [d for d, row in enumerate(window) if row[0] != 1]
    if len(wide) != 1 or list(shape) != list(result):
        return None
    (axis,) = wide
    n = shape[axis]
    if window[axis][1:4] != (1, 1, 1) or window[axis][4] not in (0, n - 1) or window[axis][0] != n:
        return None
    plain = all(row == (1, 1, 1, 1, 0) for d, row in enumerate(window) if d != axis)
    return axis if plain else None


def _accumulate(
    builder: Builder,
    block: ir.Block,
    inputs: Sequence[Stored],
    initial: Sequence[Value],
    outputs: Sequence[Buffer],
    axis: int,
    *,
    reverse: bool,
) -> None:
    shape, code = inputs[0].type.shape, builder.code
    types = [x.type for x in inputs]
    others = [n for d, n in enumerate(shape) if d != axis]
    with builder.code.loops(others, independent=False) as outer:
        totals = started(builder, initial)
        with builder.code.loops([shape[axis]], independent=False) as (along,):
            place = code.minus(shape[axis] - 1, along) if reverse else along
            position = flattened(code, (*outer[:axis], place, *outer[axis:]), shape)
            elements = [x.element(builder, (*outer[:axis], place, *outer[axis:])) for x in inputs]
            fold(builder, block, types, totals, elements, elements_first=reverse)
            for total, output in zip(totals, outputs, strict=True):
                builder.store(output, position, total.get())


def _always_inside(
    size: int, stride: int, base: int, dilation: int, low: int, *, count: int, length: int
) -> bool:
    """Whether all windows lie within a dimension.

    Args:
      size, stride, base, dilation, low: the window's size, stride and dilations, and the padding.
      count: the number of windows.
      length: the length of the dimension.
    """
    return base == 1 and low <= 0 and (count - 1) * stride + (size - 1) * dilation - low < length


def place_in_windows(
    builder: Builder,
    outer: Sequence[Place],
    inner: Sequence[Place],
    window: Sequence[tuple[int, ...]],
    counts: Sequence[int],
    shape: Sequence[int],
) -> tuple[Index, Scalar]:
    """The index of an element of a window, and the condition that it is in the array.

    Args:
      builder: the writer of the code.
      outer: the index of the window.
      inner: the index in the window.
      window: for each dimension, the window's size, stride, dilations of base and window, and the
        low padding.
      counts: the numbers of windows.
      shape: the shape of the array.
    """
    code = builder.code
    places: list[Place] = []
    conditions: list[Scalar] = []
    for i, j, row, count, n in zip(outer, inner, window, counts, shape, strict=True):
        _, stride, base, dilation, low = row
        place = code.minus(code.plus(code.times(i, stride), code.times(j, dilation)), low)
        if base != 1:
            # The elements are `base` apart; a negative place is no multiple that is inside.
            place, rest = code.divided(place, base)
            conditions += code.within(rest, 1)
        if not _always_inside(*row, count=count, length=n):
            conditions += code.within(place, n)
        places.append(place)
    return tuple(places), code.both(conditions)


def _each_window(
    builder: Builder,
    block: ir.Block,
    inputs: Sequence[Stored],
    initial: Sequence[Value],
    outputs: Sequence[Buffer],
    window: Sequence[tuple[int, ...]],
    result: Sequence[int],
) -> None:
    shape = inputs[0].type.shape
    types = [x.type for x in inputs]
    with builder.code.loops(result, independent=False) as outer:
        totals = started(builder, initial)
        with builder.code.loops([row[0] for row in window], independent=False) as inner:
            places, condition = place_in_windows(builder, outer, inner, window, result, shape)
            with builder.code.when(condition):
                elements = [x.element(builder, places) for x in inputs]
                fold(builder, block, types, totals, elements)
        for output, total in zip(outputs, totals, strict=True):
            builder.store(output, flattened(builder.code, outer, result), total.get())


def _select_and_scatter(builder: Builder, operation: Operation) -> list[Value]:
    x, source, start = operation.operands
    type_, shape = x.type, x.type.shape
    window = _dimensions(operation, type_.rank)
    select, scatter = (region.blocks[0] for region in operation.op.regions)
    code, into = builder.code, builder.result(operation)
    builder.compute(splat(type_, start.element(builder, ())), into)
    with builder.in_memory(x) as stored, code.loops(source.type.shape, independent=False) as outer:
        best = Total(code, filled(builder, type_, 0).element(builder, ()))
        nowhere = code.constant(-1, "index")
        chosen = code.variable("index", nowhere)
        with code.loops([row[0] for row in window], independent=False) as inner:
            places, condition = place_in_windows(
                builder, outer, inner, window, source.type.shape, shape
            )
            with code.when(condition):
                element = stored.element(builder, places)
                (keeps,) = combined(builder, select, [type_, type_], [best.get(), element])
                is_first = code.compare("eq", code.value(chosen), nowhere)
                loses = code.same("arith.xori", only(keeps), code.constant(True, "i1"))
                with code.when(code.same("arith.ori", is_first, loses)):
                    best.set(element)
                    code.assign(chosen, code.at(flattened(code, places, shape)))
        position = code.value(chosen)
        with code.when(code.compare("ne", position, nowhere)):
            old, update = builder.load(into, position), source.element(builder, outer)
            (new,) = combined(builder, scatter, [type_, type_], [old, update])
            builder.store(into, position, new)
    return [Stored(into, type_)]


WINDOWS: dict[str, Callable[[Builder, Operation], Sequence[Value]]] = {
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
}
