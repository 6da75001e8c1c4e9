"""Ops whose sizes are operands: with static result types, they are those with attributes."""

from __future__ import annotations

import numpy as np

from gnomon.dialects.emit import constant_value, ops, reshape
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.contraction import convolution
from gnomon.dialects.raising.elementwise import iota
from gnomon.dialects.raising.indexing import gather
from gnomon.dialects.raising.source import RaiseError, Source, raises
from gnomon.dialects.raising.structural import broadcast


def literal(value: ir.Value, what: str) -> tuple[int, ...]:
    """The numbers of an operand that is a literal."""
    stored = constant_value(value)
    if stored is None:
        raise RaiseError(f"its {what} are computed, and the dialect takes them as literals")
    return tuple(int(n) for n in np.asarray(stored).reshape(-1))


@raises("dynamic_reshape")
def _dynamic_reshape(source: Source) -> ir.Value:
    return reshape(source.operands[0], source.type.shape)


@raises("dynamic_broadcast_in_dim")
def _dynamic_broadcast(source: Source) -> ir.Value:
    return broadcast(source.operands[0], source.type.shape, source.ints("broadcast_dimensions"))


@raises("dynamic_iota")
def _dynamic_iota(source: Source) -> ir.Value:
    return iota(source.type, source.integer("iota_dimension"))


@raises("dynamic_gather")
def _dynamic_gather(source: Source) -> ir.Value:
    return gather(source, literal(source.operands[2], "slice sizes"))


@raises("dynamic_pad")
def _dynamic_pad(source: Source) -> ir.Value:
    x, value, low, high, interior = source.operands
    padded: ir.Value = ops.pad(
        x,
        value,
        low=literal(low, "paddings"),
        high=literal(high, "paddings"),
        interior=literal(interior, "paddings"),
    )
    return padded


@raises("real_dynamic_slice")
def _real_dynamic_slice(source: Source) -> ir.Value:
    x, start, limit, strides = source.operands
    sliced: ir.Value = ops.slice(
        x,
        start=literal(start, "bounds"),
        limit=literal(limit, "bounds"),
        strides=literal(strides, "strides"),
    )
    return sliced


@raises("dynamic_conv")
def _dynamic_conv(source: Source) -> ir.Value:
    numbers = literal(source.operands[2], "paddings")
    return convolution(source, tuple(zip(numbers[::2], numbers[1::2], strict=True)))
