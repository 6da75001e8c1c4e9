"""Loops, branches and calls. Regions of the dialect are closed: captured values become operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects.body import Body
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.chlo import top_k
from gnomon.dialects.raising.counted_loops import as_scan
from gnomon.dialects.raising.elementwise import SAME
from gnomon.dialects.raising.source import Region, Source, raises
from gnomon.dialects.types import type_of

_I32 = np.dtype(np.int32)


@raises("while")
def _while(source: Source) -> list[ir.Value]:
    cond, body = source.regions
    for_cond, for_body = cond.captured, body.captured
    condition, step = cond.close(), body.close()
    counted = as_scan(condition, step, for_cond, for_body, source.operands)
    if counted is not None:
        return counted
    results: list[ir.Value] = ops.while_(
        *for_cond,
        *for_body,
        *source.operands,
        cond_consts=len(for_cond),
        body_consts=len(for_body),
        bodies=[condition, step],
    )
    return results


@raises("case")
def _case(source: Source) -> list[ir.Value]:
    (index,) = source.operands
    last = len(source.regions) - 1
    # An index out of bounds selects the last branch; the dialect clamps.
    chosen = ops.select(ops.lt(index, full_like(index, 0)), full_like(index, last), index)
    return _switch(chosen, source.regions)


@raises("if")
def _if(source: Source) -> list[ir.Value]:
    on_true, on_false = source.regions
    return _switch(convert(source.operand, _I32), [on_false, on_true])


def _switch(index: ir.Value, regions: Sequence[Region]) -> list[ir.Value]:
    if len(regions) == 1:
        return regions[0].emit()
    captured = [region.captured for region in regions]
    operands = [v for values in captured for v in values]
    types = [type_of(v) for v in operands]
    bodies = []
    start = 0
    for region, own in zip(regions, captured, strict=True):
        inner, first, end = region.close(), start, start + len(own)

        def emit(
            *arguments: ir.Value, inner: Body = inner, first: int = first, end: int = end
        ) -> list[ir.Value]:
            return inner.inline(arguments[first:end])

        bodies.append(Body.build(types, emit))
        start = end
    results: list[ir.Value] = ops.switch(index, *operands, bodies=bodies)
    return results


@raises("func.call")
def _call(source: Source) -> list[ir.Value]:
    return source.engine.call(source.word("callee"), source.operands)


@raises("composite")
def _composite(source: Source) -> list[ir.Value]:
    """Call the function that defines the composite, unless it is an op of the dialect."""
    name = source.word("name")
    if name == "chlo.top_k":
        return list(top_k(source))
    if name in SAME:
        results: list[ir.Value] = getattr(ops, SAME[name]).build(source.operands, {})
        return results
    return source.engine.call(source.word("decomposition"), source.operands)
