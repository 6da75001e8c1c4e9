"""`numpy.pad`: arrays extended at their borders.

Modes that repeat elements are a single read, at positions that `numpy.pad` itself computes. With
symbolic sizes these positions are unknown, so only the ends can be repeated. The other modes join
computed values to both ends of each dimension in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand, with_weak_type
from gnomon._tracing.trace import concrete_value, is_tracer
from gnomon.dialects.symbolic.dimension import any_symbolic, is_symbolic_dim
from gnomon.lax._creation import converted
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array
from gnomon.numpy._functional import apply_along_axis
from gnomon.numpy._indexing import getitem
from gnomon.numpy._joining import concatenate
from gnomon.numpy._manipulation import broadcast_to, squeeze
from gnomon.numpy._moments import mean
from gnomon.numpy._order_statistics import median
from gnomon.numpy._parts import round as rounded
from gnomon.numpy._ranges import linspace
from gnomon.numpy._reductions import max as largest
from gnomon.numpy._reductions import min as smallest
from gnomon.numpy._repetition import flip
from gnomon.numpy._taking import take

__all__ = ["pad"]

# One number for both ends of each dimension, a pair, a pair for each dimension, or these by axis.
_Widths = int | Sequence[int] | Sequence[Sequence[int]] | np.ndarray
PadWidth = _Widths | Mapping[int, int | tuple[int, int]]

_STATISTICS: dict[str, Callable[..., Array]] = {
    "maximum": largest,
    "minimum": smallest,
    "mean": mean,
    "median": median,
}
# The keyword arguments of each mode.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",),
    "edge": (),
    "empty": (),
    "linear_ramp": ("end_values",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "wrap": (),
    **dict.fromkeys(_STATISTICS, ("stat_length",)),
}

Pairs = list[tuple[Any, Any]]


def pad(
    array: ArrayLike,
    pad_width: PadWidth,
    mode: str | Callable[..., Any] = "constant",
    **kwargs: Any,
) -> Array:
    """Extend an array at its borders.

    Args:
      array: an array.
      pad_width: the number of elements before and after each dimension: an int, a pair, a pair for
        each dimension, or a dict from dimensions to ints or pairs.
      mode: ``"constant"``, ``"edge"``, ``"empty"``, ``"linear_ramp"``, ``"maximum"``, ``"mean"``,
        ``"median"``, ``"minimum"``, ``"reflect"``, ``"symmetric"`` or ``"wrap"``; or a function
        ``f(vector, (before, after), axis, kwargs)`` that gets each vector along each dimension,
        padded with zeros, and returns the new vector.
      constant_values: for ``"constant"``: a scalar, or pairs as in ``pad_width``; 0 by default.
      end_values: for ``"linear_ramp"``: static scalars, as in ``pad_width``; 0 by default.
      reflect_type: for ``"reflect"`` and ``"symmetric"``: ``"even"``; or ``"odd"``, which also
        reflects the values about the value at the border.
      stat_length: for the statistics: the number of elements at each border; all by default.
      kwargs: the keyword arguments above, each for its modes only; or those of a function ``mode``.
    Raises:
      ValueError: a width is negative, the mode does not take a keyword argument, or a dimension is
        empty and has no values to pad with.
      NotImplementedError: the mode is not supported, or not with symbolic sizes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.pad(gnp.array([1.0, 3.0]), (1, 2), mode="linear_ramp")
      Array([0. , 1. , 3. , 1.5, 0. ], dtype=float32)
    """
    x = as_array("pad", array)
    widths = _widths(pad_width, x.ndim)
    if callable(mode):
        return _padded_by_function(x, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise NotImplementedError(f"pad: mode {mode!r} is none of {', '.join(_OPTIONS)}")
    unknown = sorted(set(kwargs) - set(_OPTIONS[mode]))
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {', '.join(unknown)}")
    if mode in ("constant", "empty"):
        return _with_constants(x, widths, kwargs.get("constant_values", 0))
    sizes = [*x.shape, *(n for width in widths for n in width)]
    if mode == "linear_ramp":
        if any_symbolic(sizes):
            raise _unsupported_symbolic(mode, sizes)
        ends = _pairs("end_values", kwargs.get("end_values", 0), x.ndim)
        return _with_ramps(x, widths, ends)
    if mode in _STATISTICS:
        length = kwargs.get("stat_length")
        lengths = None if length is None else _pairs("stat_length", length, x.ndim)
        return _with_statistics(x, widths, lengths, _STATISTICS[mode])
    if mode == "edge" and any_symbolic(sizes):
        return _with_edges(x, widths)
    if any_symbolic(sizes):
        raise _unsupported_symbolic(mode, sizes)
    reflect_type = kwargs.get("reflect_type", "even")
    if reflect_type not in ("even", "odd"):
        raise ValueError(f"pad: reflect_type must be 'even' or 'odd', got {reflect_type!r}")
    odd = reflect_type == "odd"
    for axis, (low, high) in enumerate(widths):
        if low or high:
            _check_not_empty(x, axis, mode)
            if odd and x.shape[axis] > 1:
                x = _reflected_about_ends(x, axis, low, high, 1 if mode == "reflect" else 0)
            else:
                places = np.pad(np.arange(x.shape[axis]), (low, high), mode=mode)  # type: ignore[call-overload]
                x = take(x, places, axis)
    return x


# -------------------------------------------------------------------------------------- arguments


def _pairs(name: str, values: Any, rank: int) -> Pairs:
    """A pair for each dimension, from a scalar, a pair, or several pairs."""
    if is_tracer(values) or any(is_tracer(v) for v in np.ravel(np.asarray(values, object))):
        raise TypeError(f"pad: {name} must be static, but it is a tracer")
    table = np.asarray(concrete_value(values) if isinstance(values, Array) else values)
    if table.shape not in ((rank, 2), (1, 2), (2,), (1,), ()):
        raise ValueError(
            f"pad: {name} has shape {table.shape}; for {rank} dimensions it may have "
            f"({rank}, 2), (1, 2), (2,), (1,) or ()"
        )
    return [(low, high) for low, high in np.broadcast_to(table, (rank, 2)).tolist()]


def _widths(pad_width: Any, rank: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        widths: Pairs = [(0, 0)] * rank
        for axis, width in pad_width.items():
            (widths[canonical_axis(axis, rank)],) = _pairs("pad_width", width, 1)
    else:
        widths = _pairs("pad_width", pad_width, rank)
    sizes = [n for width in widths for n in width]
    if not all(isinstance(n, int) or is_symbolic_dim(n) for n in sizes):
        raise TypeError(f"`pad_width` must be of integral type, got {pad_width!r}")
    if any(n < 0 for n in sizes):
        raise ValueError("index can't contain negative values")
    return widths


def _unsupported_symbolic(mode: str, sizes: Sequence[Any]) -> NotImplementedError:
    shown = ", ".join(map(str, sizes))
    return NotImplementedError(
        f"pad: mode {mode!r} needs sizes and widths that are ints, but they are {shown}"
    )


def _check_not_empty(x: Array, axis: int, mode: str) -> None:
    if x.shape[axis] == 0:
        raise ValueError(f"Cannot apply '{mode}' padding to empty axis {axis}")


# ------------------------------------------------------------------------------------------ modes


def _joined(parts: Sequence[Array], axis: int, like: Array) -> Array:
    """Join parts of the dtype of ``like``; the result is weakly typed if ``like`` is."""
    whole = concatenate([converted(part, like.dtype) for part in parts], axis)
    return with_weak_type(whole, like.aval.weak_type)


def _ends(x: Array, axis: int, before: int, after: int) -> tuple[Array, Array]:
    """The first and the last elements along a dimension."""
    size = x.shape[axis]
    first = lax.slice_in_dim(x, 0, before, axis=axis)
    return first, lax.slice_in_dim(x, size - after, size, axis=axis)


def _with_constants(x: Array, widths: Sequence[tuple[int, int]], values: Any) -> Array:
    value = as_operand(values if not isinstance(values, (list, tuple)) else np.asarray(values))
    if any_symbolic([n for sides in widths for n in sides]):
        ends = broadcast_to(converted(value, x.dtype), (x.ndim, 2))
        for axis, sides in enumerate(widths):
            x = _with_repeated(x, axis, sides, (getitem(ends, (axis, 0)), getitem(ends, (axis, 1))))
        return x
    if value.ndim == 0:
        config = [(low, high, 0) for low, high in widths]
        return lax.pad(x, converted(value, x.dtype), config)
    table = broadcast_to(value, (x.ndim, 2))
    for axis, sides in enumerate(widths):
        for side, width in enumerate(sides):
            config = [(0, 0, 0)] * x.ndim
            config[axis] = (width, 0, 0) if side == 0 else (0, width, 0)
            x = lax.pad(x, converted(getitem(table, (axis, side)), x.dtype), config)
    return x


def _with_edges(x: Array, widths: Sequence[tuple[int, int]]) -> Array:
    """Repeat the first and the last elements along each dimension."""
    for axis, sides in enumerate(widths):
        if sides != (0, 0):
            _check_not_empty(x, axis, "edge")
            x = _with_repeated(x, axis, sides, _ends(x, axis, 1, 1))
    return x


def _with_repeated(
    x: Array, axis: int, sides: tuple[int, int], values: tuple[Array, Array]
) -> Array:
    """Join values, repeated along a dimension, to both of its ends."""
    parts = [
        broadcast_to(value, (*x.shape[:axis], width, *x.shape[axis + 1 :]))
        for value, width in zip(values, sides, strict=True)
    ]
    return _joined([parts[0], x, parts[1]], axis, x)


def _with_ramps(x: Array, widths: Sequence[tuple[int, int]], ends: Pairs) -> Array:
    for axis, (low, high) in enumerate(widths):
        _check_not_empty(x, axis, "linear_ramp")
        ramps = [
            linspace(end, squeeze(edge, axis), width, endpoint=False, dtype=x.dtype, axis=axis)
            for end, edge, width in zip(ends[axis], _ends(x, axis, 1, 1), (low, high), strict=True)
        ]
        x = _joined([ramps[0], x, flip(ramps[1], axis)], axis, x)
    return x


def _with_statistics(
    x: Array,
    widths: Sequence[tuple[int, int]],
    lengths: Pairs | None,
    statistic: Callable[..., Array],
) -> Array:
    for axis, sides in enumerate(widths):
        size = x.shape[axis]
        before, after = (size, size) if lengths is None else lengths[axis]
        if lengths is not None and 0 in (before, after):
            raise ValueError("stat_length of 0 yields no value for padding")
        values = []
        regions = _ends(x, axis, min(before, size), min(after, size))
        for region in regions:
            value = statistic(region, axis=axis, keepdims=True)
            if x.dtype.kind in "iu":
                value = rounded(value)
            values.append(value)
        x = _with_repeated(x, axis, sides, (values[0], values[1]))
    return x


def _reflected_about_ends(x: Array, axis: int, low: int, high: int, skipped: int) -> Array:
    """Reflections that also reflect the values about the value at the end.

    Each reflection is as long as the array (without the end itself, if it is ``skipped``). Wider
    padding reflects the result again.
    """
    reach = x.shape[axis] - skipped
    while low or high:
        before, after = min(low, reach), min(high, reach)
        first, last = _ends(x, axis, 1, 1)
        inner = lax.slice_in_dim(x, skipped, skipped + before, axis=axis)
        end = x.shape[axis] - skipped
        outer = lax.slice_in_dim(x, end - after, end, axis=axis)
        parts = [_about(first, flip(inner, axis)), x, _about(last, flip(outer, axis))]
        x = _joined(parts, axis, x)
        low, high = low - before, high - after
    return x


def _about(centre: Array, values: Array) -> Array:
    twice = lax.add(centre, centre)
    return lax.sub(broadcast_to(twice, values.shape), values)


def _padded_by_function(
    x: Array,
    widths: Sequence[tuple[int, int]],
    function: Callable[..., Any],
    kwargs: dict[str, Any],
) -> Array:
    x = _with_constants(x, widths, 0)
    for axis, width in enumerate(widths):
        x = apply_along_axis(function, axis, x, width, axis, kwargs)
    return x
