"""Reductions over dimensions and windows, and sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.standalone_c.movements import splat
from gnomon.backends.standalone_c.scalars import apply, converted
from gnomon.backends.standalone_c.types import literal, of_type
from gnomon.backends.standalone_c.values import Buffer, Index, Stored, Value, flattened, plus, times
from gnomon.dialects.attributes import DENSE
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_complex, is_floating

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter, Operation

__all__ = ["REDUCTIONS"]

_LANES = 16
# The longest sum of f32 that is added up in f32: in a longer chain of additions f32 loses digits.
_LONG_SUM = 1024
_ASSOCIATIVE = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})


def _only_op(block: ir.Block) -> str | None:
    """The operation that a region of two scalars applies; None if it does something else."""
    operations = [op.operation for op in block.operations]
    if len(operations) != 2:
        return None
    op, end = operations
    if list(op.operands) != list(block.arguments) or list(end.operands) != list(op.results):
        return None
    return str(op.name).removeprefix("stablehlo.")


def _identity(name: str, dtype: np.dtype) -> str:
    """The C expression of the identity of an associative operation."""
    floating = is_floating(dtype)
    if dtype == np.bool_:
        return "true" if name in ("multiply", "and", "minimum") else "false"
    if name in ("maximum", "minimum"):
        sign = -1 if name == "maximum" else 1
        if floating:
            return literal(sign * math.inf, dtype)
        info = np.iinfo(dtype)
        return literal(info.min if sign < 0 else info.max, dtype)
    # The sum of negative zeros is a negative zero.
    numbers = {"add": -0.0 if floating else 0, "multiply": 1, "and": -1, "or": 0, "xor": 0}
    number = numbers[name]
    return literal(np.iinfo(dtype).max if number == -1 and dtype.kind == "u" else number, dtype)


def _combine(
    emitter: Emitter, block: ir.Block, types: Sequence[TensorType], values: Sequence[str]
) -> list[str]:
    scalars = [splat(t.with_shape(()), v) for t, v in zip(types, values, strict=True)]
    return emitter.inline(block, scalars)


def _reduce(emitter: Emitter, operation: Operation) -> list[Value]:
    count = len(operation.operands) // 2
    inputs, initial = operation.operands[:count], operation.operands[count:]
    reduced = operation.integers("dimensions")
    block = operation.op.regions[0].blocks[0]
    shape = inputs[0].type.shape
    name = _only_op(block) if count == 1 else None
    dtype = inputs[0].type.dtype
    if (
        name in _ASSOCIATIVE
        and operation.type.size
        and inputs[0].type.size
        and not is_complex(dtype)
    ):
        return [_reduce_associative(emitter, operation, name, reduced)]
    outputs = [emitter.result(operation, k) for k in range(count)]
    kept = [d for d in range(len(shape)) if d not in reduced]
    types = [x.type for x in inputs]
    with emitter.loops([shape[d] for d in kept], parallel=False) as outer:
        totals = []
        for x, start in zip(inputs, initial, strict=True):
            total = emitter.name("a")
            emitter.line(f"{of_type(x.type).computed} {total} = {start.element(emitter, ())};")
            totals.append(total)
        with emitter.loops([shape[d] for d in reduced], parallel=False) as inner:
            index = _merge(kept, outer, reduced, inner)
            elements = [x.element(emitter, index) for x in inputs]
            new = _combine(emitter, block, [*types, *types], [*totals, *elements])
            held = [emitter.local(of_type(t).computed, v) for t, v in zip(types, new, strict=True)]
            for total, value in zip(totals, held, strict=True):
                emitter.line(f"{total} = {value};")
        sizes = [shape[d] for d in kept]
        for output, total in zip(outputs, totals, strict=True):
            emitter.store(output, flattened(outer, sizes), total)
    return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]


def _merge(kept: Sequence[int], outer: Index, reduced: Sequence[int], inner: Index) -> Index:
    places = dict(zip(kept, outer, strict=True)) | dict(zip(reduced, inner, strict=True))
    return tuple(places[d] for d in sorted(places))


def _reduce_associative(
    emitter: Emitter, operation: Operation, name: str, reduced: Sequence[int]
) -> Value:
    """A reduction by an operation whose order may change, so that it vectorizes."""
    x, start = operation.operands
    shape, dtype = x.type.shape, x.type.dtype
    kept = [d for d in range(len(shape)) if d not in reduced]
    sizes = [shape[d] for d in kept]
    length = math.prod(shape[d] for d in reduced)
    wide = dtype
    if name == "add" and dtype == np.float32 and length > _LONG_SUM:
        wide = np.dtype(np.float64)
    into = emitter.result(operation)
    last = max((d for d, n in enumerate(shape) if n > 1), default=-1)

    def step(total: str, element: str, among: np.dtype) -> str:
        return apply(emitter, name, [total, element], among, among)

    if last in reduced or not sizes:
        with emitter.loops(sizes, parallel=False) as outer:
            total = _in_lanes(emitter, x, kept, outer, reduced, last, name, wide)
            total = converted(emitter, total, wide, dtype)
            total = step(start.element(emitter, ()), total, dtype)
            emitter.store(into, flattened(outer, sizes), total)
        return Stored(into, operation.type)
    # The elements of a row are added to those of the result, one row after the other.
    sums = into if wide == dtype else emitter.allocate(operation.type.with_dtype(wide))
    emitter.compute(splat(sums.type, _identity(name, wide)), sums)
    with emitter.loops(shape) as index:
        position = flattened(tuple(index[d] for d in kept), sizes)
        element = converted(emitter, x.element(emitter, index), dtype, wide)
        total = emitter.local(of_type(sums.type).computed, emitter.load(sums, position))
        emitter.store(sums, position, step(total, element, wide))
    with emitter.loops(sizes) as index:
        position = flattened(index, sizes)
        total = converted(emitter, emitter.load(sums, position), wide, dtype)
        emitter.store(into, position, step(start.element(emitter, ()), total, dtype))
    if sums is not into:
        emitter.release(sums)
    return Stored(into, operation.type)


def _in_lanes(
    emitter: Emitter,
    x: Value,
    kept: Sequence[int],
    outer: Index,
    reduced: Sequence[int],
    last: int,
    name: str,
    wide: np.dtype,
) -> str:
    """The reduction of one row, by lanes that are combined at the end."""
    shape, dtype = x.type.shape, x.type.dtype
    kind = of_type(x.type.with_dtype(wide)).computed
    total = emitter.name("a")
    emitter.line(f"{kind} {total} = {_identity(name, wide)};")
    others = [d for d in reduced if d != last]
    length = shape[last] if last >= 0 else 1
    whole = length - length % _LANES

    def add(to: str, places: Index, along: str) -> None:
        line = ([last], (along,)) if last >= 0 else ([], ())
        index = _merge([*kept, *others], (*outer, *places), *line)
        element = converted(emitter, x.element(emitter, index), dtype, wide)
        value = emitter.local(kind, to)
        emitter.line(f"{to} = {apply(emitter, name, [value, element], wide, wide)};")

    lanes = emitter.name("lanes")
    lane = emitter.name("l")
    each = f"for (int {lane} = 0; {lane} < {_LANES}; ++{lane})"
    if whole:
        emitter.line(f"{kind} {lanes}[{_LANES}];")
        emitter.line(f"{each} {lanes}[{lane}] = {_identity(name, wide)};")
    with emitter.loops([shape[d] for d in others], parallel=False) as places:
        along = emitter.name("i")
        if whole:
            head = f"for (int64_t {along} = 0; {along} < {whole}; {along} += {_LANES})"
            with emitter.block(head):
                emitter.line("GNOMON_INDEPENDENT")
                with emitter.block(each):
                    add(f"{lanes}[{lane}]", places, f"({along} + {lane})")
        if length != whole and last < 0:
            with emitter.block(""):
                add(total, places, "0")
        elif length != whole:
            with emitter.block(f"for (int64_t {along} = {whole}; {along} < {length}; ++{along})"):
                add(total, places, along)
    if whole:
        with emitter.block(each):
            value = emitter.local(kind, total)
            summed = apply(emitter, name, [value, f"{lanes}[{lane}]"], wide, wide)
            emitter.line(f"{total} = {summed};")
    return total


# ---------------------------------------------------------------------------------------- windows


def _window(operation: Operation, rank: int) -> list[tuple[int, ...]]:
    """The size, stride, dilations of base and window, and padding before, of each dimension."""
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
    window = _window(operation, len(shape))
    block = operation.op.regions[0].blocks[0]
    outputs = [emitter.result(operation, k) for k in range(count)]
    axis = _cumulative_axis(window, shape, operation.types[0].shape)
    if axis is not None:
        _accumulate(emitter, block, inputs, initial, outputs, axis, reverse=window[axis][4] == 0)
    elif operation.types[0].size:
        _each_window(emitter, block, inputs, initial, outputs, window, operation.types[0].shape)
    for given, x in zip(operation.operands, inputs, strict=False):
        if given is not x:
            emitter.release(x.buffer)
    return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]


def _cumulative_axis(
    window: Sequence[tuple[int, ...]], shape: Sequence[int], result: Sequence[int]
) -> int | None:
    """The axis of a cumulative operation, whose windows start or end at each element."""
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
        totals = []
        for x, start in zip(inputs, initial, strict=True):
            total = emitter.name("a")
            emitter.line(f"{of_type(x.type).computed} {total} = {start.element(emitter, ())};")
            totals.append(total)
        with emitter.loops([shape[axis]], parallel=False) as (along,):
            place = f"({shape[axis] - 1} - {along})" if reverse else along
            position = flattened((*outer[:axis], place, *outer[axis:]), shape)
            elements = [x.element(emitter, (*outer[:axis], place, *outer[axis:])) for x in inputs]
            pairs = [*elements, *totals] if reverse else [*totals, *elements]
            new = _combine(emitter, block, [*types, *types], pairs)
            held = [emitter.local(of_type(t).computed, v) for t, v in zip(types, new, strict=True)]
            for total, value, output in zip(totals, held, outputs, strict=True):
                emitter.line(f"{total} = {value};")
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
        totals = []
        for x, start in zip(inputs, initial, strict=True):
            total = emitter.name("a")
            emitter.line(f"{of_type(x.type).computed} {total} = {start.element(emitter, ())};")
            totals.append(total)
        with emitter.loops([row[0] for row in window], parallel=False) as inner:
            places, condition = _inside(emitter, outer, inner, window, tuple(map(str, shape)))
            with emitter.block(f"if ({condition})"):
                elements = [x.element(emitter, places) for x in inputs]
                new = _combine(emitter, block, [*types, *types], [*totals, *elements])
                held = [
                    emitter.local(of_type(t).computed, v) for t, v in zip(types, new, strict=True)
                ]
                for total, value in zip(totals, held, strict=True):
                    emitter.line(f"{total} = {value};")
        for output, total in zip(outputs, totals, strict=True):
            emitter.store(output, flattened(outer, result), total)


def _select_and_scatter(emitter: Emitter, operation: Operation) -> list[Value]:
    x, source, start = operation.operands
    type_, shape = x.type, x.type.shape
    window = _window(operation, type_.rank)
    select, scatter = (region.blocks[0] for region in operation.op.regions)
    kind = of_type(type_).computed
    into = emitter.result(operation)
    emitter.compute(splat(type_, start.element(emitter, ())), into)
    scalar = type_.with_shape(())
    with emitter.in_memory(x) as stored, emitter.loops(source.type.shape, parallel=False) as outer:
        best, found = emitter.name("a"), emitter.name("p")
        emitter.line(f"{kind} {best} = {literal(0, type_.dtype)};")
        emitter.line(f"int64_t {found} = -1;")
        with emitter.loops([row[0] for row in window], parallel=False) as inner:
            places, condition = _inside(emitter, outer, inner, window, tuple(map(str, shape)))
            with emitter.block(f"if ({condition})"):
                element = emitter.local(kind, stored.element(emitter, places))
                (keeps,) = _combine(emitter, select, [scalar, scalar], [best, element])
                with emitter.block(f"if ({found} < 0 || !{keeps})"):
                    emitter.line(f"{best} = {element};")
                    emitter.line(f"{found} = {flattened(places, shape)};")
        with emitter.block(f"if ({found} >= 0)"):
            old = emitter.local(kind, emitter.load(into, found))
            update = source.element(emitter, outer)
            (new,) = _combine(emitter, scatter, [scalar, scalar], [old, update])
            emitter.store(into, found, new)
    return [Stored(into, type_)]


# ------------------------------------------------------------------------------------------- sort


def _sort(emitter: Emitter, operation: Operation) -> list[Value]:
    """A stable merge sort of the positions along the dimension, by the region's comparison."""
    dimension = int(operation.attribute("dimension"))
    shape = operation.types[0].shape
    dimension += len(shape) if dimension < 0 else 0
    count = shape[dimension]
    inputs = [emitter.stored(x) for x in operation.operands]
    outputs = [emitter.result(operation, k) for k in range(len(inputs))]
    block = operation.op.regions[0].blocks[0]
    others = [n for d, n in enumerate(shape) if d != dimension]
    places = TensorType((max(count, 2),), np.dtype(np.int64))
    if operation.types[0].size == 0:
        return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]
    with (
        emitter.scratch(places) as first,
        emitter.scratch(places) as second,
        emitter.loops(others, parallel=False) as outer,
    ):

        def at(place: str) -> Index:
            return (*outer[:dimension], place, *outer[dimension:])

        source, target = emitter.name("x"), emitter.name("y")
        emitter.line(f"int64_t *{source} = {first.pointer}, *{target} = {second.pointer};")
        i, j, k, width, low = (emitter.name(n) for n in "ijkwl")
        middle, high, swapped = emitter.name("m"), emitter.name("h"), emitter.name("z")
        emitter.line(f"for (int64_t {i} = 0; {i} < {count}; ++{i}) {source}[{i}] = {i};")
        with emitter.block(f"for (int64_t {width} = 1; {width} < {count}; {width} *= 2)"):
            with emitter.block(f"for (int64_t {low} = 0; {low} < {count}; {low} += 2 * {width})"):
                bound = f"{low} + {{}} < {count} ? {low} + {{}} : {count}"
                emitter.line(f"const int64_t {middle} = {bound.format(width, width)};")
                double = f"2 * {width}"
                emitter.line(f"const int64_t {high} = {bound.format(double, double)};")
                emitter.line(f"int64_t {i} = {low}, {j} = {middle};")
                with emitter.block(f"for (int64_t {k} = {low}; {k} < {high}; ++{k})"):
                    with emitter.block(f"if ({i} >= {middle})"):
                        emitter.line(f"{target}[{k}] = {source}[{j}++];")
                        emitter.line("continue;")
                    with emitter.block(f"if ({j} >= {high})"):
                        emitter.line(f"{target}[{k}] = {source}[{i}++];")
                        emitter.line("continue;")
                    values: list[str] = []
                    for x in inputs:
                        values.append(x.element(emitter, at(f"{source}[{j}]")))
                        values.append(x.element(emitter, at(f"{source}[{i}]")))
                    types = [x.type for x in inputs for _ in range(2)]
                    # Equal elements keep their order: the right one goes first only if it is less.
                    (less,) = _combine(emitter, block, types, values)
                    chosen = f"{less} ? {source}[{j}++] : {source}[{i}++]"
                    emitter.line(f"{target}[{k}] = {chosen};")
            emitter.line(f"int64_t *const {swapped} = {source};")
            emitter.line(f"{source} = {target};")
            emitter.line(f"{target} = {swapped};")
        with emitter.loops([count], parallel=False) as (place,):
            for x, output in zip(inputs, outputs, strict=True):
                position = flattened(at(place), shape)
                emitter.store(output, position, x.element(emitter, at(f"{source}[{place}]")))
    for given, x in zip(operation.operands, inputs, strict=True):
        if given is not x:
            emitter.release(x.buffer)
    return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]


REDUCTIONS: dict[str, Callable[[Emitter, Operation], Sequence[Value]]] = {
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.sort": _sort,
}
