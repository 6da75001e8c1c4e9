"""Convolution in NumPy: lay out the windows as the rows of a matrix, and multiply (im2col).

Groups of either kind become a leading batch dimension of the product. The matrix of windows is
built for a part of the windows at a time, so that it stays in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gnomon.dialects.combinators import accumulator
from gnomon.dialects.convolution.geometry import Dims, Geometry, inverse, permuted
from gnomon.dialects.emit import ops
from gnomon.dialects.window_folds import dilated

# The maximum size in bytes of the matrix of windows.
_CHUNK_BYTES = 1 << 21
# The most products that are added one after the other.
_MAX_TERMS = 4096
# Up to this many convolutions of vectors are computed one by one.
_MAX_VECTOR_CONVOLUTIONS = 64


def evaluate(
    lhs: np.ndarray, rhs: np.ndarray, *, dtype: np.dtype, precision: str, **params: Any
) -> np.ndarray:
    """Evaluate the op; see `conv_general_dilated`."""
    geometry = Geometry.of(params)
    shape = geometry.out_shape(lhs.shape, rhs.shape)
    if 0 in shape or geometry.terms(rhs.shape) == 0 or 0 in lhs.shape:
        return np.zeros(shape, dtype)
    x, w = _grouped(geometry, lhs, rhs)
    x = _spread(geometry, x)
    if _is_of_vectors(geometry, x, w):
        return _of_vectors(geometry, x, w, shape, np.dtype(dtype))
    return _by_products(geometry, x, w, shape, np.dtype(dtype))


def _grouped(geometry: Geometry, lhs: np.ndarray, rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Views ``[group, batch, feature, *spatial]`` and ``[group, out, feature, *spatial]``."""
    groups, by_batch = geometry.groups, geometry.batch_group_count > 1
    x, w = lhs.transpose(geometry.lhs_spec), rhs.transpose(geometry.rhs_spec)
    batch, features, *sizes = x.shape
    if by_batch:
        x = x.reshape(groups, batch // groups, features, *sizes)
    else:
        x = x.reshape(batch, groups, features // groups, *sizes).swapaxes(0, 1)
    return x, w.reshape(groups, -1, *w.shape[1:])


def _spread(geometry: Geometry, x: np.ndarray) -> np.ndarray:
    """Dilate and pad the left operand with zeros; negative padding crops it."""
    if all(pads == (0, 0) for pads in geometry.padding) and set(geometry.lhs_dilation) <= {1}:
        return x
    source: list[slice] = [slice(None)] * 3
    target: list[slice] = [slice(None)] * 3
    shape = list(x.shape[:3])
    for size, (low, high), step in zip(
        x.shape[3:], geometry.padding, geometry.lhs_dilation, strict=True
    ):
        total = dilated(size, step) + low + high
        first = max(0, -(low // step))  # the first element at or after 0
        last = min(size, (total - 1 - low) // step + 1)  # one past the last element in bounds
        last = max(first, last)
        source.append(slice(first, last))
        start = low + first * step
        target.append(slice(start, start + dilated(last - first, step), step))
        shape.append(total)
    cut = x[tuple(source)]
    if cut.shape == tuple(shape):
        return cut
    # Keep the order of dimensions in memory, because windows are read in that order.
    order = _memory_order(x)
    out = np.zeros(permuted(tuple(shape), order), x.dtype).transpose(inverse(order))
    out[tuple(target)] = cut
    return out


def _memory_order(x: np.ndarray) -> Dims:
    return tuple(sorted(range(x.ndim), key=lambda d: (-abs(x.strides[d]), d)))


def _windows(geometry: Geometry, x: np.ndarray, kernel: Dims, out: Dims) -> np.ndarray:
    """A view ``[group, batch, feature, *kernel, *out]``."""
    steps = x.strides[3:]
    # NumPy's array interface does not support all one-byte dtypes.
    windows = as_strided(
        x.view(np.uint8) if x.dtype.itemsize == 1 else x,
        (*x.shape[:3], *kernel, *out),
        (
            *x.strides[:3],
            *(s * d for s, d in zip(steps, geometry.rhs_dilation, strict=True)),
            *(s * d for s, d in zip(steps, geometry.window_strides, strict=True)),
        ),
        writeable=False,
    )
    return windows.view(x.dtype)


def _is_of_vectors(geometry: Geometry, x: np.ndarray, w: np.ndarray) -> bool:
    """Whether the op consists of a few plain convolutions of two vectors."""
    if geometry.rank != 1 or geometry.rhs_dilation != (1,):
        return False
    return w.shape[1] == w.shape[2] == 1 and x.shape[0] * x.shape[1] <= _MAX_VECTOR_CONVOLUTIONS


def _of_vectors(
    geometry: Geometry, x: np.ndarray, w: np.ndarray, shape: Dims, dtype: np.dtype
) -> np.ndarray:
    """Convolve with np.convolve, which needs no matrix of windows."""
    groups, batch = x.shape[:2]
    work = np.promote_types(accumulator(x.dtype), accumulator(dtype))
    (stride,) = geometry.window_strides
    size = permuted(shape, geometry.out_spec)[2]
    result = np.empty((batch, groups, size), dtype)
    for g, n in np.ndindex(groups, batch):
        signal, kernel = x[g, n, 0].astype(work), w[g, 0, 0, ::-1].astype(work)
        result[n, g] = _convolve(signal, kernel)[::stride]
    return result.transpose(inverse(geometry.out_spec))


def _convolve(signal: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """`numpy.convolve`, which adds the products in order, by halves of a long kernel."""
    n = len(kernel)
    if n <= _MAX_TERMS:
        return np.convolve(signal, kernel, "valid")
    half = n // 2
    first = _convolve(signal[n - half :], kernel[:half])
    return first + _convolve(signal[: len(signal) - half], kernel[half:])


def _by_products(
    geometry: Geometry, x: np.ndarray, w: np.ndarray, shape: Dims, dtype: np.dtype
) -> np.ndarray:
    rank, groups = geometry.rank, geometry.groups
    kernel, sizes = w.shape[3:], permuted(shape, geometry.out_spec)[2:]
    windows = _windows(geometry, x, kernel, sizes)
    batch, out_features = x.shape[1], w.shape[1]

    # The dimensions `columns` number the windows, and the dimensions `terms` the elements of one.
    # Both keep their order in memory; those that are closer in memory run along the matrix's rows.
    strides = windows.strides
    terms = sorted((2, *range(3, 3 + rank)), key=lambda d: -strides[d])
    columns = sorted((1, *range(3 + rank, 3 + 2 * rank)), key=lambda d: -strides[d])
    rows_are_windows = _run(windows, terms) > _run(windows, columns)
    order = (0, *columns, *terms) if rows_are_windows else (0, *terms, *columns)
    windows = windows.transpose(order)
    depth = math.prod(w.shape[2:])
    if rows_are_windows:
        weights = w.transpose((0, *terms, 1)).reshape(groups, depth, out_features)
    else:
        weights = w.transpose((0, 1, *terms)).reshape(groups, out_features, depth)

    # The result has the windows' order in memory and is filled along its first dimension.
    column_sizes = [(batch, *sizes)[0 if d == 1 else d - 2 - rank] for d in columns]
    at = 1 if rows_are_windows else 2
    result_shape = [groups, *column_sizes]
    result_shape.insert(len(result_shape) if rows_are_windows else 1, out_features)
    result = np.empty(result_shape, dtype)
    along = 1 if rows_are_windows else 1 + len(terms)
    step = max(1, _CHUNK_BYTES * column_sizes[0] // (windows.size * x.itemsize))
    for start in range(0, column_sizes[0], step):
        part = windows[(slice(None),) * along + (slice(start, start + step),)]
        target = result[(slice(None),) * at + (slice(start, start + step),)]
        count = part.size // (groups * depth)
        if rows_are_windows:
            products = _matmul(part.reshape(groups, count, depth), weights, dtype)
        else:
            products = _matmul(weights, part.reshape(groups, depth, count), dtype)
        target[...] = products.reshape(target.shape)

    # [group, *columns, out] or [group, out, *columns] -> [batch, (group, out), *spatial].
    places = [*columns, 2] if rows_are_windows else [2, *columns]
    canonical = [places.index(d) + 1 for d in (1, 2, *range(3 + rank, 3 + 2 * rank))]
    ordered = result.transpose((canonical[0], 0, *canonical[1:]))
    merged = ordered.reshape(batch, groups * out_features, *sizes)
    return merged.transpose(inverse(geometry.out_spec))


def _run(x: np.ndarray, dims: Sequence[int]) -> tuple[int, int]:
    """A measure of how close in memory the elements along dimensions are; larger is closer."""
    strides = [(-x.strides[d], x.shape[d]) for d in dims if x.shape[d] > 1]
    return max(strides, default=(-x.itemsize * x.size - 1, 0))


def _matmul(a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Multiply batches of matrices as `dot_general` does; a batch of one is a plain product."""
    params = {"dtype": dtype, "precision": "default"}
    if len(a) == 1:
        return ops.dot_general.evaluate(
            a[0], b[0], lhs_contracting=(1,), rhs_contracting=(0,), lhs_batch=(), rhs_batch=(),
            **params,
        )[None]  # fmt: skip
    return ops.dot_general.evaluate(
        a, b, lhs_contracting=(2,), rhs_contracting=(1,), lhs_batch=(0,), rhs_batch=(0,), **params
    )
