"""Sorts, and selections of the first few, in a kernel of vector code.

The elements of a row are inserted one after the other into a sorted list, which keeps only as many
as are read. An element that comes after the whole list takes one comparison, so a selection of few
from many takes little more time than reading them. The order of equal elements is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gnomon.backends.iree.legalize.array_kernels.code import Kernel, shape_of
from gnomon.backends.iree.legalize.array_kernels.emitter import Place, first_place
from gnomon.backends.iree.legalize.array_kernels.layout import Layout, View
from gnomon.backends.iree.legalize.loop_kernels.attributes import integer, integers
from gnomon.backends.iree.legalize.loop_kernels.regions import repeat
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    UnsupportedError,
    index,
    number,
    scalar,
)
from gnomon.dialects.mlir import ir

__all__ = ["kept_count", "sort"]

_SLICE = "stablehlo.slice"
_LESS, _MORE = 6, 8  # unsigned predicates of ``arith.cmpi``


def kept_count(op: ir.Operation) -> int:
    """How many elements of each sorted row the program reads."""
    d = integer(op, "dimension")
    most = 0
    for result in op.results:
        for use in result.uses:
            user = use.owner.operation
            if user.name != _SLICE or any(integers(user, "start_indices")):
                return shape_of(result)[d]
            most = max(most, integers(user, "limit_indices")[d])
    return most


def sort(kernel: Kernel, op: ir.Operation, targets: Sequence[View] = ()) -> list[Layout]:
    """The rule of ``stablehlo.sort``.

    Args:
      kernel: the kernel.
      op: the sort.
      targets: memory for the results, of which only the elements that are read are computed.
    """
    kernel.flush_all()
    d, shape = integer(op, "dimension"), shape_of(op.operands[0])
    if not math.prod(shape):
        raise UnsupportedError("an array without elements")
    count = max(1, kept_count(op))
    kept = [count if e == d else n for e, n in enumerate(shape)]
    sources = [kernel.layout(v) for v in op.operands]
    results = list(targets) or [kernel.dense(r.type.element_type, kept) for r in op.results]
    (comparison,) = op.regions[0].blocks
    kernel.loops += kernel.trips

    def before(x: Sequence[ir.Value], y: Sequence[ir.Value]) -> ir.Value:
        pairs = [v for pair in zip(x, y, strict=True) for v in pair]
        return kernel.region(comparison, pairs)[0]

    def row(places: list[Place]) -> None:
        reads, writes = places[: len(sources)], places[len(sources) :]

        def element(i: ir.Value | int, _: list[ir.Value]) -> list[ir.Value]:
            new = [
                kernel.load(x, p.plus(i, x.strides[d]), 1, x.strides[d])
                for x, p in zip(sources, reads, strict=True)
            ]
            _insert(kernel, new, i, results, writes, d, count, shape[d], before)
            return []

        kernel.steps(shape[d], 1, [], element)

    outer = [e for e in range(len(shape)) if e != d]
    moves = [[v.strides[e] for v in (*sources, *results)] for e in outer]
    kernel.over(
        [shape[e] for e in outer], [first_place(v) for v in (*sources, *results)], moves, row
    )
    # Only the first elements of a row are in memory, and only these are read.
    return [View(r.buffer, shape, r.strides, r.element, r.offset, r.moved) for r in results]


def _insert(
    kernel: Kernel,
    new: Sequence[ir.Value],
    i: ir.Value | int,
    results: Sequence[View],
    places: Sequence[Place],
    d: int,
    count: int,
    n: int,
    before: Callable[[Sequence[ir.Value], Sequence[ir.Value]], ir.Value],
) -> None:
    """Insert element number ``i`` of a row into the list of those that come first."""
    position = number(index(), i) if isinstance(i, int) else i
    i1 = ir.IntegerType.get_signless(1)

    def read(at: ir.Value | int) -> list[ir.Value]:
        return [
            kernel.load(r, p.plus(at, r.strides[d]), 1, 1)
            for r, p in zip(results, places, strict=True)
        ]

    def write(values: Sequence[ir.Value], at: ir.Value) -> None:
        for value, r, p in zip(values, results, places, strict=True):
            kernel.store(value, r, p.plus(at, r.strides[d]), 1)

    def above(j: ir.Value) -> ir.Value:
        return scalar("arith.subi", [j, number(index(), 1)], index())

    def moves_up(j: list[ir.Value]) -> ir.Value:
        is_lower = scalar("arith.cmpi", [j[0], number(index(), 0)], i1, predicate=_MORE)
        previous = scalar("arith.maxsi", [above(j[0]), number(index(), 0)], index())
        return scalar("arith.andi", [is_lower, before(new, read(previous))], i1)

    def move(j: list[ir.Value]) -> list[ir.Value]:
        write(read(above(j[0])), j[0])
        return [above(j[0])]

    # While the list is not full, its last element is arbitrary.
    is_filling = scalar("arith.cmpi", [position, number(index(), count)], i1, predicate=_LESS)
    enters = scalar("arith.ori", [is_filling, before(new, read(count - 1))], i1)
    conditional = ir.Operation.create("scf.if", results=[], operands=[enters], regions=2)
    # In a random order, element i enters a list of k with probability k / i.
    share = min(1.0, count * (1 + math.log(n / count)) / n)
    with kernel.inside(conditional.regions[0].blocks.append()), kernel.repeated(share):
        last = scalar("arith.minui", [position, number(index(), count - 1)], index())
        with kernel.repeated(max(1.0, count / 2)):
            (place,) = repeat(kernel, [last], moves_up, move)
        write(new, place)
        ir.Operation.create("scf.yield")
    with ir.InsertionPoint(conditional.regions[1].blocks.append()):
        ir.Operation.create("scf.yield")
