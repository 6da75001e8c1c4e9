"""Products: dot, dot_general, einsum and convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.dialects.dot_algorithm import TF32, Algorithm
from gnomon.dialects.emit import convert, ops, transpose
from gnomon.dialects.mlir import ir, stablehlo
from gnomon.dialects.raising.source import RaiseError, Source, raises
from gnomon.dialects.types import element_dtype, is_floating, short_name, type_of

Dims = tuple[int, ...]


def _precision(source: Source) -> str:
    config = source.attribute("precision_config")
    words = [str(p).rpartition(" ")[2].rstrip(">").lower() for p in config or ()]
    return ",".join(dict.fromkeys(words)) if len(set(words)) < 2 else ",".join(words)


def _algorithm(source: Source) -> str | None:
    attribute = source.attribute("algorithm")
    # Products of integers are exact, whatever the algorithm.
    if attribute is None or not is_floating(type_of(source.operands[0]).dtype):
        return None
    algorithm = stablehlo.DotAlgorithm(attribute)

    def name(type_: ir.Type) -> str:
        return TF32 if str(type_) == TF32 else short_name(element_dtype(type_))

    return str(
        Algorithm(
            name(algorithm.lhs_precision_type),
            name(algorithm.rhs_precision_type),
            name(algorithm.accumulation_type),
            algorithm.lhs_component_count,
            algorithm.rhs_component_count,
            algorithm.num_primitive_operations,
            algorithm.allow_imprecise_accumulation,
        )
    )


def product(
    lhs: ir.Value,
    rhs: ir.Value,
    contracting: tuple[Dims, Dims],
    batch: tuple[Dims, Dims],
    dtype: np.dtype,
    precision: str = "default",
) -> ir.Value:
    """A contraction; operands of two dtypes are converted to the result's."""
    operands = [lhs, rhs]
    one_byte = all(
        is_floating(type_of(x).dtype) and type_of(x).dtype.itemsize == 1 for x in operands
    )
    if type_of(lhs).dtype != type_of(rhs).dtype and not one_byte:
        operands = [convert(x, dtype) for x in operands]
    result: ir.Value = ops.dot_general(
        *operands,
        lhs_contracting=contracting[0],
        rhs_contracting=contracting[1],
        lhs_batch=batch[0],
        rhs_batch=batch[1],
        dtype=dtype,
        precision=precision,
    )
    return result


@raises("dot_general")
def _dot_general(source: Source) -> ir.Value:
    numbers = stablehlo.DotDimensionNumbers(source.attribute("dot_dimension_numbers"))
    lhs, rhs = source.operands
    return product(
        lhs,
        rhs,
        (tuple(numbers.lhs_contracting_dimensions), tuple(numbers.rhs_contracting_dimensions)),
        (tuple(numbers.lhs_batching_dimensions), tuple(numbers.rhs_batching_dimensions)),
        source.type.dtype,
        _algorithm(source) or _precision(source) or "default",
    )


@raises("dot")
def _dot(source: Source) -> ir.Value:
    lhs, rhs = source.operands
    contracting = (type_of(lhs).rank - 1,), (0,)
    return product(
        lhs, rhs, contracting, ((), ()), source.type.dtype, _precision(source) or "default"
    )


@raises("einsum", "unary_einsum")
def _einsum(source: Source) -> ir.Value:
    """An einsum whose subscripts are single letters, none of them twice in one operand."""
    config = source.word("einsum_config")
    inputs, arrow, output = config.replace(" ", "").partition("->")
    subscripts = inputs.split(",")
    if not arrow or any(len(set(s)) < len(s) or not s.isalpha() for s in subscripts if s):
        raise RaiseError(f"the subscripts {config!r} are not distinct letters")
    if len(subscripts) == 1:
        (letters,) = subscripts
        summed = tuple(i for i, c in enumerate(letters) if c not in output)
        x = ops.reduce_sum(source.operand, axes=summed) if summed else source.operand
        kept = [c for c in letters if c in output]
        return transpose(x, [kept.index(c) for c in output])
    operands = []
    for x, own, other in zip(source.operands, subscripts, subscripts[::-1], strict=True):
        alone = tuple(i for i, c in enumerate(own) if c not in output and c not in other)
        operands.append(ops.reduce_sum(x, axes=alone) if alone else x)
    left, right = (
        [c for c in own if c in output or c in other]
        for own, other in ((subscripts[0], subscripts[1]), (subscripts[1], subscripts[0]))
    )
    both = [c for c in left if c in right]
    batch, contracted = [c for c in both if c in output], [c for c in both if c not in output]

    def dims(letters: list[str]) -> tuple[Dims, Dims]:
        return tuple(left.index(c) for c in letters), tuple(right.index(c) for c in letters)

    made = product(operands[0], operands[1], dims(contracted), dims(batch), source.type.dtype)
    order = [*batch, *(c for c in left if c not in both), *(c for c in right if c not in both)]
    return transpose(made, [order.index(c) for c in output])


@raises("convolution")
def _convolution(source: Source) -> ir.Value:
    return convolution(source, source.padding(_spatial_rank(source)))


def _spatial_rank(source: Source) -> int:
    return type_of(source.operands[0]).rank - 2


def convolution(source: Source, padding: tuple[tuple[int, int], ...]) -> ir.Value:
    """A convolution with the attributes of ``stablehlo.convolution`` and a padding."""
    numbers = stablehlo.ConvDimensionNumbers(source.attribute("dimension_numbers"))
    rank = _spatial_rank(source)
    ones = (1,) * rank
    lhs, rhs = source.operands[:2]
    kernel_dims = tuple(numbers.kernel_spatial_dimensions)
    reversal = source.flags("window_reversal", (False,) * rank)
    flipped = tuple(d for d, is_reversed in zip(kernel_dims, reversal, strict=True) if is_reversed)
    if flipped:
        rhs = ops.rev(rhs, dims=flipped)
    dtype = source.type.dtype
    if type_of(lhs).dtype != type_of(rhs).dtype:
        lhs, rhs = convert(lhs, dtype), convert(rhs, dtype)
    params: dict[str, Any] = {
        "lhs_spec": (
            numbers.input_batch_dimension,
            numbers.input_feature_dimension,
            *numbers.input_spatial_dimensions,
        ),
        "rhs_spec": (
            numbers.kernel_output_feature_dimension,
            numbers.kernel_input_feature_dimension,
            *kernel_dims,
        ),
        "out_spec": (
            numbers.output_batch_dimension,
            numbers.output_feature_dimension,
            *numbers.output_spatial_dimensions,
        ),
    }
    result: ir.Value = ops.conv_general_dilated(
        lhs,
        rhs,
        **params,
        window_strides=source.ints("window_strides", ones),
        padding=padding,
        lhs_dilation=source.ints("lhs_dilation", ones),
        rhs_dilation=source.ints("rhs_dilation", ones),
        feature_group_count=source.integer("feature_group_count", 1),
        batch_group_count=source.integer("batch_group_count", 1),
        dtype=dtype,
        precision=_precision(source) or "default",
    )
    return result
