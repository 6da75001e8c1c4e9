"""Reductions in a kernel of vector code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gnomon.backends.iree.legalize.array_kernels.code import Kernel, shape_of
from gnomon.backends.iree.legalize.array_kernels.emitter import (
    Place,
    first_place,
    width_of,
    widths_of,
)
from gnomon.backends.iree.legalize.array_kernels.layout import Layout, View, merged_dims
from gnomon.backends.iree.legalize.loop_kernels.attributes import integers
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    UnsupportedError,
    binary,
    kind_of,
    number,
    signless,
)
from gnomon.dialects.mlir import ir

__all__ = ["ACROSS", "across", "combiner", "identity", "product_of", "reduce"]

ACROSS = {
    "add": {"f": "add", "s": "add", "u": "add", "b": "or"},
    "multiply": {"f": "mul", "s": "mul", "u": "mul", "b": "and"},
    "maximum": {"f": "maximumf", "s": "maxsi", "u": "maxui", "b": "or"},
    "minimum": {"f": "minimumf", "s": "minsi", "u": "minui", "b": "and"},
    "and": {"s": "and", "u": "and", "b": "and"},
    "or": {"s": "or", "u": "or", "b": "or"},
    "xor": {"s": "xor", "u": "xor", "b": "xor"},
}
"""The kinds of MLIR's reductions of vectors, by op of StableHLO and kind of number."""


def identity(name: str, type_: ir.Type) -> float | int:
    """The identity of a reduction."""
    if name in ("maximumf", "minimumf"):
        return -math.inf if name == "maximumf" else math.inf
    lowest = 1 << (int(type_.width) - 1)
    return {"mul": 1, "and": -1, "maxsi": lowest, "minsi": lowest - 1, "minui": -1}.get(name, 0)


def across(kernel: Kernel, name: str, vector: ir.Value) -> ir.Value:
    """Reduce a vector to a number; ``name`` is one of the kinds in `ACROSS`."""
    element = vector.type.element_type
    attributes = {"kind": ir.Attribute.parse(f"#vector.kind<{name}>")}
    if name in ("add", "mul") and not isinstance(element, ir.IntegerType):
        attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<reassoc>")
    kernel.spend(2 * vector.type.shape[0].bit_length())
    return ir.Operation.create(
        "vector.reduction", results=[element], operands=[vector], attributes=attributes
    ).results[0]


def combiner(op: ir.Operation) -> str | None:
    """The name of a region's only op, if that combines the region's two arguments; else None."""
    ops = [o.operation for o in op.regions[0].blocks[0].operations]
    if len(ops) != 2 or len(op.results) != 1:
        return None
    arguments = set(op.regions[0].blocks[0].arguments)
    name: str = ops[0].name.partition(".")[2]
    return name if name in ACROSS and set(ops[0].operands) == arguments else None


@dataclass
class _Dim:
    """A dimension: its size, and the strides in the operand and in the result."""

    size: int
    read: int
    written: int


def reduce(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    """The rule of ``stablehlo.reduce``."""
    count = len(op.results)
    arrays, initial = list(op.operands)[:count], list(op.operands)[count:]
    sources = [kernel.layout(v) for v in arrays]
    starts = [kernel.number_of(v) for v in initial]
    if any(math.prod(x.shape) == 0 for x in sources):
        raise UnsupportedError("an array without elements")
    axes = integers(op, "dimensions")
    shape = shape_of(op.results[0])
    kernel.loops += kernel.trips
    results = [kernel.dense(r.type.element_type, shape) for r in op.results]
    name = combiner(op)
    if name is not None and isinstance(sources[0], View):
        _vectors(kernel, op, name, sources[0], starts[0], results[0], axes)
    else:
        _numbers(kernel, op, sources, starts, results, axes)
    return list(results)


def _dims(source: View, result: View, axes: Sequence[int]) -> tuple[list[_Dim], list[_Dim]]:
    """The kept dimensions and the reduced ones."""
    kept = [d for d in range(len(source.shape)) if d not in axes]

    def merged(dims: Sequence[int], written: Sequence[int]) -> list[_Dim]:
        sizes, strides = merged_dims(
            [source.shape[d] for d in dims], [[source.strides[d] for d in dims], written]
        )
        return [_Dim(n, *s) for n, s in zip(sizes, strides, strict=True)]

    return merged(kept, result.strides), merged(axes, [0] * len(axes))


def _vectors(
    kernel: Kernel,
    op: ir.Operation,
    name: str,
    source: View,
    start: ir.Value,
    result: View,
    axes: Sequence[int],
) -> None:
    """A reduction by one op, with vectors along a dimension whose elements are neighbours."""
    kept, reduced = _dims(source, result, axes)
    width = width_of([source.element])
    (block,) = op.regions[0].blocks

    def combine(x: ir.Value, y: ir.Value) -> ir.Value:
        return kernel.region(block, [x, y])[0]

    places = [first_place(source), first_place(result)]
    near = [d for d in (*kept, *reduced) if d.read == 1]
    if not near and kept:
        near = [max(kept, key=lambda d: d.size)]
    if near and near[0] in kept:
        _along_kept(kernel, source, start, result, places, kept, reduced, near[0], width, combine)
        return
    kind = ACROSS[name].get(kind_of(source.element))
    if kind is None:
        raise UnsupportedError(f"{name} in a reduction")
    last = near[0] if near else _Dim(1, 1, 0)
    outer_axes = [d for d in reduced if d is not last]
    _along_reduced(
        kernel, source, start, result, places, kept, outer_axes, last, width, kind, combine
    )


def _along_kept(
    kernel: Kernel,
    source: View,
    start: ir.Value,
    result: View,
    places: list[Place],
    kept: list[_Dim],
    reduced: list[_Dim],
    last: _Dim,
    width: int,
    combine: Callable[[ir.Value, ir.Value], ir.Value],
) -> None:
    outer = [d for d in kept if d is not last]

    def row(here: list[Place]) -> None:
        def piece(i: ir.Value | int, lanes: int) -> None:
            at = here[0].plus(i, last.read)
            total = kernel.spread(start, lanes)
            (total,) = kernel.accumulate_over(
                [d.size for d in reduced],
                [at],
                [[d.read] for d in reduced],
                [total],
                lambda p, sums: [combine(sums[0], kernel.load(source, p[0], lanes, last.read))],
            )
            kernel.store(total, result, here[1].plus(i, last.written), last.written)

        kernel.pieces(last.size, width, piece)

    kernel.over([d.size for d in outer], places, [[d.read, d.written] for d in outer], row)


def _along_reduced(
    kernel: Kernel,
    source: View,
    start: ir.Value,
    result: View,
    places: list[Place],
    kept: list[_Dim],
    outer_axes: list[_Dim],
    last: _Dim,
    width: int,
    kind: str,
    combine: Callable[[ir.Value, ir.Value], ir.Value],
) -> None:
    type_ = signless(source.element)

    def row(here: list[Place]) -> None:
        def line(at: list[Place], sums: list[ir.Value]) -> list[ir.Value]:
            def add(i: ir.Value | int, lanes: int, total: list[ir.Value]) -> list[ir.Value]:
                x = kernel.load(source, at[0].plus(i, last.read), lanes, last.read)
                return [combine(total[0], x)]

            new = kernel.accumulate_pieces(last.size, width, [[s] for s in sums], add)
            return [total for (total,) in new]

        nothing = number(type_, identity(kind, type_))
        sums = kernel.accumulate_over(
            [d.size for d in outer_axes],
            here[:1],
            [[d.read] for d in outer_axes],
            [kernel.spread(nothing, lanes) for lanes in widths_of(last.size, width)],
            line,
        )
        total = start
        for value in sums:
            part = across(kernel, kind, value) if isinstance(value.type, ir.VectorType) else value
            total = combine(total, part)
        kernel.store(total, result, here[1], 1)

    kernel.over([d.size for d in kept], places, [[d.read, d.written] for d in kept], row)


def _numbers(
    kernel: Kernel,
    op: ir.Operation,
    sources: Sequence[Layout],
    starts: Sequence[ir.Value],
    results: Sequence[View],
    axes: Sequence[int],
) -> None:
    """A reduction by any region, number by number."""
    shape = sources[0].shape
    kept = [d for d in range(len(shape)) if d not in axes]
    (block,) = op.regions[0].blocks
    count = len(sources)

    def row(here: list[Place]) -> None:
        def add(at: list[Place], sums: list[ir.Value]) -> list[ir.Value]:
            loaded = [kernel.load(x, p, 1, 1) for x, p in zip(sources, at, strict=True)]
            return kernel.region(block, [*sums, *loaded])

        read = [[x.strides[d] for x in sources] for d in axes]
        totals = kernel.accumulate_over([shape[d] for d in axes], here[:count], read, starts, add)
        for total, result, place in zip(totals, results, here[count:], strict=True):
            kernel.store(total, result, place, 1)

    written = results[0].strides
    moves = [
        [*(x.strides[d] for x in sources), *(written[i] for _ in results)]
        for i, d in enumerate(kept)
    ]
    places = [first_place(x) for x in (*sources, *results)]
    kernel.over([shape[d] for d in kept], places, moves, row)


def product_of(kind: str, x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
    """``total + x * y``, rounded once where the processor can."""
    if kind != "f":
        return binary("add", kind, total, binary("multiply", kind, x, y))
    fused = {"fastmath": ir.Attribute.parse("#arith.fastmath<contract>")}
    value = total
    for name, operands in (("arith.mulf", [x, y]), ("arith.addf", [None, total])):
        factors = [value if v is None else v for v in operands]
        value = ir.Operation.create(
            name, results=[total.type], operands=factors, attributes=fused
        ).results[0]
    return value
