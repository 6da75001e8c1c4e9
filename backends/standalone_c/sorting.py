"""Sorting along a dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.standalone_c.folds import combined
from gnomon.backends.standalone_c.values import Index, Stored, Value, flattened
from gnomon.dialects.types import TensorType

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter, Operation

__all__ = ["SORTING"]


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
                    (less,) = combined(emitter, block, types, values)
                    chosen = f"{less} ? {source}[{j}++] : {source}[{i}++]"
                    emitter.line(f"{target}[{k}] = {chosen};")
            emitter.line(f"int64_t *const {swapped} = {source};")
            emitter.line(f"{source} = {target};")
            emitter.line(f"{target} = {swapped};")
        with emitter.loops([count], parallel=False) as (place,):
            for x, output in zip(inputs, outputs, strict=True):
                position = flattened(at(place), shape)
                emitter.store(output, position, x.element(emitter, at(f"{source}[{place}]")))
    for operand, x in zip(operation.operands, inputs, strict=True):
        if operand is not x:
            emitter.release(x.buffer)
    return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]


SORTING: dict[str, Callable[[Emitter, Operation], Sequence[Value]]] = {"stablehlo.sort": _sort}
