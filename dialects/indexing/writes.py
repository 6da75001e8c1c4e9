"""Writing windows in NumPy: assignment, and combination by a ufunc without a loop over rows."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from gnomon.dialects import extrema
from gnomon.dialects.indexing.windows import Windows, element_count
from gnomon.dialects.types import SUB_BYTE, is_floating

# (out, windows, rows, updates, unique): ``out`` is contiguous and modified in place, ``rows`` is
# the advanced index into ``windows.view(out)``, and ``unique`` means that no two updates overlap.
Write = Callable[[np.ndarray, Windows, tuple[np.ndarray, ...], np.ndarray, bool], None]


def assign(
    out: np.ndarray,
    windows: Windows,
    rows: tuple[np.ndarray, ...],
    updates: np.ndarray,
    unique: bool,
) -> None:
    """Replace the windows; of several updates of one element, the last one wins."""
    # Advanced assignment processes the rows in order.
    windows.view(out)[rows] = updates


# Windows of at least this many elements are combined as a whole where possible.
_BLOCK = 8
# Up to this many updates of one position are combined by window; the rest, element by element.
_ROUNDS = 4


def combine(ufunc: np.ufunc) -> Write:
    """A write that combines each update with its window."""

    def write(
        out: np.ndarray,
        windows: Windows,
        rows: tuple[np.ndarray, ...],
        updates: np.ndarray,
        unique: bool,
    ) -> None:
        rows = tuple(row.reshape(-1) for row in rows)
        count = rows[0].size
        updates = updates.reshape(count, *windows.block_shape)
        if unique or count == 1:
            view = windows.view(out)
            view[rows] = ufunc(view[rows], updates)
            return
        positions = _positions(windows, rows)
        if element_count(windows.block_shape) >= _BLOCK and windows.disjoint:
            rest = _combine_windows(ufunc, windows.view(out), rows, positions, updates)
            positions, updates = positions[rest], updates[rest]
        for n, stride in zip(
            windows.block_shape, windows.strides[windows.positions :], strict=True
        ):
            if n > 1:
                positions = np.add.outer(positions, np.arange(0, n * stride, stride))
        # On flat arrays of one native dtype, ufunc.at is a compiled loop.
        ufunc.at(out.reshape(-1), positions.reshape(-1), updates.reshape(-1))

    return write


def extremum(ufunc: np.ufunc) -> Write:
    """A write that keeps the larger or the smaller number, of two zeros as in `extrema`."""
    plain = combine(ufunc)

    def write(
        out: np.ndarray,
        windows: Windows,
        rows: tuple[np.ndarray, ...],
        updates: np.ndarray,
        unique: bool,
    ) -> None:
        zeros = None
        if extrema.has_negative_zero(updates) or extrema.has_negative_zero(out):
            keys = extrema.ordered(out)
            plain(keys, windows, rows, extrema.ordered(updates), unique)
            zeros = extrema.decoded(keys, out.dtype)
        plain(out, windows, rows, updates, unique)
        if zeros is not None:
            np.copyto(out, zeros, where=out == 0)

    return write


def _positions(windows: Windows, rows: tuple[np.ndarray, ...]) -> np.ndarray:
    """The start of each window in the flat operand."""
    if not windows.positions:
        return rows[0]
    terms = [
        row if stride == 1 else row * stride
        for row, stride in zip(rows, windows.strides, strict=False)
    ]
    return functools.reduce(np.add, terms)


def _combine_windows(
    ufunc: np.ufunc,
    view: np.ndarray,
    rows: tuple[np.ndarray, ...],
    positions: np.ndarray,
    updates: np.ndarray,
) -> np.ndarray:
    """Combine windows that are equal or disjoint, one update of each window per round.

    Returns the updates that are left at positions with more updates than there are rounds.
    """
    order = np.argsort(positions, kind="stable")
    in_order = positions[order]
    starts = np.flatnonzero(np.concatenate([[True], in_order[1:] != in_order[:-1]]))
    counts = np.diff(starts, append=order.size)
    for round_ in range(min(_ROUNDS, counts.max(initial=0))):
        chosen = order[starts[counts > round_] + round_]
        at = tuple(row[chosen] for row in rows)
        view[at] = ufunc(view[at], updates[chosen])
    within = np.arange(order.size) - np.repeat(starts, counts)
    return order[within >= _ROUNDS]


def unchanged(dtype: np.dtype) -> np.dtype:
    """The dtype itself, for writes without arithmetic."""
    return dtype


def native(dtype: np.dtype) -> np.dtype:
    """The dtype in which NumPy's ufuncs have compiled loops; small floats are combined in f32.

    Integers of 2 and 4 bits wrap when converted back, which commutes with sums and products.
    """
    if is_floating(dtype) and dtype.itemsize < 4:
        return np.dtype(np.float32)
    return np.dtype(np.int32) if dtype in SUB_BYTE else dtype
