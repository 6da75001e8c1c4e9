"""The meaning of an index for an array of a given shape, by NumPy's rules.

`parse` gives a `Plan`: for each dimension of the array a static integer, a static slice or an array
of integers, and the order in which the dimensions of the result come.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays import host_values
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray
from gnomon._diagnostics.errors import NonConcreteBooleanIndexError
from gnomon._tracing.bind import as_operand
from gnomon._tracing.stack import staging
from gnomon._tracing.trace import concrete_value, is_tracer
from gnomon.dialects.symbolic.dimension import (
    any_symbolic,
    as_size,
    is_symbolic_dim,
    larger,
    smaller,
)
from gnomon.dialects.symbolic.errors import InconclusiveDimensionOperation
from gnomon.lax import broadcast_shapes, concatenate, convert_element_type, expand_dims

__all__ = ["BATCH", "NEW", "Entry", "Plan", "Span", "as_array", "parse"]

IntArray = Array | np.ndarray[Any, Any]


class Span(NamedTuple):
    """A static slice of one dimension: ``start, start + step, ...``, ``size`` of them."""

    start: int
    step: int
    size: int

    @property
    def ascending(self) -> Span:
        """The same elements in ascending order."""
        if self.step > 0:
            return self
        return Span(self.start + (self.size - 1) * self.step, -self.step, self.size)


Entry = int | Span | IntArray

_INT32 = np.iinfo(np.int32)

# Markers in a layout: a dimension of size one from None, and all dimensions of the index arrays.
NEW = -1
BATCH = -2


@dataclass(frozen=True)
class Plan:
    """A parsed index.

    Attributes:
      shape: the shape of the array, with a dimension of size one for each boolean scalar.
      inserted: the dimensions of ``shape`` that boolean scalars add.
      entries: one for each dimension of ``shape``. Static integers are not normalized.
      layout: the dimensions of the result in order: a dimension of ``shape`` that a `Span` reads,
        `NEW`, or `BATCH`.
      batch_shape: the shape that the index arrays broadcast to.
      scalars: whether there is no `BATCH`, because there are no masks and all index arrays are 0-d.
    """

    shape: tuple[int, ...]
    inserted: tuple[int, ...]
    entries: tuple[Entry, ...]
    layout: tuple[int, ...]
    batch_shape: tuple[int, ...]
    scalars: bool

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of ``x[index]``."""
        return self._shape_of(self.layout)

    @property
    def core_layout(self) -> tuple[int, ...]:
        """The layout without new dimensions."""
        return tuple(d for d in self.layout if d != NEW)

    @property
    def core_shape(self) -> tuple[int, ...]:
        """The shape of ``x[index]`` without new dimensions."""
        return self._shape_of(self.core_layout)

    def _shape_of(self, layout: tuple[int, ...]) -> tuple[int, ...]:
        shape: list[int] = []
        for dim in layout:
            if dim == NEW:
                shape.append(1)
            elif dim == BATCH:
                shape += self.batch_shape
            else:
                span = self.entries[dim]
                assert isinstance(span, Span)
                shape.append(span.size)
        return tuple(shape)

    def positions(self, dim: int) -> tuple[int, ...]:
        """The positions of a dimension (or `BATCH`) in the result without new dimensions."""
        at = 0
        for entry in self.core_layout:
            width = len(self.batch_shape) if entry == BATCH else 1
            if entry == dim:
                return tuple(range(at, at + width))
            at += width
        raise ValueError(f"dimension {dim} is not in the result")


# ----------------------------------------------------------------------------- kinds of one index


class _Boolean(NamedTuple):
    """A boolean mask whose value is known."""

    mask: np.ndarray[Any, Any]


def _classified(index: Any) -> Any:
    """Convert an element of an index to None, Ellipsis, a slice, an int, integers or `_Boolean`."""
    if index is None or index is Ellipsis or isinstance(index, slice):
        return index
    if isinstance(index, (bool, np.bool_)):
        return _Boolean(np.asarray(index))
    if isinstance(index, (int, np.integer)):
        return operator.index(index)
    if is_symbolic_dim(index):
        index = as_operand(index)
    if isinstance(index, str):
        raise TypeError(f"arrays cannot be indexed by strings, got {index!r}")
    if isinstance(index, Sequence):
        # An empty list has no dtype of its own; as an index it selects nothing.
        index = as_array(index) if len(index) else np.zeros((0,), np.int32)
    if not isinstance(index, (Array, np.ndarray, np.generic, float, complex)):
        raise IndexError(
            "an array is indexed by integers, slices, ..., None, and integer or boolean arrays; "
            f"got {index!r} of type {type(index).__name__}"
        )
    host_values.refuse_masks(index)
    dtype = index.dtype if isinstance(index, (Array, np.ndarray)) else np.dtype(type(index))
    if dtype == np.bool_:
        mask = concrete_value(index)
        if mask is None:
            raise NonConcreteBooleanIndexError(index)
        return _Boolean(mask)
    if not _dtypes.issubdtype(dtype, np.integer):
        raise TypeError(
            f"an index must be of an integer or boolean type, got {dtype}; convert it, for "
            "example x[i.astype(int)]"
        )
    if type(index) is ConcreteArray:
        index = index.numpy_value()
    if isinstance(index, np.ndarray) and index.ndim == 0:
        return int(index)
    return index


def as_array(values: Any) -> IntArray:
    """Convert nested sequences, whose elements may be concrete or traced arrays, to an array."""
    if isinstance(values, Array):
        return values
    if isinstance(values, (list, tuple)) and any(_holds_array(v) for v in values):
        rows = [host_values.to_array(as_array(v)) for v in values]
        dtype = _dtypes.result_type(*rows)
        return concatenate([expand_dims(convert_element_type(row, dtype), (0,)) for row in rows], 0)
    return host_values.numpy_to_canonical(np.asanyarray(values))


def _holds_array(values: Any) -> bool:
    if isinstance(values, (list, tuple)):
        return any(_holds_array(v) for v in values)
    return isinstance(values, Array)


def _span(index: slice, size: int, position: int) -> Span:
    for part in (index.start, index.stop, index.step):
        if is_tracer(part) and part.concrete() is None:
            raise IndexError(
                "the bounds of a slice must be static integers: the size of the result depends on "
                f"them. Index {position} is {index}. Use lax.dynamic_slice, whose size is static, "
                "or a mask (gnomon.numpy.where)"
            )
    if any_symbolic((index.start, index.stop, size)):
        return _symbolic_span(index, size)
    indices = range(*index.indices(size))
    return Span(indices.start, indices.step, len(indices))


def _symbolic_span(index: slice, size: Any) -> Span:
    """`_span` for bounds or sizes that are symbolic dimensions."""
    step = 1 if index.step is None else operator.index(index.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")

    def bound(given: Any, default: Any) -> Any:
        if given is None:
            return default
        given = as_size(given)
        given = given if given >= 0 else given + size
        least, most = (0, size) if step > 0 else (-1, size - 1)
        return larger(smaller(most, given), least)

    if step > 0:
        start, stop = bound(index.start, 0), bound(index.stop, size)
        return Span(start, step, larger((stop - start + step - 1) // step, 0))
    start, stop = bound(index.start, size - 1), bound(index.stop, -1)
    return Span(start, step, larger((start - stop - step - 1) // -step, 0))


# ---------------------------------------------------------------------------------- the whole index


def _as_tuple(index: Any) -> tuple[Any, ...]:
    if isinstance(index, tuple):
        return index
    if isinstance(index, Sequence) and not isinstance(index, str):
        nested = any(
            isinstance(i, (Sequence, slice)) or i is None or i is Ellipsis or np.ndim(i) > 0
            for i in index
        )
        how = "x[tuple(index)]" if nested else "x[gnomon.numpy.array(index)]"
        raise TypeError(
            f"a {type(index).__name__} is not an index, as its meaning is ambiguous: write {how} "
            f"instead of x[index]; got {index!r}"
        )
    return (index,)


def _expanded(items: list[Any], rank: int) -> list[Any]:
    """Replace the ellipsis, or missing indices at the end, by full slices, if there are any."""
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can have one ellipsis ('...') only")
    consumed = sum(
        item.mask.ndim if isinstance(item, _Boolean) else 1
        for item in items
        if item is not None and item is not Ellipsis
    )
    if consumed > rank:
        raise IndexError(
            f"too many indices: the array has {rank} dimensions, but {consumed} were indexed"
        )
    full: list[Any] = [slice(None)] * (rank - consumed)
    at = next((i for i, item in enumerate(items) if item is Ellipsis), None)
    if at is None:
        return items + full
    # An ellipsis that covers no dimension stays, since it separates index arrays.
    return [*items[:at], *(full or [Ellipsis]), *items[at + 1 :]]


def parse(index: Any, shape: tuple[int, ...]) -> Plan:
    """Parse an index.

    Args:
      index: the expression between the brackets.
      shape: the shape of the array.

    Raises:
      IndexError: there are too many indices or two ellipses, a mask has another shape or is traced,
        or the bounds of a slice are traced.
      ValueError: the shapes of index arrays do not broadcast together.
      TypeError: an index is a list or a string, or its dtype is neither integer nor boolean.
    """
    items = _expanded([_classified(item) for item in _as_tuple(index)], len(shape))
    full_shape: list[int] = []
    inserted: list[int] = []
    entries: list[Entry] = []
    places: list[int] = []  # for each item, its dimension of full_shape, NEW, or -3 (nothing)
    advanced: list[int] = []  # positions among places
    has_arrays = False
    axis = 0
    for position, item in enumerate(items):
        if item is None or item is Ellipsis:
            places.append(NEW if item is None else _NOTHING)
            continue
        if isinstance(item, _Boolean):
            has_arrays = True
            for mask_index in _mask_indices(item.mask, shape, axis, position):
                if item.mask.ndim == 0:
                    inserted.append(len(full_shape))
                advanced.append(len(places))
                places.append(len(full_shape))
                entries.append(mask_index)
                full_shape.append(1 if item.mask.ndim == 0 else shape[axis])
                axis += item.mask.ndim > 0
            continue
        places.append(len(full_shape))
        if isinstance(item, slice):
            entries.append(_span(item, shape[axis], position))
        else:
            advanced.append(len(places) - 1)
            if staging() and isinstance(item, int) and not _is_inside(item, shape[axis]):
                # Read it when the program runs, so that `checkify` sees the index.
                item = np.asarray(min(max(item, _INT32.min), _INT32.max), np.int32)
            entries.append(item)
            has_arrays = has_arrays or (not isinstance(item, int) and item.ndim > 0)
        full_shape.append(shape[axis])
        axis += 1
    layout, batch_shape = _layout(places, entries, advanced if has_arrays else [])
    return Plan(
        tuple(full_shape), tuple(inserted), tuple(entries), layout, batch_shape, not has_arrays
    )


_NOTHING = -3


def _is_inside(item: int, size: Any) -> bool:
    """Whether an index is in bounds for every value of the size."""
    try:
        return bool(-size <= item < size)
    except InconclusiveDimensionOperation:
        return False


def _mask_indices(
    mask: np.ndarray[Any, Any], shape: tuple[int, ...], axis: int, position: int
) -> list[np.ndarray[Any, Any]]:
    """Integer arrays, one for each dimension of a mask, that select the same elements."""
    if mask.ndim == 0:
        return [np.arange(int(mask))]
    expected = shape[axis : axis + mask.ndim]
    if any(given not in (0, size) for given, size in zip(mask.shape, expected, strict=True)):
        raise IndexError(
            f"the boolean mask at position {position} has shape {mask.shape}, but the dimensions "
            f"that it indexes have shape {expected}"
        )
    return list(np.nonzero(mask))


def _layout(
    places: list[int], entries: list[Entry], advanced: list[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The order of the dimensions of the result, and the common shape of the index arrays.

    If the index arrays are adjacent (including integers), their dimensions are in the place of the
    first one; otherwise they come first.
    """
    batch_shape: tuple[int, ...] = ()
    if advanced:
        shapes = [np.shape(entries[places[at]]) for at in advanced]
        try:
            symbolic = any(map(any_symbolic, shapes))
            batch_shape = (broadcast_shapes if symbolic else np.broadcast_shapes)(*shapes)
        except ValueError:
            raise ValueError(
                "index arrays must have shapes that broadcast together, got "
                f"{', '.join(map(str, shapes))}"
            ) from None
    side_by_side = bool(advanced) and advanced[-1] - advanced[0] + 1 == len(advanced)
    layout: list[int] = [BATCH] if advanced and not side_by_side else []
    for at, place in enumerate(places):
        if side_by_side and at == advanced[0]:
            layout.append(BATCH)
        if place == NEW or (place != _NOTHING and isinstance(entries[place], Span)):
            layout.append(place)
    return tuple(layout), batch_shape
