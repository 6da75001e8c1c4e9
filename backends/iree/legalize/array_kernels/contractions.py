"""Contractions in a kernel of vector code.

Vectors run along a free dimension whose elements are neighbours in one operand and in the result.
A block of rows shares what is loaded. Where no free dimension is long enough, vectors run along the
contracted one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gnomon.backends.iree.legalize.array_kernels.code import Kernel, shape_of
from gnomon.backends.iree.legalize.array_kernels.emitter import (
    Place,
    first_place,
    pieces_of,
    width_of,
    widths_of,
)
from gnomon.backends.iree.legalize.array_kernels.layout import Layout, Splat, View, merged_dims
from gnomon.backends.iree.legalize.array_kernels.reductions import ACROSS, across, product_of
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    UnsupportedError,
    binary,
    kind_of,
    number,
    signless,
)
from gnomon.dialects.mlir import ir, stablehlo

__all__ = ["dot_general"]

# Rows of a block, and the vectors of each row.
_ROWS, _VECTORS = 4, 2
# The least length of the contracted dimension for which vectors along it pay for the sum across a
# vector.
_LONG = 8


@dataclass(eq=False)
class _Dim:
    """A dimension: its size, and the strides in both operands and in the result."""

    size: int
    lhs: int
    rhs: int
    out: int

    @property
    def moves(self) -> list[int]:
        """The strides."""
        return [self.lhs, self.rhs, self.out]


@dataclass
class _Product:
    kernel: Kernel
    kind: str
    lhs: View
    rhs: View
    out: View
    zero: ir.Value


def dot_general(kernel: Kernel, op: ir.Operation) -> list[Layout]:
    """The rule of ``stablehlo.dot_general``."""
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    element = op.results[0].type.element_type
    if any(v.type.element_type != element for v in op.operands):
        raise UnsupportedError("a contraction to another type")
    if any(math.prod(shape_of(v)) == 0 for v in (*op.operands, *op.results)):
        raise UnsupportedError("an array without elements")
    lhs, rhs = (_view(kernel, v) for v in op.operands)
    batch = numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions
    deep = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    free = [
        [d for d in range(len(x.shape)) if d not in (*batch[k], *deep[k])]
        for k, x in enumerate((lhs, rhs))
    ]
    lhs, rhs = _ordered(kernel, lhs, rhs, batch, deep, free)
    out = kernel.dense(element, shape_of(op.results[0]))
    kernel.loops += kernel.trips
    strides = iter(out.strides)
    batches = _merged(
        [lhs.shape[d] for d in batch[0]],
        [lhs.strides[d] for d in batch[0]],
        [rhs.strides[d] for d in batch[1]],
        [next(strides) for _ in batch[0]],
    )
    rows = _merged(
        [lhs.shape[d] for d in free[0]],
        [lhs.strides[d] for d in free[0]],
        [0] * len(free[0]),
        [next(strides) for _ in free[0]],
    )
    columns = _merged(
        [rhs.shape[d] for d in free[1]],
        [0] * len(free[1]),
        [rhs.strides[d] for d in free[1]],
        [next(strides) for _ in free[1]],
    )
    terms = _merged(
        [lhs.shape[d] for d in deep[0]],
        [lhs.strides[d] for d in deep[0]],
        [rhs.strides[d] for d in deep[1]],
        [0] * len(deep[0]),
    )
    kind = kind_of(element)
    product = _Product(kernel, kind, lhs, rhs, out, number(signless(element), 0))
    places = [first_place(v) for v in (lhs, rhs, out)]
    moves = [d.moves for d in batches]
    kernel.over(
        [d.size for d in batches],
        places,
        moves,
        lambda here: _matrices(product, here, rows, columns, terms),
    )
    return [out]


def _view(kernel: Kernel, old: ir.Value) -> View:
    layout = kernel.layout(old)
    if isinstance(layout, Splat) or layout.buffer is None:
        return kernel.copied(layout, old.type.element_type)
    return layout


def _merged(sizes: Sequence[int], *strides: Sequence[int]) -> list[_Dim]:
    merged, moves = merged_dims(sizes, strides)
    return [_Dim(n, *s) for n, s in zip(merged, moves, strict=True)]


def _ordered(
    kernel: Kernel,
    lhs: View,
    rhs: View,
    batch: tuple[Sequence[int], Sequence[int]],
    deep: tuple[Sequence[int], Sequence[int]],
    free: Sequence[Sequence[int]],
) -> tuple[View, View]:
    """The operands, copied to another order of dimensions if vectors would have to be gathered."""
    columns = math.prod(rhs.shape[d] for d in free[1])
    rows = math.prod(lhs.shape[d] for d in free[0])
    depth = math.prod(lhs.shape[d] for d in deep[0])

    def near(view: View, dims: Sequence[int]) -> bool:
        return any(view.shape[d] >= _LONG and view.strides[d] == 1 for d in dims)

    if columns >= _LONG and not near(rhs, free[1]):
        fixed = rhs.buffer is not None and rhs.buffer.owner is None and rhs.moved is None
        along_depth = near(lhs, deep[0]) and near(rhs, deep[1])
        if fixed or rows >= _LONG or not along_depth:
            rhs = kernel.prepare(rhs, [*batch[1], *deep[1], *free[1]])
    elif columns == 1 and rows >= _LONG and not near(lhs, free[0]):
        fixed = lhs.buffer is not None and lhs.buffer.owner is None and lhs.moved is None
        if not (near(lhs, deep[0]) and near(rhs, deep[1])) or (fixed and depth < 4 * _LONG):
            lhs = kernel.prepare(lhs, [*batch[0], *deep[0], *free[0]])
    return lhs, rhs


def _matrices(
    product: _Product, places: list[Place], rows: list[_Dim], columns: list[_Dim], terms: list[_Dim]
) -> None:
    """One product of matrices."""
    free = [*rows, *columns]
    vector = [d for d in free if d.out == 1 and 1 in (d.lhs, d.rhs) and d.size >= 2]
    if vector:
        _along_free(product, places, [d for d in free if d is not vector[0]], vector[0], terms)
        return
    near = [d for d in terms if d.lhs == d.rhs == 1 and d.size >= _LONG]
    if near:
        other_terms = [d for d in terms if d is not near[0]]
        _along_terms(product, places, free, other_terms, near[0])
        return
    kernel = product.kernel

    def one(here: list[Place]) -> None:
        (total,) = _sum_over(
            product, here, terms, [product.zero], lambda at, sums: [_term(product, at, sums[0])]
        )
        kernel.store(total, product.out, here[2], 1)

    kernel.over([d.size for d in free], places, [d.moves for d in free], one)


def _term(product: _Product, at: list[Place], total: ir.Value) -> ir.Value:
    kernel = product.kernel
    x = kernel.load(product.lhs, at[0], 1, 1)
    y = kernel.load(product.rhs, at[1], 1, 1)
    kernel.spend(1)
    return product_of(product.kind, x, y, total)


def _sum_over(
    product: _Product,
    at: list[Place],
    terms: Sequence[_Dim],
    sums: list[ir.Value],
    add: Callable[[list[Place], list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """Nested loops over terms; ``add(places, sums)`` adds one to each sum."""
    sizes, moves = [d.size for d in terms], [d.moves for d in terms]
    return product.kernel.accumulate_over(sizes, at, moves, sums, add)


def _blocks(
    product: _Product,
    dim: _Dim | None,
    places: list[Place],
    block: Callable[[list[Place], int], None],
) -> None:
    """A dimension in blocks of rows: ``block(places, count)``."""
    if dim is None:
        block(places, 1)
        return
    kernel = product.kernel
    end = dim.size // _ROWS * _ROWS

    def step(i: ir.Value | int, _: list[ir.Value]) -> list[ir.Value]:
        block([p.plus(i, s) for p, s in zip(places, dim.moves, strict=True)], _ROWS)
        return []

    kernel.steps(end, _ROWS, [], step)
    if end < dim.size:
        last_rows = [p.plus(end, s) for p, s in zip(places, dim.moves, strict=True)]
        block(last_rows, dim.size - end)


def _largest(dims: Sequence[_Dim]) -> tuple[list[_Dim], _Dim | None]:
    """All dimensions but the largest, and the largest, which is divided into blocks."""
    block = max(dims, key=lambda d: d.size, default=None)
    return [d for d in dims if d is not block], block


def _along_free(
    product: _Product, places: list[Place], free: list[_Dim], vector: _Dim, terms: list[_Dim]
) -> None:
    kernel = product.kernel
    wide, narrow = (product.rhs, product.lhs) if vector.rhs == 1 else (product.lhs, product.rhs)
    w, n = (1, 0) if vector.rhs == 1 else (0, 1)
    width = width_of([product.out.element])
    outer, block = _largest([d for d in free if d.moves[w] == 0])
    outer = [*outer, *(d for d in free if d.moves[w] != 0)]
    end, remainder = pieces_of(vector.size, width)
    step = width * _VECTORS
    whole = end // step * step
    pieces = [(at, width) for at in range(whole, end, width)] + remainder

    def rows(here: list[Place], count: int) -> None:
        apart = block.moves if block is not None else [0, 0, 0]

        def columns(at: list[Place], parts: Sequence[tuple[int, int]]) -> None:
            def add(p: list[Place], sums: list[ir.Value]) -> list[ir.Value]:
                loaded = [kernel.load(wide, p[w].plus(i, 1), lanes, 1) for i, lanes in parts]
                totals = []
                for r in range(count):
                    x = kernel.load(narrow, p[n].plus(r, apart[n]), 1, 1)
                    for k, (_, lanes) in enumerate(parts):
                        kernel.spend(1)
                        total = sums[r * len(parts) + k]
                        totals.append(
                            product_of(product.kind, loaded[k], kernel.spread(x, lanes), total)
                        )
                return totals

            zeros = [kernel.spread(product.zero, lanes) for _, lanes in parts]
            sums = _sum_over(product, at, terms, zeros * count, add)
            for r in range(count):
                for k, (i, _) in enumerate(parts):
                    to = at[2].plus(r, apart[2]).plus(i, 1)
                    kernel.store(sums[r * len(parts) + k], product.out, to, 1)

        def full(i: ir.Value | int, _: list[ir.Value]) -> list[ir.Value]:
            at = [p.plus(i, s) for p, s in zip(here, vector.moves, strict=True)]
            columns(at, [(k * width, width) for k in range(_VECTORS)])
            return []

        kernel.steps(whole, step, [], full)
        for first in range(0, len(pieces), _VECTORS):
            columns(here, pieces[first : first + _VECTORS])

    def each(here: list[Place]) -> None:
        _blocks(product, block, here, rows)

    kernel.over([d.size for d in outer], places, [d.moves for d in outer], each)


def _along_terms(
    product: _Product, places: list[Place], free: list[_Dim], outer_terms: list[_Dim], vector: _Dim
) -> None:
    kernel = product.kernel
    width = width_of([product.out.element])
    outer, block = _largest(free)
    widths = widths_of(vector.size, width)

    def rows(here: list[Place], count: int) -> None:
        apart = block.moves if block is not None else [0, 0, 0]

        def add(at: list[Place], lanes: int, sums: list[ir.Value]) -> list[ir.Value]:
            totals, loaded = [], {}
            for r in range(count):
                pair: list[ir.Value] = []
                for side, view in enumerate((product.lhs, product.rhs)):
                    moved = r * apart[side]
                    if (side, moved) not in loaded:
                        loaded[side, moved] = kernel.load(view, at[side].plus(moved, 1), lanes, 1)
                    pair.append(loaded[side, moved])
                kernel.spend(1)
                totals.append(product_of(product.kind, pair[0], pair[1], sums[r]))
            return totals

        def line(at: list[Place], sums: list[ir.Value]) -> list[ir.Value]:
            def piece(i: ir.Value | int, lanes: int, inner: list[ir.Value]) -> list[ir.Value]:
                return add([at[0].plus(i, 1), at[1].plus(i, 1)], lanes, inner)

            groups = [sums[k * count : (k + 1) * count] for k in range(len(widths))]
            groups = kernel.accumulate_pieces(vector.size, width, groups, piece)
            return [s for group in groups for s in group]

        sums = [kernel.spread(product.zero, lanes) for lanes in widths for _ in range(count)]
        sums = _sum_over(product, here, outer_terms, sums, line)
        for r in range(count):
            total: ir.Value | None = None
            for k, lanes in enumerate(widths):
                part = sums[k * count + r]
                if lanes > 1:
                    part = across(kernel, ACROSS["add"][product.kind], part)
                total = part if total is None else binary("add", product.kind, total, part)
            assert total is not None
            kernel.store(total, product.out, here[2].plus(r, apart[2]), 1)

    def each(here: list[Place]) -> None:
        _blocks(product, block, here, rows)

    kernel.over([d.size for d in outer], places, [d.moves for d in outer], each)
