"""Products of matrices and convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.kernels.arithmetic import converted, only
from gnomon.backends.kernels.code import Element, Place
from gnomon.backends.kernels.movements import filled, remapped
from gnomon.backends.kernels.products import Matrix, add_product, add_rows
from gnomon.backends.kernels.types import kind_of
from gnomon.backends.kernels.values import Buffer, Flat, Index, Lazy, Stored, Value, flattened
from gnomon.backends.kernels.windows import place_in_windows
from gnomon.dialects.attributes import DENSE
from gnomon.dialects.mlir import ir, stablehlo
from gnomon.dialects.types import TensorType, is_complex

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder, Operation

__all__ = ["CONTRACTIONS"]


def _accumulated(result: np.dtype) -> np.dtype:
    """The dtype in which products are added up: that of the result, or a wider one."""
    if is_complex(result):
        raise UnsupportedOnTarget(f"there is no kernel for it in {result}")
    if result == np.bool_:
        return np.dtype(np.int32)
    return np.dtype(np.float32) if kind_of(result).is_half else result


def _as_dtype(value: Value, dtype: np.dtype) -> Value:
    """A value converted to a dtype."""
    source = value.type.dtype
    if source == dtype:
        return value

    def element(builder: Builder, index: Index | Flat) -> Element:
        return converted(builder.code, value.element(builder, index), source, dtype)

    return Lazy(value.type.with_dtype(dtype), element, value.reads, value.is_flat)


def _ordered(value: Value, order: Sequence[int]) -> Value:
    """A value with its dimensions in another order."""
    if list(order) == list(range(len(order))):
        return value
    inverse = [list(order).index(d) for d in range(len(order))]
    shape = tuple(value.type.shape[d] for d in order)
    return remapped(value, value.type.with_shape(shape), lambda _, i: tuple(i[p] for p in inverse))


def _finish(builder: Builder, operation: Operation, sums: Buffer) -> list[Value]:
    """The result of an operation from sums in the dtype of its accumulation."""
    type_ = operation.type
    if sums.type.dtype == type_.dtype:
        return [Stored(sums, type_)]
    into = builder.result(operation)
    builder.compute(_as_dtype(Stored(sums, type_.with_dtype(sums.type.dtype)), type_.dtype), into)
    builder.release(sums)
    return [Stored(into, type_)]


def _sums(builder: Builder, operation: Operation, dtype: np.dtype) -> Buffer:
    """The buffer in which an operation adds up its products."""
    if dtype == operation.type.dtype:
        return builder.result(operation)
    return builder.allocate(operation.type.with_dtype(dtype))


def _dot_general(builder: Builder, operation: Operation) -> list[Value]:
    lhs, rhs = operation.operands
    numbers = stablehlo.DotDimensionNumbers(operation.attribute("dot_dimension_numbers"))
    batch = list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)
    inner = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    free = [
        [d for d in range(x.type.rank) if d not in b and d not in c]
        for x, b, c in zip((lhs, rhs), batch, inner, strict=True)
    ]
    wide = _accumulated(operation.type.dtype)
    batches = math.prod(lhs.type.shape[d] for d in batch[0])
    k = math.prod(lhs.type.shape[d] for d in inner[0])
    m, n = (
        math.prod(x.type.shape[d] for d in dims) for x, dims in zip((lhs, rhs), free, strict=True)
    )
    sums = _sums(builder, operation, wide)
    builder.compute(filled(builder, sums.type, 0), sums)
    if 0 in (batches, m, n, k):
        return _finish(builder, operation, sums)
    left, right = _as_dtype(lhs, wide), _as_dtype(rhs, wide)
    # The inner loop runs along the columns of the right matrix. If there is only one column, the
    # transposes are multiplied.
    if n == 1:
        left, right, m, n = right, left, n, m
        batch, inner, free = batch[::-1], inner[::-1], free[::-1]
    by_rows = [*batch[0], *free[0], *inner[0]]
    columns_first = [*batch[0], *inner[0], *free[0]]
    rows = [*batch[1], *inner[1], *free[1]]
    transposed = m == 1 and [*batch[1], *free[1], *inner[1]] == list(range(right.type.rank))
    if isinstance(left, Stored) and columns_first == list(range(left.type.rank)):
        order, steps = columns_first, (1, m)
    else:
        order, steps = by_rows, (k, 1)
    with (
        builder.in_memory(_ordered(left, order)) as a,
        builder.in_memory(right if transposed else _ordered(right, rows)) as b,
        builder.code.loops([batches], independent=False) as (batch_index,),
    ):
        code = builder.code
        first, second, third = (code.times(batch_index, size) for size in (m * k, k * n, m * n))
        total = Matrix(sums, third, n)
        if transposed:
            add_rows(code, n, k, Matrix(a.buffer, first, k), Matrix(b.buffer, second, k), total)
        else:
            factors = Matrix(a.buffer, first, *steps), Matrix(b.buffer, second, n)
            add_product(code, (m, n, k), *factors, total)
    return _finish(builder, operation, sums)


def _convolution(builder: Builder, operation: Operation) -> list[Value]:
    """A product of the kernel with the patches of each example."""
    x, kernel = operation.operands
    type_ = operation.type
    numbers = stablehlo.ConvDimensionNumbers(operation.attribute("dimension_numbers"))
    spatial = list(numbers.input_spatial_dimensions)
    rank = len(spatial)
    ones = (1,) * rank
    strides = operation.integers("window_strides", ones)
    base = operation.integers("lhs_dilation", ones)
    dilation = operation.integers("rhs_dilation", ones)
    padding = operation.attribute("padding")
    low = [0] * rank if padding is None else [int(p) for p in DENSE.decode(padding)[:, 0]]
    flags = operation.attribute("window_reversal")
    reverse = [False] * rank if flags is None else [bool(f) for f in flags]
    groups, batch_groups = (
        ir.IntegerAttr(operation.attribute(f"{name}_group_count")).value
        for name in ("feature", "batch")
    )
    wide = _accumulated(type_.dtype)
    left, right = _as_dtype(x, wide), _as_dtype(kernel, wide)
    window = [kernel.type.shape[d] for d in numbers.kernel_spatial_dimensions]
    places = [type_.shape[d] for d in numbers.output_spatial_dimensions]
    features = kernel.type.shape[numbers.kernel_input_feature_dimension]
    outputs = kernel.type.shape[numbers.kernel_output_feature_dimension]
    sums = _sums(builder, operation, wide)
    builder.compute(filled(builder, sums.type, 0), sums)
    if 0 in (type_.size, x.type.size, kernel.type.size):
        return _finish(builder, operation, sums)
    parts = groups * batch_groups
    examples = x.type.shape[numbers.input_batch_dimension] // batch_groups
    per_part = outputs // parts
    m, k = math.prod(places), math.prod(window) * features
    dimensions = list(zip(window, strides, base, dilation, low, strict=True))
    sizes = [x.type.shape[d] for d in spatial]
    order = [
        *numbers.kernel_spatial_dimensions,
        numbers.kernel_input_feature_dimension,
        numbers.kernel_output_feature_dimension,
    ]
    weights = _ordered(right, order)
    patches_type = TensorType((m, k), wide)
    product_type = TensorType((m, per_part), wide)
    rows_type = TensorType((k, per_part), wide)
    code = builder.code
    with (
        builder.in_memory(left) as image,
        builder.in_memory(weights) as matrix,
        builder.scratch(patches_type) as patches,
        builder.scratch(rows_type) as rows,
        builder.scratch(product_type) as product,
        code.loops([parts], independent=False) as (part,),
    ):
        column = code.times(part, per_part)
        with code.loops([k, per_part]) as (row, each):
            place = code.plus(code.times(row, outputs), code.plus(column, each))
            to = code.plus(code.times(row, per_part), each)
            builder.store(rows, to, builder.load(matrix.buffer, place))
        with code.loops([examples], independent=False) as (example,):
            with code.loops([*places, *window], independent=False) as index:
                outer, inner = index[:rank], index[rank:]
                turned = [
                    code.minus(n - 1, i) if back else i
                    for n, i, back in zip(window, inner, reverse, strict=True)
                ]
                found, inside = place_in_windows(builder, outer, turned, dimensions, places, sizes)
                at: dict[int, Place] = dict(zip(spatial, found, strict=True))
                # Beside the image, its first element is read and replaced.
                if inside.known is None:
                    at = {d: code.select(inside, code.at(p), code.at(0)) for d, p in at.items()}
                row = flattened(code, outer, places)
                with code.loops([features]) as (feature,):
                    of_part = code.plus(feature, code.times(part, features))
                    at[numbers.input_feature_dimension] = of_part if groups > 1 else feature
                    of_part = code.plus(example, code.times(part, examples))
                    at[numbers.input_batch_dimension] = of_part if batch_groups > 1 else example
                    read = only(image.element(builder, tuple(at[d] for d in range(rank + 2))))
                    of_window = code.times(flattened(code, inner, window), features)
                    position = code.plus(code.plus(code.times(row, k), of_window), feature)
                    zero = only(filled(builder, patches.type, 0).element(builder, ()))
                    builder.store(patches, position, code.select(inside, read, zero))
            builder.compute(filled(builder, product.type, 0), product)
            factors = Matrix(patches, 0, k), Matrix(rows, 0, per_part)
            add_product(code, (m, per_part, k), *factors, Matrix(product, 0, per_part))
            with code.loops([*places, per_part]) as index:
                at = dict(zip(numbers.output_spatial_dimensions, index[:-1], strict=True))
                at[numbers.output_batch_dimension] = example
                at[numbers.output_feature_dimension] = code.plus(column, index[-1])
                row = code.times(flattened(code, index[:-1], places), per_part)
                value = builder.load(product, code.plus(row, index[-1]))
                to = flattened(code, tuple(at[d] for d in range(rank + 2)), type_.shape)
                builder.store(sums, to, value)
    return _finish(builder, operation, sums)


CONTRACTIONS: dict[str, Callable[[Builder, Operation], Sequence[Value]]] = {
    "stablehlo.dot_general": _dot_general,
    "stablehlo.convolution": _convolution,
}
