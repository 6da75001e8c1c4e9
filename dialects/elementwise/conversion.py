"""Changes of representation: dtype conversions, parts of complex numbers."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from gnomon.dialects.attributes import DTYPE
from gnomon.dialects.combinators import Tangents, Values, nary, stablehlo, unary, binary, jvp_linear
from gnomon.dialects.contract import ZERO_TANGENT, Instance
from gnomon.dialects.elementwise.comparison import stablehlo_compare
from gnomon.dialects.emit import convert as emit_convert
from gnomon.dialects.emit import ops, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import (
    ANY,
    BOOL,
    COMPLEX,
    INEXACT,
    TensorType,
    bfloat16,
    is_complex,
    is_floating,
    is_inexact,
    is_integer,
    mlir_type,
    real_dtype,
)

# ----------------------------------------------------------------------------------------- convert


def _evaluate_convert(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if x.dtype == dtype:
        return x
    if is_complex(x.dtype) and not is_complex(dtype) and dtype != BOOL:
        x = x.real
    if is_floating(x.dtype) and is_integer(dtype):
        return _saturate(x, dtype)
    return x.astype(dtype)


def _saturate(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Float to integer as XLA does it: towards zero, out of range to the ends, nan to 0."""
    wide = x.astype(np.float64)
    info = ml_dtypes.iinfo(dtype)
    low, high = float(info.min), float(info.max)
    inside = (wide > low) & (wide < high)
    converted = np.where(inside, wide, 0).astype(dtype)
    ends = np.where(wide >= high, np.array(info.max, dtype), np.array(info.min, dtype))
    ends = np.where(np.isnan(wide), np.array(0, dtype), ends)
    return np.where(inside, converted, ends)


def _jvp_convert(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    dtype = inst.params["dtype"]
    return [emit_convert(tangents[0], dtype) if is_inexact(dtype) else None]


def _lower_convert(inst: Instance) -> list[ir.Value]:
    x, (type_,), result = inst.operand, inst.operand_types, inst.type
    if type_.dtype == result.dtype:
        return [x]
    if result.dtype == BOOL:
        (zero,) = stablehlo("convert", [_lower_zero(type_.shape)], [type_])
        return [stablehlo_compare("NE", x, zero)]
    if is_complex(type_.dtype) and not is_complex(result.dtype):
        type_ = type_.with_dtype(real_dtype(type_.dtype))
        (x,) = stablehlo("real", [x], [type_])
    if type_.dtype == result.dtype:
        return [x]
    return stablehlo("convert", [x], [result])


def _lower_zero(shape: tuple[int, ...]) -> ir.Value:
    type_ = mlir_type(TensorType(shape, np.dtype(np.int32)))
    zero = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0)
    (value,) = ir.Operation.create(
        "stablehlo.constant",
        results=[type_],
        attributes={"value": ir.DenseElementsAttr.get_splat(type_, zero)},
    ).results
    return value


convert = unary(
    "convert",
    doc="x as another dtype: to integers towards zero and saturating (nan gives 0), to bool x != 0, "
    "complex to real the real part",
    dtypes=ANY,
    evaluate=_evaluate_convert,
    rule=_jvp_convert,
    transpose=lambda inst, cts, linear: [emit_convert(cts[0], inst.operand_types[0].dtype)],
    lower=_lower_convert,
    result_dtype=lambda x, dtype: dtype,
    attributes={"dtype": DTYPE},
    example='%r = "gnomon.convert"(%x) {dtype = i32} : (tensor<4xf32>) -> tensor<4xi32>',
)
real = unary(
    "real",
    doc="the real part",
    dtypes=COMPLEX,
    evaluate=np.real,
    rule=jvp_linear,
    transpose=lambda inst, cts, linear: [ops.complex(cts[0], zeros(inst.type))],
    lower="real",
    result_dtype=real_dtype,
    example='%r = "gnomon.real"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>',
)
imag = unary(
    "imag",
    doc="the imaginary part",
    dtypes=COMPLEX,
    evaluate=np.imag,
    rule=jvp_linear,
    transpose=lambda inst, cts, linear: [ops.complex(zeros(inst.type), ops.neg(cts[0]))],
    lower="imag",
    result_dtype=real_dtype,
    example='%r = "gnomon.imag"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>',
)
PARTS = tuple(real_dtype(d) for d in COMPLEX)


def _complex_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.complex64 if dtype == np.float32 else np.complex128)


def _evaluate_complex(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    result = np.empty(x.shape, _complex_dtype(x.dtype))
    result.real, result.imag = x, y
    return result


complex_ = binary(
    "complex",
    doc="the complex number x + iy",
    dtypes=PARTS,
    evaluate=_evaluate_complex,
    rule=jvp_linear,
    transpose=lambda inst, cts, linear: [
        ops.real(cts[0]) if linear[0] else None,
        ops.neg(ops.imag(cts[0])) if linear[1] else None,
    ],
    lower="complex",
    result_dtype=_complex_dtype,
    example='%r = "gnomon.complex"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) '
    "-> tensor<4xcomplex<f32>>",
)


def _lower_conj(inst: Instance) -> list[ir.Value]:
    type_ = inst.type
    part = type_.with_dtype(real_dtype(type_.dtype))
    (real_part,) = stablehlo("real", inst.operands, [part])
    (imaginary,) = stablehlo("imag", inst.operands, [part])
    (negated,) = stablehlo("negate", [imaginary], [part])
    return stablehlo("complex", [real_part, negated], [type_])


conj = unary(
    "conj",
    doc="the complex conjugate",
    dtypes=COMPLEX,
    evaluate=np.conjugate,
    rule=jvp_linear,
    transpose=lambda inst, cts, linear: [ops.conj(cts[0])],
    lower=_lower_conj,
    example='%r = "gnomon.conj"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>',
)
