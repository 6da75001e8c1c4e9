"""Reductions over dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon.backends.kernels.arithmetic import apply, constant, converted
from gnomon.backends.kernels.code import Element, Place
from gnomon.backends.kernels.folds import Total, fold, started
from gnomon.backends.kernels.movements import splat
from gnomon.backends.kernels.types import kind_of
from gnomon.backends.kernels.values import Buffer, Index, Stored, Value, flattened
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_complex, is_floating

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder, Operation

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


def _identity(name: str, dtype: np.dtype[Any]) -> Any:
    """The identity of an associative operation."""
    floating = is_floating(dtype)
    if dtype == np.bool_:
        return name in ("multiply", "and", "minimum")
    if name in ("maximum", "minimum"):
        sign = -1 if name == "maximum" else 1
        if floating:
            return sign * math.inf
        info = np.iinfo(dtype)
        return info.min if sign < 0 else info.max
    # The sum of negative zeros is a negative zero.
    return {"add": -0.0 if floating else 0, "multiply": 1, "and": -1, "or": 0, "xor": 0}[name]


def _reduce(builder: Builder, operation: Operation) -> list[Value]:
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
        return [_reduce_associative(builder, operation, name, reduced)]
    outputs = [builder.result(operation, k) for k in range(count)]
    kept = [d for d in range(len(shape)) if d not in reduced]
    types = [x.type for x in inputs]
    code = builder.code
    with code.loops([shape[d] for d in kept], independent=False) as outer:
        totals = started(builder, initial)
        with code.loops([shape[d] for d in reduced], independent=False) as inner:
            index = _merge(kept, outer, reduced, inner)
            fold(builder, block, types, totals, [x.element(builder, index) for x in inputs])
        sizes = [shape[d] for d in kept]
        for output, total in zip(outputs, totals, strict=True):
            builder.store(output, flattened(code, outer, sizes), total.get())
    return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]


def _merge(kept: Sequence[int], outer: Index, reduced: Sequence[int], inner: Index) -> Index:
    places = dict(zip(kept, outer, strict=True)) | dict(zip(reduced, inner, strict=True))
    return tuple(places[d] for d in sorted(places))


def _reduce_associative(
    builder: Builder, operation: Operation, name: str, reduced: Sequence[int]
) -> Value:
    """A reduction by an associative operation, whose order is changed so that it vectorizes."""
    x, start = operation.operands
    code = builder.code
    shape, dtype = x.type.shape, x.type.dtype
    kept = [d for d in range(len(shape)) if d not in reduced]
    sizes = [shape[d] for d in kept]
    length = math.prod(shape[d] for d in reduced)
    wide = dtype
    last = max((d for d, n in enumerate(shape) if n > 1), default=-1)
    longest = _LONG_SUM if last in reduced or not sizes else _MANY_ROWS
    if name == "add" and dtype == np.float32 and length > longest:
        wide = np.dtype(np.float64)
    into = builder.result(operation)
    identity = constant(code, _identity(name, wide), wide)

    def step(total: Element, element: Element, computed: np.dtype[Any]) -> Element:
        return apply(code, name, [total, element], computed)

    if last in reduced or not sizes:
        with code.loops(sizes, independent=False) as outer:
            total = _in_lanes(builder, x, kept, outer, reduced, last, name, wide)
            total = step(start.element(builder, ()), converted(code, total, wide, dtype), dtype)
            builder.store(into, flattened(code, outer, sizes), total)
        return Stored(into, operation.type)
    # Row by row, the elements of the operand are combined with those of the result.
    sums = into if wide == dtype else builder.allocate(operation.type.with_dtype(wide))
    builder.compute(splat(sums.type, identity), sums)
    with code.loops(shape) as index:
        position = flattened(code, tuple(index[d] for d in kept), sizes)
        element = converted(code, x.element(builder, index), dtype, wide)
        builder.store(sums, position, step(builder.load(sums, position), element, wide))
    with code.loops(sizes) as index:
        position = flattened(code, index, sizes)
        total = converted(code, builder.load(sums, position), wide, dtype)
        builder.store(into, position, step(start.element(builder, ()), total, dtype))
    if sums is not into:
        builder.release(sums)
    return Stored(into, operation.type)


def _in_lanes(
    builder: Builder,
    x: Value,
    kept: Sequence[int],
    outer: Index,
    reduced: Sequence[int],
    last: int,
    name: str,
    wide: np.dtype[Any],
) -> Element:
    """The reduction of one row, by lanes that are combined at the end."""
    shape, dtype, code = x.type.shape, x.type.dtype, builder.code
    identity = constant(code, _identity(name, wide), wide)
    total = Total(code, identity)
    others = [d for d in reduced if d != last]
    length = shape[last] if last >= 0 else 1
    whole = length - length % _LANES

    def element_at(places: Index, along: Place) -> Element:
        line = ([last], (along,)) if last >= 0 else ([], ())
        index = _merge([*kept, *others], (*outer, *places), *line)
        return converted(code, x.element(builder, index), dtype, wide)

    def add(places: Index, along: Place) -> None:
        element = element_at(places, along)
        total.set(apply(code, name, [total.get(), element], wide))

    if whole:
        memory = f"memref.alloca() : memref<{_LANES}x{kind_of(wide).stored}>"
        row = code.at_head(("lanes", code.number()), memory)
        lanes = Buffer(row, TensorType((_LANES,), wide))
        builder.compute(splat(lanes.type, identity), lanes)
    with code.loops([shape[d] for d in others], independent=False) as places:
        if whole:
            with code.loop(0, whole, _LANES) as along, code.loops([_LANES]) as (lane,):
                element = element_at(places, code.plus(along, lane))
                sum_ = apply(code, name, [builder.load(lanes, lane), element], wide)
                builder.store(lanes, lane, sum_)
        if length != whole and (last < 0 or length - whole == 1):
            add(places, whole)
        elif length != whole:
            with code.loop(whole, length) as along:
                add(places, along)
    if whole:
        with code.loops([_LANES], independent=False) as (lane,):
            total.set(apply(code, name, [total.get(), builder.load(lanes, lane)], wide))
    return total.get()


REDUCTIONS: dict[str, Callable[[Builder, Operation], Sequence[Value]]] = {
    "stablehlo.reduce": _reduce,
}
