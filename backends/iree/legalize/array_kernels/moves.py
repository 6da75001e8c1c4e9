"""Ops of StableHLO that move elements, in a kernel of vector code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gnomon.backends.iree.legalize.array_kernels.code import Kernel, Rule, reshape, shape_of
from gnomon.backends.iree.legalize.array_kernels.emitter import Place, first_place
from gnomon.backends.iree.legalize.array_kernels.layout import Layout, Splat, View, dense
from gnomon.backends.iree.legalize.array_kernels.storage import (
    constant_window,
    is_plain_pad,
    window,
)
from gnomon.backends.iree.legalize.loop_kernels.attributes import integer, integers, padding_of
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    clamped_index,
    kind_of,
)
from gnomon.dialects.mlir import ir, stablehlo
from gnomon.dialects.slicing import padded_range

__all__ = ["MOVES"]


def _barrier(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    return [kernel.layout(v) for v in op.operands]


def _reshape(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    (x,) = op.operands
    return [reshape(kernel, kernel.layout(x), shape_of(op.results[0]), x.type.element_type)]


def _broadcast(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    (x,) = op.operands
    shape = shape_of(op.results[0])
    layout = kernel.layout(x)
    strides = [0] * len(shape)
    dims = integers(op, "broadcast_dimensions")
    for d, n, s in zip(dims, layout.shape, layout.strides, strict=True):
        strides[d] = s if n != 1 else 0
    return [layout.with_layout(shape, strides)]


def _transpose(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    layout = kernel.layout(op.operands[0])
    order = integers(op, "permutation")
    strides = [layout.strides[d] for d in order]
    return [layout.with_layout(shape_of(op.results[0]), strides)]


def _slice(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    layout = kernel.layout(op.operands[0])
    starts, steps = integers(op, "start_indices"), integers(op, "strides")
    offset = sum(i * s for i, s in zip(starts, layout.strides, strict=True))
    strides = [s * step for s, step in zip(layout.strides, steps, strict=True)]
    return [layout.with_layout(shape_of(op.results[0]), strides, offset)]


def _reverse(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    layout = kernel.layout(op.operands[0])
    dims = integers(op, "dimensions")
    strides = [-s if d in dims else s for d, s in enumerate(layout.strides)]
    offset = sum((layout.shape[d] - 1) * layout.strides[d] for d in dims)
    return [layout.with_layout(layout.shape, strides, offset)]


def _iota(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    type_ = op.results[0].type
    kind_of(type_.element_type)
    d = integer(op, "iota_dimension")
    strides = tuple(int(i == d) for i in range(len(type_.shape)))
    return [View(None, tuple(type_.shape), strides, type_.element_type)]


def _part(view: View, starts: Sequence[int], shape: Sequence[int], steps: Sequence[int]) -> View:
    """The part of an array that begins at a position, with steps between its elements."""
    offset = sum(i * s for i, s in zip(starts, view.strides, strict=True))
    strides = [s * step for s, step in zip(view.strides, steps, strict=True)]
    return view.with_layout(shape, strides, offset)


def _whole(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a new array, also for dimensions of size 1."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def _new(kernel: Kernel, op: ir.Operation) -> View:
    """Memory for the result of an op."""
    view = kernel.place(op.results[0])
    # The strides of dimensions of size 1 in a new array are 0.
    return view.with_layout(view.shape, _whole(view.shape)) if view.is_dense else view


def _normal(view: View) -> View:
    return view.with_layout(view.shape, dense(view.shape)) if view.is_dense else view


def _put(kernel: Kernel, layout: Layout, target: View) -> None:
    """Copy elements to their place, unless they were computed there."""
    if layout != target:
        kernel.copy(layout, target)
    else:
        # Outside of this kernel, another kernel would copy them.
        kernel.loops += kernel.trips


def _concatenate(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    layouts = [kernel.layout(x) for x in op.operands]
    result = kernel.place(op.results[0])
    d = integer(op, "dimension")
    at = 0
    for layout in layouts:
        if not math.prod(layout.shape):
            continue
        starts = [at if i == d else 0 for i in range(len(layout.shape))]
        _put(kernel, layout, window(result, starts, layout.shape))
        at += layout.shape[d]
    return [result]


def _pad(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    x, filling = op.operands
    layout = kernel.layout(x)
    number = kernel.number_of(filling)
    if is_plain_pad(op) and 0 not in layout.shape:
        result = kernel.place(op.results[0])
        low, _, _ = padding_of(op)
        _put(kernel, layout, window(result, low, layout.shape))
        _fill_around(kernel, number, result, low, layout.shape)
        return [result]
    result = _new(kernel, op)
    kernel.copy(Splat(number, result.shape), result)
    ranges = list(map(padded_range, layout.shape, *padding_of(op)))
    shape = [r.last - r.first for r in ranges]
    if math.prod(shape):
        offset = sum(r.first * s for r, s in zip(ranges, layout.strides, strict=True))
        source = layout.with_layout(shape, layout.strides, offset)
        target = _part(result, [r.begin for r in ranges], shape, [r.step for r in ranges])
        kernel.copy(source, target)
    return [_normal(result)]


def _fill_around(
    kernel: Kernel, number: ir.Value, result: View, low: Sequence[int], shape: Sequence[int]
) -> None:
    """Fill an array around a window."""
    loops = kernel.loops
    starts, sizes = [0] * len(shape), list(result.shape)
    for d, (at, n, size) in enumerate(zip(low, shape, result.shape, strict=True)):
        for start, end in ((0, at), (at + n, size)):
            if start < end:
                border = sizes[:d] + [end - start] + sizes[d + 1 :]
                begin = starts[:d] + [start] + starts[d + 1 :]
                kernel.copy(Splat(number, tuple(border)), window(result, begin, border))
        starts[d], sizes[d] = at, n
    # Outside of this kernel, no part of the border would be a kernel of its own.
    kernel.loops = loops


def _start(kernel: Kernel, old: ir.Value, size: int, n: int) -> ir.Value | None:
    """The start of a window, clamped so that the window is in bounds; None for zero."""
    if size == n:
        return None
    kernel.spend(3)
    return clamped_index(kernel.number_of(old), kind_of(old.type.element_type), n - size)


def _window(kernel: Kernel, view: View, starts: Sequence[ir.Value], shape: Sequence[int]) -> View:
    """The part of an array that begins at a computed position."""
    at = Place(0, view.moved)
    for old, size, n, s in zip(starts, shape, view.shape, view.strides, strict=True):
        start = _start(kernel, old, size, n)
        if start is not None:
            at = at.plus(start, s)
    return View(view.buffer, tuple(shape), view.strides, view.element, view.offset, at.computed)


def _dynamic_slice(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    operand, *starts = op.operands
    layout, shape = kernel.layout(operand), shape_of(op.results[0])
    if isinstance(layout, Splat):
        return [Splat(layout.value, shape)]
    return [_window(kernel, layout, starts, shape)]


def _dynamic_update_slice(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    operand, update, *starts = op.operands
    if shape_of(operand) == shape_of(update):
        return [kernel.layout(update)]
    if op.results[0] not in kernel.places:
        kernel.flush_all()
    layout, new = kernel.layout(operand), kernel.layout(update)
    if not math.prod(new.shape):
        return [layout]
    if op.results[0] in kernel.places:
        starts = constant_window(op)
        assert starts is not None
        _put(kernel, new, window(kernel.places[op.results[0]], starts, new.shape))
        return [kernel.places[op.results[0]]]
    element = operand.type.element_type
    if not kernel.may_overwrite(operand, layout):
        layout = kernel.copied(layout, element)
    elif isinstance(new, View) and isinstance(layout, View) and new.buffer is layout.buffer:
        new = kernel.copied(new, element)
    assert isinstance(layout, View)
    spaced = layout.with_layout(layout.shape, _whole(layout.shape))
    kernel.copy(new, _window(kernel, spaced, starts, new.shape))
    return [layout]


def _gather(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    operand, indices = op.operands
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    sizes = integers(op, "slice_sizes")
    source, places = kernel.layout(operand), kernel.layout(indices)
    result = _new(kernel, op)
    if isinstance(source, Splat):
        return [Splat(source.value, result.shape)]
    offset_dims = list(numbers.offset_dims)
    batching = list(numbers.operand_batching_dims)
    removed = {*numbers.collapsed_slice_dims, *batching}
    kept = [d for d in range(len(source.shape)) if d not in removed]
    vector_dim = numbers.index_vector_dim
    index_dims = [d for d in range(len(places.shape)) if d != vector_dim]
    batch_dims = [d for d in range(len(result.shape)) if d not in offset_dims]
    kind = kind_of(indices.type.element_type)
    # The strides of each batch dimension in the result, the indices and the operand.
    index_strides = (0,) * len(places.shape) if isinstance(places, Splat) else places.strides
    moves = [
        [result.strides[b], index_strides[i], 0]
        for b, i in zip(batch_dims, index_dims, strict=True)
    ]
    for d, at in zip(batching, numbers.start_indices_batching_dims, strict=True):
        moves[index_dims.index(at)][2] += source.strides[d]
    element = operand.type.element_type
    window = tuple(sizes[d] for d in kept)

    def one(batch_places: list[Place]) -> None:
        to, at, start = batch_places
        for k, d in enumerate(numbers.start_index_map):
            step = 0
            if vector_dim < len(places.shape) and not isinstance(places, Splat):
                step = places.strides[vector_dim] * k
            start_index = kernel.load(places, Place(at.known + step, at.computed), 1, 1)
            kernel.spend(3)
            index = clamped_index(start_index, kind, source.shape[d] - sizes[d])
            start = start.plus(index, source.strides[d])
        read = View(
            source.buffer,
            window,
            tuple(source.strides[d] for d in kept),
            element,
            start.known,
            start.computed,
        )
        written = View(
            result.buffer,
            window,
            tuple(result.strides[d] for d in offset_dims),
            element,
            to.known,
            to.computed,
        )
        kernel.copy(read, written)

    first = [first_place(result), first_place(places), first_place(source)]
    kernel.over([result.shape[d] for d in batch_dims], first, moves, one)
    return [_normal(result)]


MOVES: Mapping[str, Rule] = {
    "stablehlo.optimization_barrier": _barrier,
    "stablehlo.reshape": _reshape,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.transpose": _transpose,
    "stablehlo.slice": _slice,
    "stablehlo.reverse": _reverse,
    "stablehlo.iota": _iota,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.pad": _pad,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
}
