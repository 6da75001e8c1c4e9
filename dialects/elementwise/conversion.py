"""Changes of representation: dtype conversions, parts of complex numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import ml_dtypes
import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import DTYPE
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    binary,
    jvp_linear,
    require,
    require_dtype,
    stablehlo,
    stablehlo_full,
    to_front,
    unary,
)
from gnomon.dialects.contract import NOT_LINEAR, ZERO_TANGENT, Instance, MappedAxis, Op
from gnomon.dialects.elementwise.comparison import stablehlo_compare
from gnomon.dialects.elementwise.evaluation import from_parts
from gnomon.dialects.emit import convert as emit_convert
from gnomon.dialects.emit import ops, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, Form, linear
from gnomon.dialects.types import (
    ANY,
    BOOL,
    COMPLEX,
    SUB_BYTE,
    TensorType,
    is_complex,
    is_floating,
    is_inexact,
    is_integer,
    real_dtype,
    short_name,
)

# ----------------------------------------------------------------------------------------- convert


def _evaluate_convert(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return _converter(x.dtype, dtype)(x)


@cache
def _converter(source: np.dtype, target: np.dtype) -> Callable[[np.ndarray], np.ndarray]:
    """The conversion between two dtypes: NumPy's where it agrees with the op, otherwise ours."""
    if source == target:
        return lambda x: x
    if is_complex(source) and not is_complex(target) and target != BOOL:
        part = _converter(real_dtype(source), target)
        return lambda x: part(x.real)
    if is_floating(source) and is_integer(target):
        return _saturating(source, target)
    if source in SUB_BYTE and target in SUB_BYTE:
        return lambda x: x.astype(np.int8).astype(target)
    if not np.can_cast(source, target, "unsafe"):
        return lambda x: x.astype(np.float32).astype(target)
    return lambda x: x.astype(target)


def _saturating(source: np.dtype, target: np.dtype) -> Callable[[np.ndarray], np.ndarray]:
    """Convert floats to integers toward zero, saturating; nan gives 0."""
    info = ml_dtypes.iinfo(target)
    wide = np.dtype(np.float32) if source.kind == "V" else source
    # The bounds round away from zero to a float, so values strictly between them convert exactly.
    with np.errstate(over="ignore"):
        low, high = (np.array(float(n)).astype(wide) for n in (info.min, info.max))
    least, most, zero = (np.array(n).astype(target) for n in (info.min, info.max, 0))

    def convert(x: np.ndarray) -> np.ndarray:
        if x.dtype != wide:
            x = x.astype(wide)
        inside = (x > low) & (x < high)
        if np.count_nonzero(inside) == inside.size:
            return x.astype(target)
        converted = np.where(inside, x, wide.type(0)).astype(target)
        ends = np.where(x >= high, most, least)
        return np.where(inside, converted, np.where(np.isnan(x), zero, ends))

    return convert


def _jvp_convert(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    dtype = inst.params["dtype"]
    return [emit_convert(tangents[0], dtype) if is_inexact(dtype) else None]


def _lower_convert(inst: Instance) -> list[ir.Value]:
    x, (type_,), result = inst.operand, inst.operand_types, inst.type
    if type_.dtype == result.dtype:
        return [x]
    if result.dtype == BOOL:
        return [stablehlo_compare("NE", x, stablehlo_full(type_, 0))]
    if is_complex(type_.dtype) and not is_complex(result.dtype):
        type_ = type_.with_dtype(real_dtype(type_.dtype))
        (x,) = stablehlo("real", [x], [type_])
    if type_.dtype == result.dtype:
        return [x]
    return stablehlo("convert", [x], [result])


convert = unary(
    "convert",
    doc="x converted to a dtype: to integers toward zero, saturating (nan gives 0); to bool by "
    "x != 0; from complex to real by taking the real part",
    cost=Cost.OPERATION,
    dtypes=ANY,
    evaluate=_evaluate_convert,
    rule=_jvp_convert,
    linear=linear(),
    transpose=lambda inst, cts, linear: [emit_convert(cts[0], inst.operand_types[0].dtype)],
    stablehlo=("convert",),
    lower=_lower_convert,
    result_dtype=lambda x, dtype: dtype,
    attributes={"dtype": DTYPE},
    example='%r = "gnomon.convert"(%x) {dtype = i32} : (tensor<4xf32>) -> tensor<4xi32>',
)
real = unary(
    "real",
    doc="the real part",
    cost=Cost.NOTHING,
    dtypes=COMPLEX,
    evaluate=np.real,
    rule=jvp_linear,
    linear=linear(),
    transpose=lambda inst, cts, linear: [ops.complex(cts[0], zeros(inst.type))],
    lower="real",
    result_dtype=real_dtype,
    example='%r = "gnomon.real"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>',
)
imag = unary(
    "imag",
    doc="the imaginary part",
    cost=Cost.NOTHING,
    dtypes=COMPLEX,
    evaluate=np.imag,
    rule=jvp_linear,
    linear=linear(),
    transpose=lambda inst, cts, linear: [ops.complex(zeros(inst.type), ops.neg(cts[0]))],
    lower="imag",
    result_dtype=real_dtype,
    example='%r = "gnomon.imag"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>',
)
PARTS = tuple(real_dtype(d) for d in COMPLEX)


def _complex_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.complex64 if dtype == np.float32 else np.complex128)


def _evaluate_complex(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return from_parts(x, y, _complex_dtype(x.dtype))


complex_ = binary(
    "complex",
    doc="the complex number x + iy",
    cost=Cost.NOTHING,
    dtypes=PARTS,
    evaluate=_evaluate_complex,
    rule=jvp_linear,
    linear=linear(),
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
    cost=Cost.OPERATION,
    dtypes=COMPLEX,
    evaluate=np.conjugate,
    rule=jvp_linear,
    linear=linear(),
    transpose=lambda inst, cts, linear: [ops.conj(cts[0])],
    lower=_lower_conj,
    example='%r = "gnomon.conj"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>',
)
stop_gradient = unary(
    "stop_gradient",
    doc="x; its tangent is zero by definition",
    cost=Cost.NOTHING,
    dtypes=ANY,
    evaluate=lambda x: x,
    jvp=ZERO_TANGENT,
    lower=lambda inst: list(inst.operands),
)

# --------------------------------------------------------------------------------- bitcast_convert


def bit_width(dtype: np.dtype) -> int:
    """The number of bits of an element in a program; NumPy stores 2 or 4 bits in a whole byte."""
    return int(ml_dtypes.iinfo(dtype).bits) if dtype in SUB_BYTE else 8 * dtype.itemsize


def _infer_bitcast(x: TensorType, *, dtype: np.dtype) -> TensorType:
    require_dtype("bitcast_convert", x, ANY)
    if x.dtype == dtype:
        return x
    for d in (x.dtype, dtype):
        require(
            d != BOOL and not is_complex(d),
            "bitcast_convert",
            f"bool and complex values have no bit pattern in another dtype; got {x} to "
            f"{short_name(dtype)}",
        )
    source, target = bit_width(x.dtype), bit_width(dtype)
    if source == target:
        return x.with_dtype(dtype)
    if source > target:
        return TensorType((*x.shape, source // target), dtype)
    parts = target // source
    require(
        x.shape[-1:] == (parts,),
        "bitcast_convert",
        f"{parts} values of {source} bits form one {short_name(dtype)}: the last dimension must "
        f"be {parts}, got {x}",
    )
    return TensorType(x.shape[:-1], dtype)


def _evaluate_bitcast(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Reinterpret bits; sub-byte integers are packed into bytes before and unpacked after."""
    source, target = bit_width(x.dtype), bit_width(dtype)
    if source == target:
        return x.view(dtype)
    if x.dtype in SUB_BYTE:
        x = x.view(np.uint8) & np.uint8(2**source - 1)
        if source < target:
            x = _joined(x, source, min(target, 8) // source)
            if target <= 8:
                return x.reshape(x.shape[:-1]).view(dtype)
    if dtype in SUB_BYTE:
        shape = (*x.shape, source // target)
        octets = np.ascontiguousarray(x).reshape(*x.shape, 1).view(np.uint8)
        return _split(octets, target, min(source, 8) // target).reshape(shape).view(dtype)
    if x.dtype.itemsize > dtype.itemsize:
        return np.ascontiguousarray(x).reshape(*x.shape, 1).view(dtype)
    return np.ascontiguousarray(x).view(dtype).reshape(x.shape[:-1])


def _joined(x: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Pack each ``count`` values along the last dimension into a byte, the first one lowest."""
    parts = x.reshape(*x.shape[:-1], x.shape[-1] // count, count)
    shifted: np.ndarray = parts << np.arange(0, bits * count, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(shifted, axis=-1)


def _split(octets: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Unpack the parts of each byte into a new last dimension, the lowest first."""
    shifted = octets[..., None] >> np.arange(0, bits * count, bits, dtype=np.uint8)
    parts: np.ndarray = shifted & np.uint8(2**bits - 1)
    return parts


def _batch_bitcast(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    # The op may add or drop the last dimension, so the batch dimension goes in front.
    return [ops.bitcast_convert(*to_front(operands, dims, axis), **inst.params)], [0]


def _lower_bitcast(inst: Instance) -> list[ir.Value]:
    if inst.operand_types[0].dtype == inst.type.dtype:
        return [inst.operand]
    return stablehlo("bitcast_convert", inst.operands, inst.result_types)


bitcast_convert = Op(
    name="bitcast_convert",
    doc="the bits of x as another dtype; a narrower one adds a last dimension, a wider drops it",
    example='%r = "gnomon.bitcast_convert"(%x) {dtype = ui32} : (tensor<4xf32>) -> tensor<4xui32>',
    attributes={"dtype": DTYPE},
    operands=("x",),
    form=Form.REINTERPRETATION,
    stablehlo=("bitcast_convert",),
    work=work_rules.nothing,
    infer=_infer_bitcast,
    evaluate=_evaluate_bitcast,
    jvp=ZERO_TANGENT,
    transpose=NOT_LINEAR,
    batch=_batch_bitcast,
    sharding=sharding_rules.bits,
    lower=_lower_bitcast,
)
