"""Ops without operands: literals, sizes and index ramps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import DENSE, DTYPE, INT, INTS
from gnomon.dialects.combinators import (
    Values,
    require,
    require_dtype,
    stablehlo,
    stablehlo_constant,
)
from gnomon.dialects.contract import (
    NOT_LINEAR,
    ZERO_TANGENT,
    Instance,
    MappedAxis,
    Op,
    TypeRuleError,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.sized_forms import current_sizes
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.dialects.traits import Form
from gnomon.dialects.types import INTEGER, NUMERIC, TensorType, is_complex, real_dtype, short_name


def _batch_nothing(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    """Copy an op without operands, which is never batched."""
    return inst.op.build([], inst.params), [None]


def _creation(**facets: Any) -> Op:
    """Declare an op without operands: its tangent is zero, and it is never batched."""
    return Op(
        operands=(),
        form=Form.CREATION,
        work=work_rules.nothing,
        jvp=ZERO_TANGENT,
        transpose=NOT_LINEAR,
        batch=_batch_nothing,
        sharding=sharding_rules.creation,
        **facets,
    )


# ---------------------------------------------------------------------------------------- constant


def _infer_constant(*, value: np.ndarray, dtype: np.dtype) -> TensorType:
    stored = real_dtype(dtype)
    if value.dtype != stored:
        raise TypeRuleError(
            f"gnomon.constant: the value of a {short_name(dtype)} constant is stored as "
            f"{short_name(stored)}, got {short_name(value.dtype)}"
        )
    if not is_complex(dtype):
        return TensorType(value.shape, dtype)
    require(
        value.ndim > 0 and value.shape[-1] == 2,
        "constant",
        "a complex value is stored as pairs (real, imaginary) in a trailing dimension of size 2, "
        f"got shape {value.shape}",
    )
    return TensorType(value.shape[:-1], dtype)


def _evaluate_constant(*, value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if not is_complex(dtype):
        return value
    return np.ascontiguousarray(value).view(dtype)[..., 0]


constant = _creation(
    name="constant",
    doc="a literal array; complex values are stored as pairs in a trailing dimension of size 2",
    example='%r = "gnomon.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>, dtype = f32} '
    ": () -> tensor<2xf32>",
    attributes={"value": DENSE, "dtype": DTYPE},
    infer=_infer_constant,
    evaluate=_evaluate_constant,
    stablehlo=("constant",),
    lower=lambda inst: [stablehlo_constant(_evaluate_constant(**inst.params))],
)


# --------------------------------------------------------------------------------------- dimension


def _infer_dimension(*, size: int, dtype: np.dtype) -> TensorType:
    type_ = TensorType((), np.dtype(dtype))
    require_dtype("dimension", type_, INTEGER)
    return type_


def _evaluate_dimension(*, size: int, dtype: np.dtype) -> np.ndarray:
    return np.asarray(size).astype(dtype)


def _lower_dimension(inst: Instance) -> list[ir.Value]:
    size, dtype = inst.params["size"], inst.params["dtype"]
    if not is_symbolic_dim(size):
        return [stablehlo_constant(_evaluate_dimension(size=size, dtype=dtype))]
    value = current_sizes().scalar(size)
    return stablehlo("convert", [value], inst.result_types)


dimension = _creation(
    name="dimension",
    doc="a size as a number; it may be symbolic while a function is traced",
    example='%r = "gnomon.dimension"() {size = 4 : i64, dtype = i32} : () -> tensor<i32>',
    attributes={"size": INT, "dtype": DTYPE},
    infer=_infer_dimension,
    evaluate=_evaluate_dimension,
    lower=_lower_dimension,
)


# -------------------------------------------------------------------------------------------- iota


def _infer_iota(*, dtype: np.dtype, shape: tuple[int, ...], dimension: int) -> TensorType:
    type_ = TensorType(tuple(shape), np.dtype(dtype))
    require_dtype("iota", type_, NUMERIC)
    require(all(n >= 0 for n in shape), "iota", f"shape {shape} has a negative size")
    require(
        0 <= dimension < len(shape),
        "iota",
        f"dimension {dimension} is out of range for shape {shape} of rank {len(shape)}",
    )
    return type_


def _evaluate_iota(*, dtype: np.dtype, shape: tuple[int, ...], dimension: int) -> np.ndarray:
    # Count in integers and convert once: NumPy's float ramps accumulate rounding errors.
    ramp = np.arange(shape[dimension]).astype(dtype)
    if len(shape) == 1:
        return ramp
    result = np.empty(shape, dtype)
    result[...] = ramp.reshape((-1,) + (1,) * (len(shape) - 1 - dimension))
    return result


def _lower_iota(inst: Instance) -> list[ir.Value]:
    attribute: Any = INT.encode(inst.params["dimension"])
    return stablehlo("iota", [], inst.result_types, iota_dimension=attribute)


iota = _creation(
    name="iota",
    doc="0, 1, 2, ... along one dimension, broadcast along the others",
    example='%r = "gnomon.iota"() {dtype = i32, shape = array<i64: 2, 3>, dimension = 1 : i64} '
    ": () -> tensor<2x3xi32>",
    attributes={"dtype": DTYPE, "shape": INTS, "dimension": INT},
    infer=_infer_iota,
    evaluate=_evaluate_iota,
    stablehlo=("iota",),
    lower=_lower_iota,
)
