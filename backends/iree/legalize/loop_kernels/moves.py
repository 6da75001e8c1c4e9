"""Ops of StableHLO that move elements or reduce them, unrolled in a kernel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gnomon.backends.iree.legalize.loop_kernels.attributes import integer, integers, padding_of
from gnomon.backends.iree.legalize.loop_kernels.code import Kernel, Rule
from gnomon.backends.iree.legalize.loop_kernels.regions import branch
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    UnsupportedError,
    binary,
    clamped_index,
    index,
    kind_of,
    number,
    scalar,
    signless,
)
from gnomon.backends.iree.legalize.loop_kernels.values import (
    FEW,
    Array,
    Numbers,
    Value,
    array_of,
    filled,
    scalar_array,
    size_of,
)
from gnomon.dialects.mlir import ir, stablehlo
from gnomon.dialects.slicing import place_padded

__all__ = ["RULES"]


def _of_numbers(move: Callable[..., Numbers]) -> Rule:
    """The rule of an op that moves elements; NumPy does it in ``move(op, *operands)``."""

    def rule(kernel: Kernel, op: ir.Operation) -> list[Value]:
        if size_of(op.results[0].type) > FEW:
            raise UnsupportedError(f"{op.name} to many numbers")
        return [move(op, *(kernel.numbers(v) for v in op.operands))]

    return rule


def _reshape(kernel: Kernel, op: ir.Operation) -> list[Value]:
    shape = tuple(op.results[0].type.shape)
    value = kernel.value(op.operands[0])
    if isinstance(value, np.ndarray):
        return [value.reshape(shape)]
    return [Array(value.tensor, shape, value.element, value.cell, value.version, value.fill)]


def _broadcast(op: ir.Operation, x: Numbers) -> Numbers:
    shape = tuple(op.results[0].type.shape)
    dims = integers(op, "broadcast_dimensions")
    wide = [1] * len(shape)
    for d, n in zip(dims, x.shape, strict=True):
        wide[d] = n
    # The operand's dimensions may have another order in the result.
    return np.broadcast_to(x.transpose(np.argsort(dims)).reshape(wide), shape)


def _slice(op: ir.Operation, x: Numbers) -> Numbers:
    parts = (integers(op, name) for name in ("start_indices", "limit_indices", "strides"))
    return x[tuple(itertools.starmap(slice, zip(*parts, strict=True)))]


def _concatenate(op: ir.Operation, *parts: Numbers) -> Numbers:
    return np.concatenate(parts, integer(op, "dimension"))


def _pad(op: ir.Operation, x: Numbers, padding: Numbers) -> Numbers:
    result = filled(tuple(op.results[0].type.shape), padding[()])
    place_padded(result, x, *padding_of(op))
    return result


def _iota(kernel: Kernel, op: ir.Operation) -> list[Value]:
    type_ = op.results[0].type
    if size_of(type_) > FEW:
        raise UnsupportedError("a long ramp")
    out, d = np.empty(type_.shape, object), integer(op, "iota_dimension")
    numbers = [number(signless(type_.element_type), i) for i in range(type_.shape[d])]
    for at in np.ndindex(*type_.shape):
        out[at] = numbers[at[d]]
    return [out]


def _starts(
    kernel: Kernel, starts: Sequence[ir.Value], sizes: Sequence[int], shape: Sequence[int]
) -> list[ir.Value]:
    """The start of a window, clamped so that the window is in bounds."""
    out = []
    for old, size, n in zip(starts, sizes, shape, strict=True):
        if size == n:
            out.append(number(index(), 0))
            continue
        kernel.spend(3)
        kind = kind_of(old.type.element_type)
        out.append(clamped_index(kernel.number_of(old), kind, n - size))
    return out


def _moved(at: ir.Value, by: int) -> ir.Value:
    return scalar("arith.addi", [at, number(index(), by)], index()) if by else at


def _each_start(
    kernel: Kernel, starts: Sequence[ir.Value], sizes: Sequence[int], shape: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], ir.Value | None]]:
    """All possible starts of a window, each with the condition that it is the actual one.

    The first has None: it is the case in which no other condition holds.
    """
    i1 = ir.IntegerType.get_signless(1)
    for at in np.ndindex(*(n - size + 1 for n, size in zip(shape, sizes, strict=True))):
        here: ir.Value | None = None
        for start, i in zip(starts, at, strict=True):
            same = scalar("arith.cmpi", [start, number(index(), i)], i1, predicate=0)
            here = same if here is None else scalar("arith.andi", [here, same], i1)
        kernel.spend(2 * len(at) + math.prod(sizes))
        yield at, here if any(at) else None


def _dynamic_slice(kernel: Kernel, op: ir.Operation) -> list[Value]:
    operand, *starts = op.operands
    sizes, shape = list(op.results[0].type.shape), list(operand.type.shape)
    value = kernel.value(operand)
    at = _starts(kernel, starts, sizes, shape)
    if isinstance(value, Array):
        if math.prod(sizes) > FEW:
            raise UnsupportedError("a slice of many numbers")
        out = np.empty(sizes, object)
        for place in np.ndindex(*sizes):
            out[place] = kernel.read(value, list(map(_moved, at, place)))
        return [out]
    out = value[tuple(map(slice, sizes))]
    for place, here in _each_start(kernel, at, sizes, shape):
        if here is not None:
            there = value[tuple(slice(i, i + n) for i, n in zip(place, sizes, strict=True))]
            out = _choose(here, there, out)
    return [out]


def _dynamic_update_slice(kernel: Kernel, op: ir.Operation) -> list[Value]:
    operand, update, *starts = op.operands
    sizes, shape = list(update.type.shape), list(operand.type.shape)
    value, new = kernel.value(operand), kernel.numbers(update)
    at = _starts(kernel, starts, sizes, shape)
    if isinstance(value, Array) and value.cell is not None:
        for place in np.ndindex(*sizes):
            value = kernel.write(value, new[place], list(map(_moved, at, place)))
        return [value]
    if sizes == shape:
        return [new]
    old = kernel.numbers(operand)
    out = old.copy()
    for place, here in _each_start(kernel, at, sizes, shape):
        window = tuple(slice(i, i + n) for i, n in zip(place, sizes, strict=True))
        if here is None:
            first = _starts_at_zero(kernel, at)
            out[window] = new if first is None else _choose(first, new, old[window])
        else:
            out[window] = _choose(here, new, out[window])
    return [out]


def _starts_at_zero(kernel: Kernel, starts: Sequence[ir.Value]) -> ir.Value | None:
    i1 = ir.IntegerType.get_signless(1)
    here: ir.Value | None = None
    for start in starts:
        same = scalar("arith.cmpi", [start, number(index(), 0)], i1, predicate=0)
        here = same if here is None else scalar("arith.andi", [here, same], i1)
    return here


def _choose(chosen: ir.Value, x: Numbers, y: Numbers) -> Numbers:
    pairs = zip(x.flat, y.flat, strict=True)
    return array_of(
        [a if a == b else scalar("arith.select", [chosen, a, b], a.type) for a, b in pairs], x.shape
    )


def _tree(combine: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    """Combine values in order, as a balanced tree."""
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    return combine(_tree(combine, values[:middle]), _tree(combine, values[middle:]))


def _reduce(kernel: Kernel, op: ir.Operation) -> list[Value]:
    operands = [kernel.numbers(v) for v in op.operands]
    count = len(operands) // 2
    axes = integers(op, "dimensions")
    kept = [d for d in range(operands[0].ndim) if d not in axes]
    shape = [operands[0].shape[d] for d in kept]
    rows = [
        x.transpose([*kept, *axes]).reshape([*shape, -1]) if x.size else x for x in operands[:count]
    ]
    block = op.regions[0].blocks[0]

    def combine(x: list[ir.Value], y: list[ir.Value]) -> list[ir.Value]:
        kernel.values.update(zip(block.arguments, map(scalar_array, [*x, *y]), strict=True))
        return [v[()] for v in kernel.block(block)]  # type: ignore[index]

    outs = [np.empty(shape, object) for _ in range(count)]
    initial = [x[()] for x in operands[count:]]
    for at in np.ndindex(*shape):
        items = list(zip(*(row[at] for row in rows), strict=True)) if operands[0].size else []
        values = _tree(combine, [initial, *map(list, items)])
        for out, value in zip(outs, values, strict=True):
            out[at] = value
    return list(outs)


def _dot_general(kernel: Kernel, op: ir.Operation) -> list[Value]:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    element = op.results[0].type.element_type
    if any(v.type.element_type != element for v in op.operands):
        raise UnsupportedError("a contraction to another type")
    kind = kind_of(element)
    sides = []
    for old, batch, contracting in (
        (op.operands[0], numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions),
        (op.operands[1], numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions),
    ):
        x = kernel.numbers(old)
        free = [d for d in range(x.ndim) if d not in (*batch, *contracting)]
        sizes = [[x.shape[d] for d in dims] for dims in (batch, free, contracting)]
        flat = x.transpose([*batch, *free, *contracting])
        sides.append((flat.reshape([math.prod(s) for s in sizes]), sizes))
    (lhs, (batch_shape, rows, _)), (rhs, (_, columns, _)) = sides
    shape = (math.prod(batch_shape), math.prod(rows), math.prod(columns))
    if math.prod(shape) > FEW:
        raise UnsupportedError("a large contraction")
    kernel.spend(2 * math.prod(shape) * lhs.shape[2])
    out = np.empty(shape, object)
    for b, i, j in np.ndindex(*shape):
        products = [
            binary("multiply", kind, x, y) for x, y in zip(lhs[b, i], rhs[b, j], strict=True)
        ]
        total = _tree(lambda x, y: binary("add", kind, x, y), products) if products else None
        out[b, i, j] = number(signless(element), 0) if total is None else total
    return [out.reshape([*batch_shape, *rows, *columns])]


def _case(kernel: Kernel, op: ir.Operation) -> list[Value]:
    if any(size_of(r.type) > FEW for r in op.results):
        raise UnsupportedError("a choice between arrays")
    types = [t for r in op.results for t in _flat_types(r.type)]
    blocks = [region.blocks[0] for region in op.regions]

    def emit(block: ir.Block) -> list[ir.Value]:
        numbers: list[ir.Value] = []
        for value in kernel.block(block):
            numbers.extend((kernel.load(value) if isinstance(value, Array) else value).flat)
        return numbers

    numbers = iter(branch(kernel, kernel.number_of(op.operands[0]), blocks, types, emit))
    return [
        array_of(list(itertools.islice(numbers, size_of(r.type))), tuple(r.type.shape))
        for r in op.results
    ]


def _flat_types(type_: ir.RankedTensorType) -> list[ir.Type]:
    return [signless(type_.element_type)] * size_of(type_)


RULES: Mapping[str, Rule] = {
    "stablehlo.constant": lambda kernel, op: [kernel.literal(op)],
    "stablehlo.optimization_barrier": lambda kernel, op: [kernel.value(v) for v in op.operands],
    "stablehlo.iota": _iota,
    "stablehlo.reshape": _reshape,
    "stablehlo.broadcast_in_dim": _of_numbers(_broadcast),
    "stablehlo.transpose": _of_numbers(lambda op, x: x.transpose(integers(op, "permutation"))),
    "stablehlo.slice": _of_numbers(_slice),
    "stablehlo.reverse": _of_numbers(lambda op, x: np.flip(x, tuple(integers(op, "dimensions")))),
    "stablehlo.concatenate": _of_numbers(
        lambda op, *xs: np.concatenate(xs, integer(op, "dimension"))
    ),
    "stablehlo.pad": _of_numbers(_pad),
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.reduce": _reduce,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.while": lambda kernel, op: kernel.loop(op),
    "stablehlo.case": _case,
}
