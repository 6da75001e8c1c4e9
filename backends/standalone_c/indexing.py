"""Gather and scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gnomon.backends.standalone_c.movements import copied, splat, start_of
from gnomon.backends.standalone_c.types import of_type
from gnomon.backends.standalone_c.values import Flat, Index, Lazy, Stored, Value, flattened, plus
from gnomon.dialects.mlir import stablehlo

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter, Operation

__all__ = ["INDEXING"]


def _gather(emitter: Emitter, operation: Operation) -> list[Value]:
    x, starts = operation.operands
    type_ = operation.type
    numbers = stablehlo.GatherDimensionNumbers(operation.attribute("dimension_numbers"))
    sizes = operation.integers("slice_sizes")
    mapped = list(numbers.start_index_map)
    batching = dict(
        zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    )
    hidden = {*numbers.collapsed_slice_dims, *batching}
    offsets = list(numbers.offset_dims)
    window = dict(zip([d for d in range(x.type.rank) if d not in hidden], offsets, strict=True))
    vector = numbers.index_vector_dim
    batch = [d for d in range(type_.rank) if d not in offsets]

    def element(emitter: Emitter, index: Index | Flat) -> str:
        assert not isinstance(index, Flat)
        outer = [index[d] for d in batch]
        places = []
        for d in range(x.type.rank):
            place = index[window[d]] if d in window else "0"
            if d in batching:
                along = batching[d]
                place = outer[along if along < vector else along - 1]
            if d in mapped:
                at = list(outer)
                if vector < starts.type.rank:
                    at.insert(vector, str(mapped.index(d)))
                scalar = splat(starts.type.with_shape(()), starts.element(emitter, tuple(at)))
                start = start_of(emitter, scalar, x.type.shape[d] - sizes[d])
                place = plus(place, start)
            places.append(place)
        return x.element(emitter, tuple(places))

    return [Lazy(type_, element, x.reads | starts.reads, type_.rank == 1)]


def _scatter(emitter: Emitter, operation: Operation) -> list[Value]:
    count = len(operation.types)
    outputs = [copied(emitter, operation, k, k) for k in range(count)]
    starts = operation.operands[count]
    updates = operation.operands[count + 1 :]
    types = operation.types
    shape, updated = types[0].shape, updates[0].type.shape
    numbers = stablehlo.ScatterDimensionNumbers(operation.attribute("scatter_dimension_numbers"))
    window_dims = list(numbers.update_window_dims)
    batching = dict(
        zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    )
    hidden = {*numbers.inserted_window_dims, *batching}
    window = dict(zip([d for d in range(len(shape)) if d not in hidden], window_dims, strict=True))
    mapped = list(numbers.scattered_dims_to_operand_dims)
    vector = numbers.index_vector_dim
    batch = [d for d in range(len(updated)) if d not in window_dims]
    block = operation.op.regions[0].blocks[0]
    scalars = [t.with_shape(()) for t in types]
    with emitter.loops(updated, parallel=False) as index:
        outer = [index[d] for d in batch]
        places, conditions = [], []
        for d, size in enumerate(shape):
            place = index[window[d]] if d in window else "0"
            if d in batching:
                along = batching[d]
                place = outer[along if along < vector else along - 1]
            if d in mapped:
                at = list(outer)
                if vector < starts.type.rank:
                    at.insert(vector, str(mapped.index(d)))
                start = emitter.local("int64_t", starts.element(emitter, tuple(at)), "s")
                place = emitter.local("int64_t", plus(start, place), "p")
                # Compared as unsigned numbers, so that no index is negative.
                conditions.append(f"(uint64_t){place} < {size}")
            places.append(place)
        with emitter.block(f"if ({' && '.join(conditions) or '1'})"):
            position = flattened(tuple(places), shape)
            old = [emitter.load(b, position) for b in outputs]
            given = [u.element(emitter, index) for u in updates]
            pairs = zip([*scalars, *scalars], [*old, *given], strict=True)
            new = emitter.inline(block, [splat(t, v) for t, v in pairs])
            if count > 1:
                kinds = [of_type(t).computed for t in types]
                new = [emitter.local(k, v) for k, v in zip(kinds, new, strict=True)]
            for output, value in zip(outputs, new, strict=True):
                emitter.store(output, position, value)
    return [Stored(b, t) for b, t in zip(outputs, types, strict=True)]


INDEXING: dict[str, Callable[[Emitter, Operation], Sequence[Value]]] = {
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
}
