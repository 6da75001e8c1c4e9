"""Windows: how many there are, and how their elements are combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from gnomon.dialects.symbolic.dimension import larger

__all__ = [
    "dilate_and_pad",
    "dilated",
    "fold_windows",
    "take_strided",
    "window_shape",
    "windows_in",
]

T = TypeVar("T")
Dims = Sequence[int]


def dilated(n: Any, dilation: Any) -> Any:
    """The size of ``n`` elements that are ``dilation`` apart; either may be symbolic."""
    return larger(0, (n - 1) * dilation + 1)


def windows_in(span: Any, window: Any, stride: Any) -> Any:
    """The number of windows in a padded dimension; all sizes may be symbolic."""
    return larger(0, (span - window) // stride + 1)


def window_shape(
    shape: Dims,
    window_dimensions: Dims,
    window_strides: Dims,
    padding_low: Dims,
    padding_high: Dims,
    base_dilation: Dims,
    window_dilation: Dims,
) -> tuple[int, ...]:
    """The number of windows along each dimension."""
    result = []
    for n, w, stride, low, high, base, apart in zip(
        shape,
        window_dimensions,
        window_strides,
        padding_low,
        padding_high,
        base_dilation,
        window_dilation,
        strict=True,
    ):
        span = dilated(n, base) + low + high
        result.append(windows_in(span, dilated(w, apart), stride))
    return tuple(result)


def fold_windows(
    parts: Sequence[T],
    shape: Dims,
    params: Mapping[str, Any],
    take: Callable[[T, int, int, int, int], T],
    combine: Callable[[Sequence[T], Sequence[T]], Sequence[T]],
) -> list[T]:
    """Combine the elements of every window with an associative function.

    The dimensions are folded one after the other, the last one first. This keeps the order within a
    window, so the function need not be commutative. Along one dimension, a window of twice a size
    combines two adjacent windows of that size, so a window of n elements takes about 2 log2(n)
    combinations of whole arrays. Windows of at most three elements, and windows that together have
    no more elements than the array, are combined element by element instead.

    Args:
      parts: the dilated and padded values to combine, all of one shape.
      shape: the shape of ``parts``.
      params: the window's parameters.
      take: ``take(part, dimension, start, limit, stride)`` slices a part along a dimension.
      combine: combines values elementwise.
    """
    values = list(parts)
    for d, size in reversed(list(enumerate(params["window_dimensions"]))):
        stride, apart = params["window_strides"][d], params["window_dilation"][d]
        count = windows_in(shape[d], dilated(size, apart), stride)
        if (size, stride, count) != (1, 1, shape[d]):
            values = _fold_dimension(values, shape[d], d, size, stride, apart, count, take, combine)
    return values


def _fold_dimension(
    values: list[T],
    n: int,
    d: int,
    size: int,
    stride: int,
    apart: int,
    count: int,
    take: Callable[[T, int, int, int, int], T],
    combine: Callable[[Sequence[T], Sequence[T]], Sequence[T]],
) -> list[T]:
    span = (count - 1) * stride + 1 if count else 0

    def starts(given: Sequence[T], offset: int) -> list[T]:
        """The values at the first element of each window plus an offset."""
        return [take(v, d, offset, offset + span, stride) for v in given]

    result: list[T] | None = None
    offset, reach, run = 0, 1, values
    if size * count <= n or size <= 3:
        # Runs are combined in a balanced tree, so the rounding errors of sums grow as log(size).
        runs: list[tuple[int, list[T]]] = []
        for i in range(size):
            run, length = starts(values, i * apart), 1
            while runs and runs[-1][0] == length:
                run, length = list(combine(runs.pop()[1], run)), 2 * length
            runs.append((length, run))
        _, result = runs.pop()
        while runs:
            result = list(combine(runs.pop()[1], result))
        return result
    while True:
        # ``run`` combines the ``reach`` elements that start at each position.
        if size & reach:
            piece = starts(run, offset * apart)
            result = piece if result is None else list(combine(result, piece))
            offset += reach
        if offset == size:
            assert result is not None
            return result
        left = n - (reach - 1) * apart
        shift = reach * apart
        run = list(
            combine(
                [take(v, d, 0, left - shift, 1) for v in run],
                [take(v, d, shift, left, 1) for v in run],
            )
        )
        reach *= 2


def take_strided(x: np.ndarray, d: int, start: int, limit: int, stride: int) -> np.ndarray:
    """Slice an array along dimension ``d``."""
    index = (*(slice(None),) * d, slice(start, limit, stride))
    return x[index]


def dilate_and_pad(x: np.ndarray, value: Any, params: Mapping[str, Any]) -> np.ndarray:
    """Dilate and pad; negative padding crops."""
    low, high, base = (params[k] for k in ("padding_low", "padding_high", "base_dilation"))
    shape = [
        max(0, dilated(n, b) + p + q) for n, b, p, q in zip(x.shape, base, low, high, strict=True)
    ]
    result = np.full(shape, value, x.dtype)
    source, target = [], []
    for n, b, p, m in zip(x.shape, base, low, shape, strict=True):
        first = max(0, -(p // b)) if p < 0 else 0
        last = min(n, max(first, -((p - m) // b)))
        source.append(slice(first, last))
        target.append(slice(p + first * b, p + last * b if last > first else p + first * b, b))
    if all(s.stop > s.start for s in source):
        result[tuple(target)] = x[tuple(source)]
    return result
