"""Reductions over windows, cumulative operations, and scatters to selected elements of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.standalone_c.folds import combined, fold, started
from gnomon.backends.standalone_c.movements import splat
from gnomon.backends.standalone_c.types import literal, of_type
from gnomon.backends.standalone_c.values import Buffer, Index, Stored, Value, flattened, plus, times
from gnomon.dialects.attributes import DENSE
from gnomon.dialects.mlir import ir

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter, Operation

__all__ = ["WINDOWS"]


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


def _reduce_window(emitter: Emitter, operation: Operation) -> list[Value]:
    count = len(operation.operands) // 2
    initial = operation.operands[count:]
    inputs = [emitter.stored(x) for x in operation.operands[:count]]
    shape = inputs[0].type.shape
    window = _dimensions(operation, len(shape))
    block = operation.op.regions[0].blocks[0]
    outputs = [emitter.result(operation, k) for k in range(count)]
    axis = _cumulative_axis(window, shape, operation.types[0].shape)
    if axis is not None:
        _accumulate(emitter, block, inputs, initial, outputs, axis, reverse=window[axis][4] == 0)
    elif operation.types[0].size:
        _each_window(emitter, block, inputs, initial, outputs, window, operation.types[0].shape)
    for operand, x in zip(operation.operands, inputs, strict=False):
        if operand is not x:
            emitter.release(x.buffer)
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
    emitter: Emitter,
    block: ir.Block,
    inputs: Sequence[Stored],
    initial: Sequence[Value],
    outputs: Sequence[Buffer],
    axis: int,
    *,
    reverse: bool,
) -> None:
    shape = inputs[0].type.shape
    types = [x.type for x in inputs]
    others = [n for d, n in enumerate(shape) if d != axis]
    with emitter.loops(others, parallel=False) as outer:
        totals = started(emitter, types, initial)
        with emitter.loops([shape[axis]], parallel=False) as (along,):
            place = f"({shape[axis] - 1} - {along})" if reverse else along
            position = flattened((*outer[:axis], place, *outer[axis:]), shape)
            elements = [x.element(emitter, (*outer[:axis], place, *outer[axis:])) for x in inputs]
            fold(emitter, block, types, totals, elements, elements_first=reverse)
            for total, output in zip(totals, outputs, strict=True):
                emitter.store(output, position, total)


def _inside(
    emitter: Emitter, outer: Index, inner: Index, window: Sequence[tuple[int, ...]], shape: Index
) -> tuple[Index, str]:
    """The index of an element of a window, and the condition that it is in the array."""
    places, conditions = [], []
    for i, j, row, n in zip(outer, inner, window, shape, strict=True):
        _, stride, base, dilation, low = row
        place = plus(plus(times(i, stride), times(j, dilation)), -low)
        place = emitter.local("int64_t", place, "p")
        if base != 1:
            conditions.append(f"{place} >= 0 && {place} % {base} == 0")
            place = emitter.local("int64_t", f"{place} / {base}", "p")
        conditions.append(f"{place} >= 0 && {place} < {n}")
        places.append(place)
    return tuple(places), " && ".join(conditions) or "1"


def _each_window(
    emitter: Emitter,
    block: ir.Block,
    inputs: Sequence[Stored],
    initial: Sequence[Value],
    outputs: Sequence[Buffer],
    window: Sequence[tuple[int, ...]],
    result: Sequence[int],
) -> None:
    shape = inputs[0].type.shape
    types = [x.type for x in inputs]
    with emitter.loops(result, parallel=False) as outer:
        totals = started(emitter, types, initial)
        with emitter.loops([row[0] for row in window], parallel=False) as inner:
            places, condition = _inside(emitter, outer, inner, window, tuple(map(str, shape)))
            with emitter.block(f"if ({condition})"):
                elements = [x.element(emitter, places) for x in inputs]
                fold(emitter, block, types, totals, elements)
        for output, total in zip(outputs, totals, strict=True):
            emitter.store(output, flattened(outer, result), total)


def _select_and_scatter(emitter: Emitter, operation: Operation) -> list[Value]:
    x, source, start = operation.operands
    type_, shape = x.type, x.type.shape
    window = _dimensions(operation, type_.rank)
    select, scatter = (region.blocks[0] for region in operation.op.regions)
    kind = of_type(type_).computed
    into = emitter.result(operation)
    emitter.compute(splat(type_, start.element(emitter, ())), into)
    scalar = type_.with_shape(())
    with emitter.in_memory(x) as stored, emitter.loops(source.type.shape, parallel=False) as outer:
        best, chosen = emitter.name("a"), emitter.name("p")
        emitter.line(f"{kind} {best} = {literal(0, type_.dtype)};")
        emitter.line(f"int64_t {chosen} = -1;")
        with emitter.loops([row[0] for row in window], parallel=False) as inner:
            places, condition = _inside(emitter, outer, inner, window, tuple(map(str, shape)))
            with emitter.block(f"if ({condition})"):
                element = emitter.local(kind, stored.element(emitter, places))
                (keeps,) = combined(emitter, select, [scalar, scalar], [best, element])
                with emitter.block(f"if ({chosen} < 0 || !{keeps})"):
                    emitter.line(f"{best} = {element};")
                    emitter.line(f"{chosen} = {flattened(places, shape)};")
        with emitter.block(f"if ({chosen} >= 0)"):
            old = emitter.local(kind, emitter.load(into, chosen))
            update = source.element(emitter, outer)
            (new,) = combined(emitter, scatter, [scalar, scalar], [old, update])
            emitter.store(into, chosen, new)
    return [Stored(into, type_)]


WINDOWS: dict[str, Callable[[Emitter, Operation], Sequence[Value]]] = {
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
}
