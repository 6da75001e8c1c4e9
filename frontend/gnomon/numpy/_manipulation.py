"""Shapes: reshape, join, split, repeat, reorder."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._array import Array
from gnomon._trace import concrete_value, is_tracer
from gnomon._tracing import as_operand, bind
from gnomon.dialects.emit import ops
from gnomon.lax._creation import converted
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import (
    as_array,
    axis_tuple,
    promoted,
    sequence_of_arrays,
    static_shape,
)


def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    """``a`` in another shape of the same size; one dimension may be ``-1``.

    Raises:
      TypeError: the sizes do not fit.
      ValueError: the order is not ``"C"`` or ``"F"``.
    """
    x = as_array("reshape", a)
    sizes = static_shape("reshape", shape)
    if sizes.count(-1) > 1:
        raise TypeError(f"reshape: only one dimension may be -1, got {sizes}")
    if -1 in sizes:
        known = math.prod(n for n in sizes if n != -1)
        if known == 0 or x.size % known:
            raise TypeError(f"cannot reshape array of shape {x.shape} (size {x.size}) into {sizes}")
        sizes = tuple(x.size // known if n == -1 else n for n in sizes)
    if math.prod(sizes) != x.size or any(n < 0 for n in sizes):
        raise TypeError(f"cannot reshape array of shape {x.shape} (size {x.size}) into {sizes}")
    if order == "F":
        return transpose(lax.reshape(transpose(x), sizes[::-1]))
    if order not in ("C", "A"):
        raise ValueError(f"reshape: order must be 'C' or 'F', got {order!r}")
    return x if sizes == x.shape else lax.reshape(x, sizes)


def ravel(a: Any, order: str = "C") -> Array:
    """``a`` in one dimension."""
    return reshape(a, (-1,) if as_array("ravel", a).size else (0,), order)


def transpose(a: Any, axes: Sequence[int] | None = None) -> Array:
    """Permute dimensions; by default reverse them."""
    x = as_array("transpose", a)
    if axes is None:
        order = tuple(range(x.ndim))[::-1]
    else:
        order = tuple(canonical_axis(i, x.ndim) for i in axes)
        if sorted(order) != list(range(x.ndim)):
            raise ValueError(
                f"transpose: axes {tuple(axes)} is no permutation of {x.ndim} dimensions"
            )
    return x if order == tuple(range(x.ndim)) else lax.transpose(x, order)


permute_dims = transpose


def matrix_transpose(x: Any, /) -> Array:
    """Swap the last two dimensions."""
    array = as_array("matrix_transpose", x)
    if array.ndim < 2:
        raise ValueError(f"matrix_transpose takes two dimensions or more, got {array.ndim}")
    return swapaxes(array, -1, -2)


def swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    """Swap two dimensions."""
    x = as_array("swapaxes", a)
    order = list(range(x.ndim))
    i, j = canonical_axis(axis1, x.ndim), canonical_axis(axis2, x.ndim)
    order[i], order[j] = order[j], order[i]
    return transpose(x, order)


def moveaxis(a: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Move dimensions to new places; the others keep their order."""
    x = as_array("moveaxis", a)
    sources = axis_tuple("moveaxis", source, x.ndim)
    destinations = axis_tuple("moveaxis", destination, x.ndim)
    if len(sources) != len(destinations):
        raise ValueError(
            f"moveaxis: inconsistent number of elements: {len(sources)} vs {len(destinations)}"
        )
    order = [d for d in range(x.ndim) if d not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return transpose(x, order)


def expand_dims(a: Any, axis: int | Sequence[int]) -> Array:
    """Put in dimensions of size one; positions are those in the result."""
    x = as_array("expand_dims", a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    return lax.expand_dims(x, axis_tuple("expand_dims", axis, x.ndim + count))


def squeeze(a: Any, axis: int | Sequence[int] | None = None) -> Array:
    """Drop dimensions of size one: those given, or all.

    Raises:
      ValueError: a dimension given is not of size one.
    """
    x = as_array("squeeze", a)
    if axis is None:
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
    else:
        axes = axis_tuple("squeeze", axis, x.ndim)
        for i in axes:
            if x.shape[i] != 1:
                raise ValueError(
                    "cannot select an axis to squeeze out which has size not equal to one, got "
                    f"shape={x.shape} and axis={axis}"
                )
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Array:
    """``array`` repeated to a shape.

    Raises:
      ValueError: the shape does not fit.
    """
    x = as_array("broadcast_to", array)
    sizes = static_shape("broadcast_to", shape)
    if x.shape == sizes:
        return x
    lead = len(sizes) - x.ndim
    if lead < 0 or any(n not in (1, m) for n, m in zip(x.shape, sizes[lead:], strict=True)):
        raise ValueError(
            f"Incompatible shapes for broadcasting: {x.shape} and requested shape {sizes}"
        )
    kept = [i for i, n in enumerate(x.shape) if n == sizes[lead + i]]
    small = reshape(x, tuple(x.shape[i] for i in kept))
    return bind(ops.broadcast_in_dim, small, shape=sizes, dims=tuple(lead + i for i in kept))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that shapes broadcast to."""
    return tuple(lax.broadcast_shapes(*shapes))


def broadcast_arrays(*args: Any) -> list[Array]:
    """Arrays repeated to their common shape."""
    arrays = [as_array("broadcast_arrays", x, i) for i, x in enumerate(args)]
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return [broadcast_to(x, shape) for x in arrays]


# ------------------------------------------------------------------------------------ joining


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Array:
    """Join arrays along a dimension; ``axis=None`` flattens them first.

    Raises:
      ValueError: there are none, or their other dimensions differ.
    """
    parts = list(sequence_of_arrays("concatenate", arrays))
    if not parts:
        raise ValueError("Need at least one array to concatenate.")
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    joined = promoted("concatenate", *parts)
    if dtype is not None:
        joined = [lax.convert_element_type(x, dtype) for x in joined]
    if joined[0].ndim == 0:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    place = canonical_axis(axis, joined[0].ndim)
    shapes = {tuple(n for i, n in enumerate(x.shape) if i != place) for x in joined}
    if len(shapes) > 1 or len({x.ndim for x in joined}) > 1:
        raise TypeError(
            "Cannot concatenate arrays with shapes that differ in dimensions other than the one "
            f"being concatenated: concatenating along dimension {place} for shapes "
            f"{', '.join(str(x.shape) for x in joined)}."
        )
    return joined[0] if len(joined) == 1 else lax.concatenate(joined, place)


concat = concatenate


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    """Join arrays of one shape along a new dimension.

    Raises:
      ValueError: there are none, or their shapes differ.
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to stack is not supported.")
    parts = [as_array("stack", x, i) for i, x in enumerate(sequence_of_arrays("stack", arrays))]
    if not parts:
        raise ValueError("Need at least one array to stack.")
    if len({x.shape for x in parts}) > 1:
        raise ValueError("All input arrays must have the same shape.")
    place = canonical_axis(axis, parts[0].ndim + 1)
    return concatenate([lax.expand_dims(x, (place,)) for x in parts], place, dtype)


def vstack(tup: Any, dtype: Any = None) -> Array:
    """Join along the first dimension; vectors are rows."""
    return concatenate([atleast_2d(x) for x in sequence_of_arrays("vstack", tup)], 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Array:
    """Join along the second dimension, vectors along the first."""
    parts = [atleast_1d(x) for x in sequence_of_arrays("hstack", tup)]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Array:
    """Join along the third dimension."""
    return concatenate([atleast_3d(x) for x in sequence_of_arrays("dstack", tup)], 2, dtype)


def column_stack(tup: Any) -> Array:
    """Join vectors as columns, matrices along the second dimension."""
    parts = []
    for x in sequence_of_arrays("column_stack", tup):
        array = atleast_1d(x)
        parts.append(atleast_2d(array).T if array.ndim < 2 else array)
    return concatenate(parts, 1)


def _at_least(function: str, xs: tuple[Any, ...], make: Callable[[Array], Array]) -> Any:
    arrays = [make(as_array(function, x, i)) for i, x in enumerate(xs)]
    return arrays[0] if len(arrays) == 1 else arrays


def atleast_1d(*arys: Any) -> Any:
    """Arrays with one dimension at least."""
    return _at_least("atleast_1d", arys, lambda x: reshape(x, (1,)) if x.ndim == 0 else x)


def atleast_2d(*arys: Any) -> Any:
    """Arrays with two dimensions at least; vectors are rows."""
    return _at_least("atleast_2d", arys, lambda x: reshape(x, (1, x.size)) if x.ndim < 2 else x)


def atleast_3d(*arys: Any) -> Any:
    """Arrays with three dimensions at least."""

    def make(x: Array) -> Array:
        if x.ndim <= 1:
            return reshape(x, (1, x.size, 1))
        return reshape(x, (*x.shape, 1)) if x.ndim == 2 else x

    return _at_least("atleast_3d", arys, make)


def append(arr: Any, values: Any, axis: int | None = None) -> Array:
    """Join ``values`` behind ``arr``; without an axis both are flattened."""
    return concatenate([as_array("append", arr), as_array("append", values, 1)], axis)


# ----------------------------------------------------------------------------------- splitting


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Cut an array into equal parts, or at given positions.

    Raises:
      ValueError: a dimension cannot be cut into so many equal parts.
    """
    x = as_array("split", ary)
    size = x.shape[canonical_axis(axis, x.ndim)]
    if isinstance(indices_or_sections, (int, np.integer)) and size % int(indices_or_sections):
        raise ValueError("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Cut an array into parts that are equal up to one, or at given positions."""
    x = as_array("array_split", ary)
    place = canonical_axis(axis, x.ndim)
    size = x.shape[place]
    if isinstance(indices_or_sections, (int, np.integer)):
        count = int(indices_or_sections)
        if count <= 0:
            raise ValueError("number sections must be larger than 0.")
        small, extra = divmod(size, count)
        cuts = [0]
        for i in range(count):
            cuts.append(cuts[-1] + small + (i < extra))
    else:
        given = [
            int(i) for i in np.asarray(concrete_value(as_operand(np.asarray(indices_or_sections))))
        ]
        inner = [min(max(i + size if i < 0 else i, 0), size) for i in given]
        cuts = [0, *inner, size]
    parts = []
    for low, high in itertools.pairwise(cuts):
        parts.append(lax.slice_in_dim(x, low, max(low, high), axis=place))
    return parts


def vsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """`split` along the first dimension."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """`split` along the second dimension (of a vector: the first)."""
    x = as_array("hsplit", ary)
    return split(x, indices_or_sections, 0 if x.ndim == 1 else 1)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """`split` along the third dimension."""
    return split(ary, indices_or_sections, 2)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along a dimension."""
    array = as_array("unstack", x)
    if array.ndim == 0:
        raise ValueError(
            "unstack requires arrays with rank > 0, however a scalar array was passed."
        )
    place = canonical_axis(axis, array.ndim)
    return tuple(
        lax.index_in_dim(array, i, place, keepdims=False) for i in range(array.shape[place])
    )


# ------------------------------------------------------------------------- repeating, reordering


def tile(A: Any, reps: Any) -> Array:
    """Repeat a whole array along each dimension."""
    x = as_array("tile", A)
    counts = static_shape("tile", reps)
    rank = max(len(counts), x.ndim)
    counts = (1,) * (rank - len(counts)) + counts
    shape = (1,) * (rank - x.ndim) + x.shape
    spread = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    kept = tuple(range(1, 2 * rank, 2))
    wide = bind(ops.broadcast_in_dim, reshape(x, shape), shape=spread, dims=kept)
    return reshape(wide, tuple(c * n for c, n in zip(counts, shape, strict=True)))


def repeat(
    a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Array:
    """Repeat each element along a dimension.

    Args:
      a: an array; flattened where ``axis`` is None.
      repeats: how often: one number, or one for each element. Where it is traced,
        ``total_repeat_length`` must be given.
      total_repeat_length: the size of the dimension in the result.
    Raises:
      ConcretizationTypeError: ``repeats`` is traced and no total is given.
    """
    x = as_array("repeat", a)
    if axis is None:
        x, axis = ravel(x), 0
    if x.ndim == 0:
        x = reshape(x, (1,))
    place = canonical_axis(axis, x.ndim)
    counts = as_operand(repeats if not isinstance(repeats, (list, tuple)) else np.asarray(repeats))
    size = x.shape[place]
    if is_tracer(counts) and total_repeat_length is not None:
        ends = lax.cumsum(broadcast_to(counts, (size,)))
        places = lax.iota(np.int32, total_repeat_length)
        rows = lax.ge(
            broadcast_to(reshape(places, (-1, 1)), (total_repeat_length, size)),
            broadcast_to(converted(ends, np.dtype(np.int32)), (total_repeat_length, size)),
        )
        index = lax.reduce_sum(lax.convert_element_type(rows, np.int32), (1,))
        index = lax.min(index, lax.full_like(index, size - 1))
        return take(x, index, place, mode="clip")
    values = np.asarray(concrete_value(counts) if not is_tracer(counts) else counts.numpy_value())
    if values.ndim == 0 or values.size == 1:
        count = int(values.reshape(-1)[0])
        wide = (*x.shape[: place + 1], count, *x.shape[place + 1 :])
        dims = tuple(i for i in range(x.ndim + 1) if i != place + 1)
        shape = (*x.shape[:place], size * count, *x.shape[place + 1 :])
        out = reshape(bind(ops.broadcast_in_dim, x, shape=wide, dims=dims), shape)
    else:
        if values.shape != (size,):
            raise ValueError(f"repeat: {values.shape} repeats for a dimension of size {size}")
        out = take(x, np.repeat(np.arange(size), values), place)
    if total_repeat_length is None:
        return out
    missing = total_repeat_length - out.shape[place]
    if missing <= 0:
        return lax.slice_in_dim(out, 0, total_repeat_length, axis=place)
    last = lax.slice_in_dim(x, size - 1, size, axis=place)
    return concatenate([out, repeat(last, missing, place)], place)


def flip(m: Any, axis: int | Sequence[int] | None = None) -> Array:
    """Reverse the order along dimensions."""
    x = as_array("flip", m)
    return lax.rev(x, axis_tuple("flip", axis, x.ndim))


def fliplr(m: Any) -> Array:
    """Reverse the second dimension."""
    return flip(m, 1)


def flipud(m: Any) -> Array:
    """Reverse the first dimension."""
    return flip(m, 0)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Rotate by quarter turns in the plane of two dimensions."""
    x = as_array("rot90", m)
    first, second = axis_tuple("rot90", tuple(axes), x.ndim)
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, (first, second))
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    if turns == 1:
        return transpose(flip(x, second), order)
    return flip(transpose(x, order), second)


def roll(a: Any, shift: Any, axis: int | Sequence[int] | None = None) -> Array:
    """Shift elements along dimensions; what falls out at one end comes in at the other."""
    x = as_array("roll", a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    axes = [axis] if isinstance(axis, (int, np.integer)) else list(axis)
    if is_tracer(shift) or isinstance(shift, Array):
        shifts = [shift] * len(axes) if shift.ndim == 0 else [shift[i] for i in range(len(axes))]
    elif isinstance(shift, (int, np.integer)):
        shifts = [shift] * len(axes)
    else:
        shifts = list(shift) if len(list(shift)) == len(axes) else list(shift) * len(axes)
    for by, which in zip(shifts, axes, strict=True):
        place = canonical_axis(which, x.ndim)
        size = x.shape[place]
        if size == 0:
            continue
        if is_tracer(by):
            start = lax.rem(
                lax.sub(lax.full_like(by, size), lax.rem(by, lax.full_like(by, size))),
                lax.full_like(by, size),
            )
            x = lax.dynamic_slice_in_dim(concatenate([x, x], place), start, size, place)
            continue
        cut = (-int(by)) % size
        if cut:
            left = lax.slice_in_dim(x, 0, cut, axis=place)
            x = lax.concatenate([lax.slice_in_dim(x, cut, size, axis=place), left], place)
    return x


# ---------------------------------------------------------------------------------------- taking


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """Elements at given positions along a dimension.

    Args:
      a: an array; flattened where ``axis`` is None.
      indices: integers; negative ones count from the end.
      mode: for positions out of bounds: ``"fill"`` (nan, or the extreme integer; the default),
        ``"clip"``, for which negative ones are out of bounds, or ``"wrap"``.
    Raises:
      TypeError: the indices are not integers.
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to take is not supported.")
    x = as_array("take", a)
    index = as_array("take", indices, 1)
    if axis is None:
        x, axis = ravel(x), 0
    place = canonical_axis(axis, x.ndim)
    size = x.shape[place]
    if mode == "wrap":
        if is_tracer(index):
            wide = lax.full_like(index, size)
            index = lax.rem(lax.add(lax.rem(index, wide), wide), wide)
        else:
            index = as_operand(np.asarray(concrete_value(index)) % max(size, 1))
    elif mode == "clip" and size:
        # Negative positions are out of bounds too, as in NumPy.
        bounds = [converted(as_operand(n), index.dtype) for n in (0, size - 1)]
        index = lax.clamp(bounds[0], index, bounds[1])
    elif mode not in (None, "fill", "clip", "promise_in_bounds"):
        raise ValueError(f"take: mode must be 'fill', 'clip' or 'wrap', got {mode!r}")
    chosen = "fill" if mode is None else "clip" if mode == "wrap" else mode
    where = (slice(None),) * place + (index,)
    found: Any = x
    return found.at[where].get(
        mode=chosen,
        fill_value=fill_value,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
    )


def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """For each position, the element at the index given there along a dimension.

    Args:
      arr: an array.
      indices: integers, an array of the same rank that fits it in the other dimensions.
      axis: the dimension; None: of the flat array, ``indices`` being 1-dimensional.
      mode: for indices out of bounds: ``"fill"`` (the default), ``"clip"``,
        ``"promise_in_bounds"``.
      fill_value: what ``"fill"`` gives; nan, or the extreme integer.
      wrap_negative_indices: negative indices count from the end (the default); otherwise they are
        out of bounds.
    """
    x = as_array("take_along_axis", arr)
    index = as_array("take_along_axis", indices, 1)
    if axis is None:
        if index.ndim != 1:
            raise ValueError("take_along_axis: indices must be 1D if axis=None")
        x, axis = ravel(x), 0
    if x.ndim != index.ndim:
        raise ValueError(
            "indices and arr must have the same number of dimensions; "
            f"got {index.ndim} vs. {x.ndim}"
        )
    place = canonical_axis(axis, x.ndim)
    shape = broadcast_shapes(
        *(tuple(1 if i == place else n for i, n in enumerate(s)) for s in (x.shape, index.shape))
    )
    wide = tuple(x.shape[place] if i == place else n for i, n in enumerate(shape))
    narrow = tuple(index.shape[place] if i == place else n for i, n in enumerate(shape))
    grid: list[Any] = []
    for i in range(x.ndim):
        if i == place:
            grid.append(broadcast_to(index, narrow))
        else:
            sizes = [1] * x.ndim
            sizes[i] = shape[i]
            grid.append(np.arange(shape[i]).reshape(sizes))
    spread: Any = broadcast_to(x, wide)
    found: Array = spread.at[tuple(grid)].get(
        mode=mode or "fill",
        fill_value=fill_value,
        wrap_negative_indices=True if wrap_negative_indices is None else wrap_negative_indices,
    )
    return found


__all__ = [
    "append",
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "column_stack",
    "concat",
    "concatenate",
    "dsplit",
    "dstack",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "repeat",
    "reshape",
    "roll",
    "rot90",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "take",
    "take_along_axis",
    "tile",
    "transpose",
    "unstack",
    "vsplit",
    "vstack",
]
