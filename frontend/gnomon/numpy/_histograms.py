"""Counts of integers, and of numbers in intervals."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, ArraysLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._diagnostics.errors import ConcretizationTypeError
from gnomon._tracing.trace import concrete_value, is_tracer
from gnomon.dialects.symbolic.dimension import as_size
from gnomon.dialects.types import is_integer
from gnomon.lax._creation import converted
from gnomon.numpy._accumulations import diff
from gnomon.numpy._arguments import as_array, promoted
from gnomon.numpy._construction import asarray
from gnomon.numpy._joining import stack
from gnomon.numpy._manipulation import ravel, reshape
from gnomon.numpy._ranges import linspace
from gnomon.numpy._selection import clip, where
from gnomon.numpy._sorting import searchsorted

# The number of intervals, or their edges.
Edges = int | Array | np.ndarray | Sequence[ArrayLike]
EdgesOfEach = Edges | Sequence[Edges]


@takes_out_sharding
def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Count the occurrences of each integer from 0.

    Args:
      x: a 1-d array of integers; negative ones count as 0.
      weights: the weight of each element, an array of the same shape; 1 by default.
      minlength: the minimum length of the result.
      length: the length of the result, which is needed if ``x`` is traced. Larger numbers are
        ignored.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Returns:
      An array of the dtype of ``weights``, or of the default integer dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.bincount(gnp.array([1, 3, 1]))
      Array([0, 2, 0, 1], dtype=int32)
      >>> gnp.bincount(gnp.array([0, 1, 1]), weights=gnp.array([0.5, 1.0, 2.0]))
      Array([0.5, 3. ], dtype=float32)

    See also:
      `histogram`, `unique_counts`
    """
    numbers = as_array("bincount", x)
    if numbers.dtype == np.bool_:
        numbers = converted(numbers, np.dtype(np.int32))
    if not is_integer(numbers.dtype):
        raise TypeError(f"x argument to bincount must have an integer type; got {numbers.dtype}")
    if numbers.ndim != 1:
        raise ValueError(f"bincount takes a 1-dimensional array, got shape {numbers.shape}")
    least = operator.index(minlength)
    if length is None:
        if is_tracer(numbers) and concrete_value(numbers) is None:
            raise ConcretizationTypeError(
                numbers, "bincount needs to know the largest number: pass length."
            )
        value = concrete_value(numbers)
        assert value is not None
        size = max(least, int(value.max()) + 1 if value.size else 0)
    else:
        size = as_size(length)
    if weights is None:
        amounts = lax.full(numbers.shape, 1, _dtypes.default_int_dtype())
    else:
        amounts = as_array("bincount", weights, 1)
        if amounts.shape != numbers.shape:
            raise ValueError(
                "bincount: weights must have the shape of x, got shapes "
                f"{amounts.shape} and {numbers.shape}"
            )
    zeros = lax.full((size,), 0, amounts.dtype)
    return zeros.at[clip(numbers, 0)].add(amounts, mode="drop")


def histogram_bin_edges(
    a: ArrayLike,
    bins: Edges = 10,
    range: ArraysLike | None = None,
    weights: ArrayLike | None = None,
) -> Array:
    """The edges of the intervals that `histogram` counts in.

    Args:
      a: an array.
      bins: the number of intervals of one length, or their edges.
      range: the first and the last edge; the smallest and the largest element by default.
      weights: ignored.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.histogram_bin_edges(gnp.array([0.0, 1.0, 4.0]), bins=4)
      Array([0., 1., 2., 3., 4.], dtype=float32)
      >>> gnp.histogram_bin_edges(gnp.array([0.0, 1.0, 4.0]), bins=2, range=(0, 10))
      Array([ 0.,  5., 10.], dtype=float32)

    See also:
      `histogram`
    """
    given: Any = bins
    if isinstance(given, str):
        raise NotImplementedError("string values for `bins` not implemented.")
    x = as_array("histogram_bin_edges", a)
    dtype = _dtypes.to_inexact_dtype(x.dtype)
    if np.ndim(given) == 1:
        return converted(asarray(given), dtype)
    count = operator.index(given)
    ends = stack([x.min(), x.max()]) if range is None else asarray(range)
    ends = converted(ends, dtype)
    if ends.shape != (2,):
        raise ValueError(f"`range` must be either None or a sequence of scalars, got {range}")
    low, high = ends[0], ends[1]
    # If all numbers are equal, they are in the middle of an interval of length one.
    single = low == high
    first, last = where(single, low - 0.5, low), where(single, high + 0.5, high)
    return linspace(first, last, count + 1, dtype=dtype)


def _intervals(x: Array, edges: Array) -> Array:
    """The interval of each element, counted from 1; the last one includes its right edge."""
    inside = searchsorted(edges, x, side="right")
    return where(x == edges[-1], edges.shape[0] - 1, inside)


@takes_out_sharding
def histogram(
    a: ArrayLike,
    bins: Edges = 10,
    range: ArraysLike | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
    out_sharding: OutSharding | None = None,
) -> tuple[Array, Array]:
    """Count the elements in each interval.

    Args:
      a: an array of real numbers.
      bins, range: see `histogram_bin_edges`.
      weights: the weight of each element, an array of the same shape; 1 by default.
      density: divide by the total and by the lengths of the intervals.
      out_sharding: the sharding of both results.
    Returns:
      The counts, of floating dtype, and the edges, which are one more.

    Example:
      >>> import gnomon.numpy as gnp
      >>> histogram(gnp.array([0.0, 1.0, 1.0, 2.0]), bins=2)
      (Array([1., 3.], dtype=float32), Array([0., 1., 2.], dtype=float32))
    """
    x = as_array("histogram", a)
    if weights is None:
        (x,) = promoted("histogram", x, inexact=True)
        amounts = lax.full_like(x, 1)
    else:
        amounts = as_array("histogram", weights, 1)
        if amounts.shape != x.shape:
            raise ValueError("weights should have the same shape as a.")
        x, amounts = promoted("histogram", x, amounts, inexact=True)
    edges = histogram_bin_edges(x, bins, range)
    zeros = lax.full((edges.shape[0],), 0, amounts.dtype)
    counts = zeros.at[ravel(_intervals(x, edges))].add(ravel(amounts), mode="drop")[1:]
    if density:
        counts = counts / diff(edges) / counts.sum()
    return counts, edges


def histogramdd(
    sample: ArrayLike,
    bins: EdgesOfEach = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """Count the points in each cell of a grid.

    Args:
      sample: the points, an array ``[number, dimensions]``.
      bins: the number of intervals, or for each dimension the number or the edges of intervals.
      range: for each dimension the first and the last edge, or None.
      weights: the weight of each point.
      density: divide by the total and by the sizes of the cells.
    Returns:
      The counts, with a dimension for each coordinate of a point, and a list of the edges.

    Example:
      >>> import gnomon.numpy as gnp
      >>> points = gnp.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.9]])
      >>> counts, edges = gnp.histogramdd(points, bins=2)
      >>> counts
      Array([[1, 0],
             [0, 2]], dtype=int32)
      >>> edges[1]
      Array([0. , 0.5, 1. ], dtype=float32)

    See also:
      `histogram`, `histogram2d`
    """
    points = as_array("histogramdd", sample)
    if points.ndim != 2:
        raise ValueError(f"histogramdd takes an array [number, dimensions], got {points.shape}")
    number, rank = points.shape
    amounts = None
    if weights is None:
        (points,) = promoted("histogramdd", points, inexact=True)
    else:
        amounts = as_array("histogramdd", weights, 1)
        if amounts.shape != (number,):
            raise ValueError("should have one weight for each sample.")
        points, amounts = promoted("histogramdd", points, amounts, inexact=True)
    ranges = [None] * rank if range is None else list(range)
    if len(ranges) != rank or any(r is not None and np.shape(r) != (2,) for r in ranges):
        raise ValueError(
            f"For sample.shape={points.shape}, range must be a sequence of {rank} pairs or Nones; "
            f"got range={range}"
        )
    given: Any = bins
    several = isinstance(given, (list, tuple)) or np.ndim(given) > 0
    bins_of = list(given) if several else [given] * rank
    if len(bins_of) != rank:
        raise ValueError("should be a bin for each dimension.")
    edges, places, shape = [], lax.full((number,), 0, np.dtype(np.int32)), []
    for d in builtins.range(rank):
        line = points[:, d]
        edges.append(histogram_bin_edges(line, bins_of[d], ranges[d]))
        # One more interval on each side counts the elements that are outside.
        size = edges[-1].shape[0] + 1
        places = places * size + _intervals(line, edges[-1])
        shape.append(size)
    counts = reshape(bincount(places, amounts, length=math.prod(shape)), shape)
    counts = counts[(slice(1, -1),) * rank]
    if density:
        counts = converted(counts, points.dtype)
        counts = counts / counts.sum()
        for d, edge in enumerate(edges):
            widths = diff(edge)
            counts = counts / lax.broadcast_in_dim(widths, counts.shape, (d,))
    return counts, edges


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: EdgesOfEach = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """Count the points of a plane in each cell of a grid; see `histogramdd`.

    Args:
      x, y: the coordinates, 1-d arrays of one length.
      bins: the number of intervals, or their edges, for both; or a pair of those.
      range, weights, density: as in `histogramdd`.
    Returns:
      The counts, and the edges in x and in y.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x, y = gnp.array([0.1, 0.9, 0.8]), gnp.array([0.2, 0.7, 0.9])
      >>> counts, x_edges, y_edges = gnp.histogram2d(x, y, bins=2, range=[(0, 1), (0, 1)])
      >>> counts
      Array([[1, 0],
             [0, 2]], dtype=int32)
      >>> x_edges
      Array([0. , 0.5, 1. ], dtype=float32)
    """
    first, second = promoted("histogram2d", x, y)
    given: Any = bins
    if not isinstance(given, (int, np.integer)) and len(given) not in (1, 2):
        given = [given, given]
    counts, edges = histogramdd(stack([first, second], 1), given, range, weights, density)
    return counts, edges[0], edges[1]


__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]
