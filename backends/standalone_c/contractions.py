"""Products of matrices and convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.standalone_c.movements import remapped, splat
from gnomon.backends.standalone_c.scalars import converted
from gnomon.backends.standalone_c.types import literal, of_type
from gnomon.backends.standalone_c.values import Buffer, Flat, Index, Lazy, Stored, Value, flattened
from gnomon.dialects.attributes import DENSE
from gnomon.dialects.mlir import ir, stablehlo
from gnomon.dialects.types import TensorType, bfloat16, is_complex

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter, Operation

__all__ = ["CONTRACTIONS"]

_HALVES = (np.dtype(np.float16), bfloat16)


def _accumulated(result: np.dtype) -> np.dtype:
    """The dtype in which products are added up: that of the result, or a wider one."""
    if is_complex(result):
        raise UnsupportedOnTarget(f"there is no C code for it in {result}")
    if result == np.bool_:
        return np.dtype(np.int32)
    return np.dtype(np.float32) if result in _HALVES else result


def _as_dtype(value: Value, dtype: np.dtype) -> Value:
    """A value converted to a dtype."""
    source = value.type.dtype
    if source == dtype:
        return value

    def element(emitter: Emitter, index: Index | Flat) -> str:
        return converted(emitter, value.element(emitter, index), source, dtype)

    return Lazy(value.type.with_dtype(dtype), element, value.reads, value.is_flat)


def _ordered(value: Value, order: Sequence[int]) -> Value:
    """A value with its dimensions in another order."""
    if list(order) == list(range(len(order))):
        return value
    inverse = [list(order).index(d) for d in range(len(order))]
    shape = tuple(value.type.shape[d] for d in order)
    return remapped(value, value.type.with_shape(shape), lambda _, i: tuple(i[p] for p in inverse))


def _finish(emitter: Emitter, operation: Operation, sums: Buffer) -> list[Value]:
    """The result of an operation from sums in the dtype of its accumulation."""
    type_ = operation.type
    if sums.type.dtype == type_.dtype:
        return [Stored(sums, type_)]
    into = emitter.result(operation)
    emitter.compute(_as_dtype(Stored(sums, type_.with_dtype(sums.type.dtype)), type_.dtype), into)
    emitter.release(sums)
    return [Stored(into, type_)]


def _sums(emitter: Emitter, operation: Operation, dtype: np.dtype) -> Buffer:
    """The buffer in which an operation adds up its products."""
    if dtype == operation.type.dtype:
        return emitter.result(operation)
    return emitter.allocate(operation.type.with_dtype(dtype))


def _matmul(emitter: Emitter, dtype: np.dtype, arguments: str) -> None:
    """Call the function that adds the product of two matrices to a third."""
    kind = of_type(TensorType((), dtype)).stored
    emitter.helpers.add(f"gnomon_matmul_{kind}")
    emitter.line(f"gnomon_matmul_{kind}({arguments});")


def _dot_general(emitter: Emitter, operation: Operation) -> list[Value]:
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
    sums = _sums(emitter, operation, wide)
    emitter.compute(splat(operation.type.with_dtype(wide), literal(0, wide)), sums)
    if 0 in (batches, m, n, k):
        return _finish(emitter, operation, sums)
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
        emitter.in_memory(_ordered(left, order)) as a,
        emitter.in_memory(right if transposed else _ordered(right, rows)) as b,
        emitter.loops([batches], parallel=False) as (batch_index,),
    ):
        first = f"{a.buffer.pointer} + {batch_index} * {m * k}"
        second = f"{b.buffer.pointer} + {batch_index} * {k * n}"
        third = f"{sums.pointer} + {batch_index} * {m * n}"
        if transposed:
            kind = of_type(sums.type).stored
            emitter.helpers.add(f"gnomon_rows_{kind}")
            emitter.line(f"gnomon_rows_{kind}({n}, {k}, {first}, {second}, {third});")
        else:
            sizes = f"{m}, {n}, {k}, {first}, {steps[0]}, {steps[1]}, {second}, {third}"
            _matmul(emitter, wide, sizes)
    return _finish(emitter, operation, sums)


def _convolution(emitter: Emitter, operation: Operation) -> list[Value]:
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
    sums = _sums(emitter, operation, wide)
    emitter.compute(splat(type_.with_dtype(wide), literal(0, wide)), sums)
    if 0 in (type_.size, x.type.size, kernel.type.size):
        return _finish(emitter, operation, sums)
    parts = groups * batch_groups
    examples = x.type.shape[numbers.input_batch_dimension] // batch_groups
    per_part = outputs // parts
    m, k = math.prod(places), math.prod(window) * features
    order = [
        *numbers.kernel_spatial_dimensions,
        numbers.kernel_input_feature_dimension,
        numbers.kernel_output_feature_dimension,
    ]
    weights = _ordered(right, order)
    patches_type = TensorType((m, k), wide)
    product_type = TensorType((m, per_part), wide)
    rows_type = TensorType((k, per_part), wide)
    kind = of_type(sums.type).computed
    with (
        emitter.in_memory(left) as image,
        emitter.in_memory(weights) as matrix,
        emitter.scratch(patches_type) as patches,
        emitter.scratch(rows_type) as rows,
        emitter.scratch(product_type) as product,
        emitter.loops([parts], parallel=False) as (part,),
    ):
        column = f"{part} * {per_part}"
        with emitter.loops([k, per_part]) as (row, each):
            position = f"{row} * {per_part} + {each}"
            emitter.store(
                rows,
                position,
                emitter.load(matrix.buffer, f"{row} * {outputs} + {column} + {each}"),
            )
        with emitter.loops([examples], parallel=False) as (example,):
            with emitter.loops([*places, *window], parallel=False) as index:
                outer, inner = index[:rank], index[rank:]
                conditions, at = [], {}
                for d in range(rank):
                    step = inner[d] if not reverse[d] else f"({window[d] - 1} - {inner[d]})"
                    text = f"{outer[d]} * {strides[d]} + {step} * {dilation[d]} - ({low[d]})"
                    place = emitter.local("int64_t", text, "p")
                    if base[d] != 1:
                        conditions.append(f"{place} >= 0 && {place} % {base[d]} == 0")
                        place = emitter.local("int64_t", f"{place} / {base[d]}", "p")
                    size = x.type.shape[spatial[d]]
                    conditions.append(f"{place} >= 0 && {place} < {size}")
                    at[spatial[d]] = place
                inside = emitter.local("bool", " && ".join(conditions) or "true")
                row = flattened(outer, places)
                with emitter.loops([features]) as (feature,):
                    at[numbers.input_feature_dimension] = (
                        f"({feature} + {part} * {features})" if groups > 1 else feature
                    )
                    at[numbers.input_batch_dimension] = (
                        f"({example} + {part} * {examples})" if batch_groups > 1 else example
                    )
                    read = image.element(emitter, tuple(at[d] for d in range(rank + 2)))
                    position = f"{row} * {k} + {flattened(inner, window)} * {features} + {feature}"
                    emitter.store(patches, position, f"{inside} ? {read} : 0")
            emitter.line(f"memset({product.pointer}, 0, {product_type.size * wide.itemsize});")
            _matmul(
                emitter,
                wide,
                f"{m}, {per_part}, {k}, {patches.pointer}, {k}, 1, {rows.pointer}, "
                f"{product.pointer}",
            )
            with emitter.loops([*places, per_part]) as index:
                at = dict(zip(numbers.output_spatial_dimensions, index[:-1], strict=True))
                at[numbers.output_batch_dimension] = example
                at[numbers.output_feature_dimension] = f"({column} + {index[-1]})"
                position = f"{flattened(index[:-1], places)} * {per_part} + {index[-1]}"
                value = emitter.local(kind, emitter.load(product, position))
                target = flattened(tuple(at[d] for d in range(rank + 2)), type_.shape)
                emitter.store(sums, target, value)
    return _finish(emitter, operation, sums)


CONTRACTIONS: dict[str, Callable[[Emitter, Operation], Sequence[Value]]] = {
    "stablehlo.dot_general": _dot_general,
    "stablehlo.convolution": _convolution,
}
