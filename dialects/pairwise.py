"""Sums of many numbers in NumPy, whose rounding errors grow as log(n).

NumPy adds pairwise only along the dimension whose elements are closest in memory. Along the others
it adds one row after the other, with up to n roundings: the mean of 30 million rows of ones, in
f32, was 0.56. `numpy.cumsum` and BLAS's products add one term after the other, too.

Here, no more than `_FEW_ROWS` rows, `_BLOCK` cumulative terms or `_TERMS` products are added one
after the other. The partial sums are added in the same way, in as many rounds as it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["FEW_TERMS", "accumulate", "multiply_in_pieces", "reduce_sum", "terms_at_once"]

# Up to this many rows are added by one call of NumPy. For fewer rows, the calls cost more than the
# additions.
_FEW_ROWS = 256
# The number of rows that are added one after the other. Microseconds of a sum over the rows of f32,
# and roundings in the sum of equal numbers:
#   rows x columns     10^6 x 2       1000 x 1000    500 x 20      roundings
#   one call           18741          177            9.8           up to 160783
#   runs of 8 rows     1079           235            9.4           up to 3
#   16                 475            256            6.3           up to 8
#   32                 372            203            6.2           up to 13
_RUN = 16
# Narrow rows are added several at once, as rows of about this many elements.
_WIDTH = 4096
# The number of cumulative terms that are added one after the other. Milliseconds for a million f32,
# and roundings of equal numbers: one call 2.5 and 160783; blocks of 32 8.5 and 18; 64 3.4 and 17;
# 128 3.2 and 40.
_BLOCK = 64
# The number of products that BLAS adds. Milliseconds for a million f32, and roundings in the sum of
# equal products:
#   rows x columns    1 x 1          2 x 1        1 x 2          2 x 2
#   one call          0.30  2517     0.44  176    15.8  40290    2.2  270
#   512 terms         0.37  1        0.58  26     0.79  44       2.5  4
#   2048              0.37  3        0.61  72     0.59  160      1.7  19
# Many columns take longer with few terms: 512 x 512 products of 4096 terms 216 ms with 512 terms,
# 99 with 2048, and 115 with all.
_TERMS, _PIECE = 2048, 512
FEW_TERMS = 2 * _PIECE
"""Products of at most this many terms are always left to BLAS."""
_SMALL_PRODUCT = 1 << 12
# The largest array of partial products of matrices.
_PARTIAL = 1 << 18

_AnyArray = np.ndarray[Any, Any]

# NumPy's type stubs do not accept a keepdims whose value is known only at run time.
_add: Any = np.add.reduce


def reduce_sum(
    x: _AnyArray, axes: Any = None, dtype: np.dtype | None = None, keepdims: bool = False
) -> Any:
    """The sum along axes: `numpy.add.reduce`, but as precise for each axis as along the last one.

    Args:
      x: the array.
      axes: an axis, a tuple of axes, or None for all of them.
      dtype: the dtype to add in; by default that of the array, or NumPy's for small integers.
      keepdims: whether reduced dimensions are kept, with size one.
    """
    # These conditions are those of most sums; each costs less than the sum of a small array.
    if x.ndim < 2 or x.size <= _FEW_ROWS or _is_along_memory(x, axes):
        return _add(x, axes, dtype, None, keepdims)
    if (x.dtype if dtype is None else dtype).kind not in "fc":
        return _add(x, axes, dtype, None, keepdims)
    given = tuple(range(x.ndim)) if axes is None else axes if type(axes) is tuple else (axes,)
    reduced = tuple(d + x.ndim if d < 0 else d for d in given)
    if len(set(reduced)) < len(reduced) or any(not 0 <= d < x.ndim for d in reduced):
        return _add(x, axes, dtype, None, keepdims)  # NumPy raises the error.
    if _is_pairwise(x, reduced):
        return _add(x, axes, dtype, None, keepdims)
    if reduced == (0,) and x.flags.c_contiguous:
        total = _sum_rows(x, 0, dtype)
    else:
        total = _sum_in_runs(x, reduced, dtype)
    if keepdims:
        total = total.reshape(tuple(1 if d in reduced else n for d, n in enumerate(x.shape)))
    return total if total.ndim else total[()]


def _is_along_memory(x: _AnyArray, axes: Any) -> bool:
    """Whether all dimensions, the last one or a short one of an array are summed."""
    if axes is None:
        return x.flags.c_contiguous
    if type(axes) is not int or not -x.ndim <= axes < x.ndim:
        return False
    return x.shape[axes] <= _FEW_ROWS or (axes in (-1, x.ndim - 1) and x.flags.c_contiguous)


def _is_pairwise(x: _AnyArray, reduced: Sequence[int]) -> bool:
    """Whether NumPy adds at most a few rows one after the other."""
    # The dimensions along which NumPy adds pairwise follow each other in memory without gaps.
    step, count = x.itemsize, math.prod(x.shape[d] for d in reduced)
    for d in sorted(reduced, key=lambda d: abs(x.strides[d])):
        if count <= _FEW_ROWS or x.strides[d] != step:
            break
        count //= x.shape[d]
        step *= x.shape[d]
    return count <= _FEW_ROWS


def _sum_in_runs(x: _AnyArray, reduced: Sequence[int], dtype: Any) -> _AnyArray:
    kept = [d for d in range(x.ndim) if d not in reduced]
    in_memory = sorted(range(x.ndim), key=lambda d: (-abs(x.strides[d]), d))
    dims = [(x.shape[d], d in reduced) for d in in_memory if x.shape[d] != 1]
    y = x.transpose(in_memory).reshape([n for n, _ in dims])
    order = [d for d in in_memory if d in kept and x.shape[d] != 1]
    y, is_reduced = _merged(y, [flag for _, flag in dims])
    while True in is_reduced:
        axis = len(is_reduced) - 1 - is_reduced[::-1].index(True)
        if axis == y.ndim - 1:
            y = np.asarray(_add(y, axis, dtype))
        else:
            y = _sum_rows(y, axis, dtype)
        del is_reduced[axis]
        y, is_reduced = _merged(y, is_reduced)
    # The merged dimensions are split again, and put into the order of the result.
    y = y.reshape([x.shape[d] for d in order])
    y = y.transpose([order.index(d) for d in sorted(order)])
    return y.reshape([x.shape[d] for d in kept])


def _merged(x: _AnyArray, flags: Sequence[bool]) -> tuple[_AnyArray, list[bool]]:
    """Merge neighbouring dimensions of equal flags, where a view can."""
    shape: list[int] = []
    merged: list[bool] = []
    last_stride = 0
    for n, stride, flag in zip(x.shape, x.strides, flags, strict=True):
        if merged and flag == merged[-1] and last_stride == n * stride:
            shape[-1] *= n
        else:
            shape.append(n)
            merged.append(flag)
        last_stride = stride
    return x.reshape(shape), merged


def _part(axis: int, start: int | None, stop: int | None) -> tuple[slice, ...]:
    """The index of a part of an array along one dimension."""
    return (*(slice(None),) * axis, slice(start, stop))


def _sum_rows(x: _AnyArray, axis: int, dtype: Any) -> _AnyArray:
    """The sum along a dimension that others follow."""
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    while (n := x.shape[axis]) > 2 * _RUN:
        together = max(1, min(_WIDTH // math.prod(after), n // _RUN))
        runs = n // (_RUN * together)
        whole = runs * _RUN * together
        rows = x[_part(axis, 0, whole)].reshape(*before, runs, _RUN, together, *after)
        sums = np.asarray(_add(rows, axis + 1, dtype)).reshape(*before, runs * together, *after)
        rest = x[_part(axis, whole, n)]
        if whole < n:
            if n - whole > _RUN:
                rest = np.expand_dims(_sum_rows(rest, axis, dtype), axis)
            sums = np.concatenate([sums, rest.astype(sums.dtype, copy=False)], axis)
        x = sums
    return np.asarray(_add(x, axis, dtype))


def accumulate(
    ufunc: np.ufunc, x: _AnyArray, axis: int, dtype: np.dtype | None = None
) -> _AnyArray:
    """The cumulative results of a ufunc along an axis, block by block.

    Args:
      ufunc: an associative function, such as `numpy.add`.
      x: the array.
      axis: the axis, counted from the first one.
      dtype: the dtype to compute in; by default that of the array.
    """
    n = x.shape[axis]
    dtype = x.dtype if dtype is None else dtype
    if n <= 2 * _BLOCK or dtype.kind not in "fc" or x.size == 0:
        short: _AnyArray = ufunc.accumulate(x, axis, dtype)
        return short

    blocks, whole = n // _BLOCK, n // _BLOCK * _BLOCK
    split = (*x.shape[:axis], blocks, _BLOCK, *x.shape[axis + 1 :])
    result = np.empty(x.shape, dtype)
    within, rest = result[_part(axis, 0, whole)].reshape(split), result[_part(axis, whole, n)]
    ufunc.accumulate(x[_part(axis, 0, whole)].reshape(split), axis + 1, dtype, within)
    last: _AnyArray = np.take(within, -1, axis + 1)
    totals = accumulate(ufunc, last, axis)
    later = within[_part(axis, 1, None)]
    ufunc(np.expand_dims(totals[_part(axis, 0, -1)], axis + 1), later, out=later)
    if whole < n:
        ufunc.accumulate(x[_part(axis, whole, n)], axis, dtype, rest)
        ufunc(totals[_part(axis, -1, None)], rest, out=rest)
    return result


def terms_at_once(rows: int, columns: int) -> int:
    """The number of products that are added one after the other in a product of matrices."""
    return _PIECE if 1 < rows * columns <= _SMALL_PRODUCT else _TERMS


def multiply_in_pieces(
    multiply: Callable[[_AnyArray, _AnyArray], _AnyArray],
    batch: int,
    terms: int,
    a: _AnyArray,
    b: _AnyArray,
) -> _AnyArray:
    """A product of matrices or vectors with many terms: the sum of products of pieces.

    Args:
      multiply: the product of two such operands, by BLAS.
      batch: the number of batch dimensions.
      terms: the number of terms of a piece.
      a: the left operand, whose last dimension is contracted.
      b: the right operand; its dimension after the batch dimensions is contracted.
    """
    k = a.shape[-1]
    elements = math.prod(a.shape[:-1]) * math.prod(b.shape[batch + 1 :])
    most = max(1, _PARTIAL // max(elements, 1))
    sums: list[tuple[int, _AnyArray]] = []
    whole = k // terms * terms
    for start in range(0, whole, most * terms):
        stop = min(whole, start + most * terms)
        x, y = a[..., start:stop], b[_part(batch, start, stop)]
        _push(sums, _sum_of_pieces(multiply, batch, terms, x, y))
    if whole < k:
        _push(sums, multiply(a[..., whole:], b[_part(batch, whole, k)]))
    total = sums.pop()[1]
    while sums:
        total = sums.pop()[1] + total
    return total


def _push(sums: list[tuple[int, _AnyArray]], value: _AnyArray) -> None:
    """Add a term to partial sums, each of which has twice as many terms as the next one."""
    terms = 1
    while sums and sums[-1][0] == terms:
        value = sums.pop()[1] + value
        terms *= 2
    sums.append((terms, value))


def _sum_of_pieces(
    multiply: Callable[[_AnyArray, _AnyArray], _AnyArray],
    batch: int,
    terms: int,
    a: _AnyArray,
    b: _AnyArray,
) -> _AnyArray:
    pieces = a.shape[-1] // terms
    if pieces == 1:
        return multiply(a, b)
    lhs = np.moveaxis(a.reshape(*a.shape[:-1], pieces, terms), -2, 0)
    rhs = np.moveaxis(b.reshape(*b.shape[:batch], pieces, terms, *b.shape[batch + 1 :]), batch, 0)
    if not batch:
        # Vectors become matrices, which `numpy.matmul` multiplies one by one.
        is_row, is_column = lhs.ndim == 2, rhs.ndim == 2
        lhs = lhs[:, None] if is_row else lhs
        rhs = rhs[..., None] if is_column else rhs
        products = np.matmul(lhs, rhs)
        products = products[..., 0] if is_column else products
        products = products[:, 0] if is_row else products
    else:
        products = np.matmul(lhs, rhs)
    return np.asarray(reduce_sum(products, 0))
