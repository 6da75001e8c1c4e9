"""Discrete Fourier transforms: ``fft`` over the trailing dimensions, in four kinds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import INTS, STRING
from gnomon.dialects.combinators import (
    Tangents,
    batch_structural,
    jvp_linear,
    parse,
    require,
    require_dtype,
    stablehlo,
    stablehlo_full,
)
from gnomon.dialects.contract import Instance, Op
from gnomon.dialects.emit import constant, ops, scale, zeros
from gnomon.dialects.fourier_library import transform
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, linear
from gnomon.dialects.types import TensorType, real_dtype, type_of
from gnomon.dialects.work_rules import Types, Work

Dims = tuple[int, ...]

KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
_REAL = (np.dtype(np.float32), np.dtype(np.float64))
_COMPLEX = (np.dtype(np.complex64), np.dtype(np.complex128))


def _complex_dtype(dtype: np.dtype) -> np.dtype:
    return _COMPLEX[_REAL.index(dtype)]


def half(length: int) -> int:
    """The number of non-redundant Fourier coefficients of a real signal of this length."""
    return length // 2 + 1


def _infer(x: TensorType, *, kind: str, lengths: Dims) -> TensorType:
    require(kind in KINDS, "fft", f"kind must be one of {', '.join(KINDS)}, got '{kind}'")
    require_dtype("fft", x, _REAL if kind == "RFFT" else _COMPLEX)
    require(
        1 <= len(lengths) <= x.rank,
        "fft",
        f"lengths must be those of one to {x.rank} trailing dimensions of {x}, got {lengths}",
    )
    before, trailing = x.shape[: -len(lengths)], x.shape[-len(lengths) :]
    expected = lengths
    if kind == "IRFFT":
        # A transform of length 0 has no results, so its points do not matter.
        points = half(lengths[-1]) if lengths[-1] else min(trailing[-1], 1)
        expected = (*lengths[:-1], points)
    require(
        trailing == tuple(expected),
        "fft",
        f"{kind} of lengths {lengths} takes trailing dimensions {tuple(expected)}, got {x}",
    )
    if kind == "RFFT":
        shape = (*before, *lengths[:-1], half(lengths[-1]))
        return TensorType(shape, _complex_dtype(x.dtype))
    if kind == "IRFFT":
        return TensorType((*before, *lengths), real_dtype(x.dtype))
    return x


def _evaluate(x: np.ndarray, *, kind: str, lengths: Dims) -> np.ndarray:
    dtype = x.dtype
    if kind in ("FFT", "IFFT") and dtype in _REAL:
        # A backend calls this with the real numbers from which the operand is converted.
        dtype = _complex_dtype(dtype)
    type_ = _infer(TensorType(x.shape, dtype), kind=kind, lengths=lengths)
    if 0 in type_.shape or x.size == 0:
        return np.zeros(type_.shape, type_.dtype)
    return transform(x, kind, lengths)


def _weights(x: ir.Value, length: int) -> ir.Value:
    """The multiplicity of each coefficient in the full spectrum of a real signal: one or two."""
    type_ = type_of(x)
    counts = np.full(half(length), 2, type_.dtype)
    counts[0] = 1
    if length % 2 == 0:
        counts[-1] = 1
    return ops.broadcast_in_dim(constant(counts), shape=type_.shape, dims=(type_.rank - 1,))


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (cotangent,) = cotangents
    if cotangent is None:
        return [None]
    kind, lengths = inst.params["kind"], inst.params["lengths"]
    count = math.prod(lengths)
    if not count:
        return [zeros(inst.operand_types[0])]
    if kind == "RFFT":
        # The cotangent of a coefficient that represents two is divided between them.
        shared = ops.div(ops.conj(cotangent), _weights(cotangent, lengths[-1]))
        return [scale(ops.fft(shared, kind="IRFFT", lengths=lengths), count)]
    if kind == "IRFFT":
        spectrum = ops.fft(cotangent, kind="RFFT", lengths=lengths)
        weighted = ops.mul(spectrum, _weights(spectrum, lengths[-1]))
        return [ops.conj(scale(weighted, 1 / count))]
    # The matrix of the transform is symmetric, so the op is its own transpose.
    return [ops.fft(cotangent, kind=kind, lengths=lengths)]


def _shift(params: Mapping[str, Any], size: int) -> dict[str, Any]:
    return dict(params)


def _lower(inst: Instance) -> list[ir.Value]:
    if inst.type.size == 0 or inst.operand_types[0].size == 0:
        return [stablehlo_full(inst.type, 0)]
    return stablehlo(
        "fft",
        inst.operands,
        inst.result_types,
        fft_type=parse(f"#stablehlo<fft_type {inst.params['kind']}>"),
        fft_length=INTS.encode(inst.params["lengths"]),
    )


def _work(operands: Types, results: Types, *, kind: str, lengths: Dims) -> Work:
    """Of a transform by powers of two: 5 n log2 n, and half of that between real numbers."""
    count = max(operands[0].size, results[0].size)
    scale = 5.0 if kind in ("FFT", "IFFT") else 2.5
    return Work(flops=scale * count * math.log2(max(math.prod(lengths), 1)))


fft = Op(
    name="fft",
    doc="the discrete Fourier transform of the trailing dimensions",
    example=(
        '%r = "gnomon.fft"(%x) {kind = "RFFT", lengths = array<i64: 8>} '
        ": (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>"
    ),
    attributes={"kind": STRING, "lengths": INTS},
    operands=("x",),
    form=Form.FOURIER,
    stablehlo=("fft",),
    work=_work,
    infer=_infer,
    evaluate=_evaluate,
    jvp=jvp_linear,
    linear=linear(),
    transpose=_transpose,
    batch=batch_structural(_shift),
    sharding=sharding_rules.resized,
    lower=_lower,
)
