"""Reductions over dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.standalone_c.folds import fold, started
from gnomon.backends.standalone_c.movements import splat
from gnomon.backends.standalone_c.scalars import apply, converted
from gnomon.backends.standalone_c.types import literal, of_type
from gnomon.backends.standalone_c.values import Index, Stored, Value, flattened
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_complex, is_floating

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter, Operation

__all__ = ["REDUCTIONS"]

_LANES = 16
# The longest sum of f32 that is added up in f32, in lanes and row by row: in a longer chain of
# additions f32 loses digits.
_LONG_SUM, _MANY_ROWS = 1024, 256
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
        totals = started(emitter, types, initial)
        with emitter.loops([shape[d] for d in reduced], parallel=False) as inner:
            index = _merge(kept, outer, reduced, inner)
            elements = [x.element(emitter, index) for x in inputs]
            fold(emitter, block, types, totals, elements)
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
    """A reduction by an associative operation, whose order is changed so that it vectorizes."""
    x, start = operation.operands
    shape, dtype = x.type.shape, x.type.dtype
    kept = [d for d in range(len(shape)) if d not in reduced]
    sizes = [shape[d] for d in kept]
    length = math.prod(shape[d] for d in reduced)
    wide = dtype
    last = max((d for d, n in enumerate(shape) if n > 1), default=-1)
    longest = _LONG_SUM if last in reduced or not sizes else _MANY_ROWS
    if name == "add" and dtype == np.float32 and length > longest:
        wide = np.dtype(np.float64)
    into = emitter.result(operation)

    def step(total: str, element: str, computed: np.dtype) -> str:
        return apply(emitter, name, [total, element], computed, computed)

    if last in reduced or not sizes:
        with emitter.loops(sizes, parallel=False) as outer:
            total = _in_lanes(emitter, x, kept, outer, reduced, last, name, wide)
            total = converted(emitter, total, wide, dtype)
            total = step(start.element(emitter, ()), total, dtype)
            emitter.store(into, flattened(outer, sizes), total)
        return Stored(into, operation.type)
    # Row by row, the elements of the operand are combined with those of the result.
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


REDUCTIONS: dict[str, Callable[[Emitter, Operation], Sequence[Value]]] = {
    "stablehlo.reduce": _reduce,
}
