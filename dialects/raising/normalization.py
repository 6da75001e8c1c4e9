"""Batch normalization, by its definition in StableHLO's specification."""

from __future__ import annotations

import numpy as np

from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.source import Source, raises
from gnomon.dialects.raising.structural import broadcast
from gnomon.dialects.types import TensorType, type_of


class _Features:
    """The dimension of the features of an operand, and the rest of them."""

    def __init__(self, source: Source) -> None:
        self.type: TensorType = type_of(source.operands[0])
        self.dimension = source.integer("feature_index")
        self.axes = tuple(d for d in range(self.type.rank) if d != self.dimension)
        self.epsilon = source.number("epsilon")

    @property
    def count(self) -> int:
        """The number of elements of each feature."""
        return int(np.prod([self.type.shape[d] for d in self.axes], dtype=np.int64))

    def spread(self, x: ir.Value) -> ir.Value:
        """Broadcast a value of each feature to the operand's shape."""
        return broadcast(x, self.type.shape, (self.dimension,))

    def mean(self, x: ir.Value) -> ir.Value:
        """The mean of each feature."""
        total = ops.reduce_sum(x, axes=self.axes)
        return ops.div(total, full_like(total, self.count))

    def deviation(self, variance: ir.Value) -> ir.Value:
        """The standard deviation, away from zero."""
        return ops.sqrt(ops.add(variance, full_like(variance, self.epsilon)))


def _normalized(
    features: _Features,
    x: ir.Value,
    scale: ir.Value,
    offset: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
) -> ir.Value:
    centered = ops.sub(x, features.spread(mean))
    divisor = features.spread(features.deviation(variance))
    scaled = ops.mul(features.spread(scale), ops.div(centered, divisor))
    return ops.add(scaled, features.spread(offset))


@raises("batch_norm_inference")
def _inference(source: Source) -> ir.Value:
    x, scale, offset, mean, variance = source.operands
    return _normalized(_Features(source), x, scale, offset, mean, variance)


@raises("batch_norm_training")
def _training(source: Source) -> list[ir.Value]:
    x, scale, offset = source.operands
    features = _Features(source)
    mean = features.mean(x)
    centered = ops.sub(x, features.spread(mean))
    variance = features.mean(ops.mul(centered, centered))
    return [_normalized(features, x, scale, offset, mean, variance), mean, variance]


@raises("batch_norm_grad")
def _grad(source: Source) -> list[ir.Value]:
    x, scale, mean, variance, ct = source.operands
    features = _Features(source)
    divisor = features.deviation(variance)
    centered = ops.sub(x, features.spread(mean))
    offset_ct = ops.reduce_sum(ct, axes=features.axes)
    product = ops.reduce_sum(ops.mul(ct, centered), axes=features.axes)
    scale_ct = ops.div(product, divisor)
    count = full_like(ct, features.count)
    squared = features.spread(ops.add(variance, full_like(variance, features.epsilon)))
    shared = ops.div(ops.mul(centered, features.spread(product)), squared)
    total = ops.sub(ops.sub(ops.mul(ct, count), features.spread(offset_ct)), shared)
    factor = ops.div(features.spread(ops.div(scale, divisor)), count)
    return [convert(ops.mul(factor, total), type_of(x).dtype), scale_ct, offset_ct]
