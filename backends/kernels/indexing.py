"""Gather and scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gnomon.backends.kernels.arithmetic import only
from gnomon.backends.kernels.code import Element, Place
from gnomon.backends.kernels.folds import combined
from gnomon.backends.kernels.movements import copied, splat, start_of
from gnomon.backends.kernels.values import Flat, Index, Lazy, Stored, Value, flattened
from gnomon.dialects.mlir import stablehlo

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder, Operation

__all__ = ["INDEXING"]


@dataclass(frozen=True)
class _Windows:
    """The windows of a gather or scatter in an array.

    Attributes:
      window: maps dimensions of the array to dimensions of the slices, if the slices have them.
      batching: maps batch dimensions of the array to dimensions of the start indices.
      mapped: the dimension of the array for each of the start indices of a window.
      vector: the dimension along which the start indices of one window are stored.
      batch: the dimensions of the slices that number the windows.
    """

    window: dict[int, int]
    batching: dict[int, int]
    mapped: list[int]
    vector: int
    batch: list[int]

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        rank: int,
        dims: Sequence[int],
        without: Sequence[int],
        batching: dict[int, int],
        mapped: Sequence[int],
        vector: int,
    ) -> _Windows:
        """The windows in an array of a shape.

        Args:
          shape: the shape of the array.
          rank: the rank of the slices.
          dims: the dimensions of the slices that are dimensions of the array too.
          without: the dimensions of the array that slices do not have.
          batching, mapped, vector: the attributes.
        """
        kept = [d for d in range(len(shape)) if d not in without and d not in batching]
        batch = [d for d in range(rank) if d not in dims]
        return cls(dict(zip(kept, dims, strict=True)), batching, list(mapped), vector, batch)

    def place(
        self, builder: Builder, d: int, index: Index, starts: Value
    ) -> tuple[Place, Element | None]:
        """Where an element of the slices is along a dimension of the array.

        Returns:
          the index in the window or batch, and the start index, if there is one.
        """
        outer = [index[i] for i in self.batch]
        offset = index[self.window[d]] if d in self.window else 0
        if d in self.batching:
            along = self.batching[d]
            offset = outer[along if along < self.vector else along - 1]
        if d not in self.mapped:
            return offset, None
        if self.vector < starts.type.rank:
            outer.insert(self.vector, self.mapped.index(d))
        return offset, starts.element(builder, tuple(outer))


def _gather(builder: Builder, operation: Operation) -> list[Value]:
    x, starts = operation.operands
    type_, shape = operation.type, x.type.shape
    numbers = stablehlo.GatherDimensionNumbers(operation.attribute("dimension_numbers"))
    sizes = operation.integers("slice_sizes")
    windows = _Windows.of(
        shape,
        type_.rank,
        numbers.offset_dims,
        numbers.collapsed_slice_dims,
        dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)),
        numbers.start_index_map,
        numbers.index_vector_dim,
    )

    def element(builder: Builder, index: Index | Flat) -> Element:
        assert not isinstance(index, Flat)
        places = []
        for d, size in enumerate(shape):
            place, start = windows.place(builder, d, index, starts)
            if start is not None:
                scalar = splat(starts.type.with_shape(()), start)
                place = builder.code.plus(place, start_of(builder, scalar, size - sizes[d]))
            places.append(place)
        return x.element(builder, tuple(places))

    return [Lazy(type_, element, x.reads | starts.reads, type_.rank == 1)]


def _scatter(builder: Builder, operation: Operation) -> list[Value]:
    count = len(operation.types)
    outputs = [copied(builder, operation, k, k) for k in range(count)]
    starts = operation.operands[count]
    updates = operation.operands[count + 1 :]
    types = operation.types
    shape, updated = types[0].shape, updates[0].type.shape
    numbers = stablehlo.ScatterDimensionNumbers(operation.attribute("scatter_dimension_numbers"))
    windows = _Windows.of(
        shape,
        len(updated),
        numbers.update_window_dims,
        numbers.inserted_window_dims,
        dict(zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True)),
        numbers.scattered_dims_to_operand_dims,
        numbers.index_vector_dim,
    )
    block = operation.op.regions[0].blocks[0]
    # Of two updates of one element the later index wins, as in the evaluator, so the loops over
    # indices are outside of the loops over windows.
    order = [*windows.batch, *(d for d in range(len(updated)) if d not in windows.batch)]
    code, signed = builder.code, starts.type.dtype.kind == "i"
    with code.loops([updated[d] for d in order], independent=False) as ordered:
        index = tuple(ordered[order.index(d)] for d in range(len(updated)))
        places, conditions = [], []
        for d, size in enumerate(shape):
            place, start = windows.place(builder, d, index, starts)
            if start is not None:
                wide = code.cast("arith.extsi" if signed else "arith.extui", only(start), "i64")
                place = code.plus(code.cast("arith.index_cast", wide, "index"), place)
                conditions += code.within(place, size)
            places.append(place)
        with code.when(code.both(conditions)):
            position = flattened(code, tuple(places), shape)
            old = [builder.load(b, position) for b in outputs]
            update = [u.element(builder, index) for u in updates]
            new = combined(builder, block, [*types, *types], [*old, *update])
            for output, value in zip(outputs, new, strict=True):
                builder.store(output, position, value)
    return [Stored(b, t) for b, t in zip(outputs, types, strict=True)]


INDEXING: dict[str, Callable[[Builder, Operation], Sequence[Value]]] = {
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
}
