"""Fourier transforms as products of matrices, or left to NumPy.

IREE 3.13 compiles a few transforms of powers of two, and rejects all other lengths, numbers of
dimensions and dtypes. Here a transform along one dimension is

- one product with the matrix of the transform, up to `_DIRECT` points, or `_DIRECT_PRIME` if their
  number is prime;
- for a length ``p * q``: transforms of length ``p``, twiddle factors, transforms of length ``q``;
- for a large prime: a convolution with a chirp (Bluestein), by transforms of a power of two.

Several dimensions are transformed one after the other. Where NumPy can read the operand, large
transforms are calls of NumPy on the host, which is as fast and needs no compilation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.backends.rewriting import Rule
from gnomon.dialects.body import operands_of
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import (
    constant,
    convert,
    full,
    move_dim,
    ops,
    reshape,
    slice_along,
    zeros,
)
from gnomon.dialects.host_call import call_on_host
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, type_of

__all__ = ["LEGALIZATIONS", "by_products", "fourier_rules"]

# The real numbers of which the library transforms complex ones of the same precision.
_REAL_OF = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}

# The longest transform that is one product with its matrix.
_DIRECT = 32
# The longest prime that is one product: a chirp costs about four transforms of twice the length.
_DIRECT_PRIME = 150
# This many multiplications take as long as NumPy, including the 50 us of a call on the host.
_MAX_PRODUCTS = 1 << 21


def fourier_rules(target: Target) -> dict[str, Rule]:
    """The rule of Fourier transforms for a target."""
    capabilities = target.capabilities

    def fft(inst: Instance) -> Sequence[ir.Value] | None:
        if inst.type.size == 0 or inst.operand_types[0].size == 0:
            return [zeros(inst.type)]
        products = [_products_per_point(n) for n in inst.params["lengths"]]
        is_large = inst.type.size * sum(products) > _MAX_PRODUCTS
        # A chirp takes seconds to compile.
        if capabilities.host_calls and capabilities.host_memory and (0 in products or is_large):
            return _called(inst)
        return [by_products(inst)]

    return {"gnomon.fft": fft}


def _called(inst: Instance) -> list[ir.Value]:
    """The transform by NumPy or ducc0; of real numbers, if the operand is converted from them.

    That takes the library half the time, and no kernel writes the complex numbers.
    """
    x = inst.operand
    if not isinstance(x.owner, ir.Block) and x.owner.name == "gnomon.convert":
        (source,) = operands_of(x.owner.operation)
        type_ = type_of(source)
        if type_.dtype == _REAL_OF.get(type_of(x).dtype):
            inst = Instance(inst.op, [source], [type_], inst.result_types, inst.params)
    return call_on_host(inst)


def _products_per_point(length: int) -> int:
    """The multiplications per point of a transform by products of matrices; 0 for a chirp."""
    if length <= _DIRECT:
        return length
    p = _factor(length)
    if p == length:
        return length if length <= _DIRECT_PRIME else 0
    rest = _products_per_point(length // p)
    return rest and p + rest


def by_products(inst: Instance) -> ir.Value:
    """The transform, by ops that every target has."""
    x, kind, lengths = inst.operand, inst.params["kind"], inst.params["lengths"]
    rank = type_of(x).rank
    first = rank - len(lengths)
    forward = kind in ("FFT", "RFFT")
    if kind == "RFFT":
        x = _last(convert(x, inst.type.dtype), lengths[-1], forward)
        x = slice_along(x, rank - 1, 0, lengths[-1] // 2 + 1)
        lengths = lengths[:-1]
    dims = list(range(first, first + len(lengths)))
    last = dims.pop() if kind == "IRFFT" else None
    for d in dims:
        moved = _last(move_dim(x, d, rank - 1), lengths[d - first], forward)
        x = move_dim(moved, rank - 1, d)
    if last is not None:
        x = _last(_whole_spectrum(x, lengths[-1]), lengths[-1], forward)
        x = ops.real(x)
    if forward:
        return x
    # The sums of a backward transform are divided by all the lengths at once, to round once.
    return ops.mul(x, full(type_of(x), 1 / math.prod(lengths)))


def _whole_spectrum(x: ir.Value, length: int) -> ir.Value:
    """All coefficients of a real signal, from the first half, which implies the others."""
    dim = type_of(x).rank - 1
    count = length - (length // 2 + 1)
    if count == 0:
        return x
    mirrored = ops.rev(slice_along(x, dim, 1, 1 + count), dims=(dim,))
    return ops.concatenate(x, ops.conj(mirrored), dimension=dim)


def _roots(exponents: np.ndarray, length: int, forward: bool, dtype: np.dtype) -> np.ndarray:
    """Roots of unity to integer powers, with exponents reduced exactly before any rounding."""
    angles = np.asarray(exponents % length, np.float64) * (2 * np.pi / length)
    return np.exp((-1j if forward else 1j) * angles).astype(dtype)


def _factor(length: int) -> int:
    """The largest divisor up to `_DIRECT`, or else the smallest prime divisor."""
    small = next(p for p in range(min(_DIRECT, length), 0, -1) if length % p == 0)
    if small > 1:
        return small
    return next((p for p in range(2, math.isqrt(length) + 1) if length % p == 0), length)


def _last(x: ir.Value, length: int, forward: bool) -> ir.Value:
    """The transform along the last dimension, not divided by the length."""
    type_ = type_of(x)
    if length == 1:
        return x
    if length <= _DIRECT:
        return _direct(x, length, forward)
    p = _factor(length)
    if p == length:
        return (_direct if length <= _DIRECT_PRIME else _chirp)(x, length, forward)
    # x[j1 q + j2] -> X[k1 + p k2]: transform over j1, multiply by twiddles, transform over j2.
    q = length // p
    rank = type_.rank
    parted = reshape(x, (*type_.shape[:-1], p, q))
    inner = _last(move_dim(parted, rank - 1, rank), p, forward)  # [..., j2, k1]
    turns = _roots(np.outer(np.arange(q), np.arange(p)), length, forward, type_.dtype)
    shape = type_of(inner).shape
    rotation = ops.broadcast_in_dim(constant(turns), shape=shape, dims=(rank - 1, rank))
    outer = _last(move_dim(ops.mul(inner, rotation), rank, rank - 1), q, forward)  # [..., k1, k2]
    return reshape(move_dim(outer, rank, rank - 1), type_.shape)


def _direct(x: ir.Value, length: int, forward: bool) -> ir.Value:
    type_ = type_of(x)
    counts = np.arange(length)
    matrix = _roots(np.outer(counts, counts), length, forward, type_.dtype)
    return ops.dot_general(
        x,
        constant(matrix),
        lhs_contracting=(type_.rank - 1,),
        rhs_contracting=(0,),
        lhs_batch=(),
        rhs_batch=(),
        dtype=type_.dtype,
        precision="highest",
    )


def _chirp(x: ir.Value, length: int, forward: bool) -> ir.Value:
    """Bluestein: ``jk = (j^2 + k^2 - (k - j)^2) / 2`` makes a convolution of the transform."""
    type_ = type_of(x)
    dim = type_.rank - 1
    padded = 1 << (2 * length - 2).bit_length()
    counts = np.arange(length, dtype=np.int64)
    turns = _roots(counts * counts, 2 * length, forward, np.dtype(np.complex128))
    kernel = np.zeros(padded, np.complex128)
    kernel[:length] = turns.conj()
    kernel[padded - length + 1 :] = turns[1:][::-1].conj()
    spectrum = np.fft.fft(kernel) / padded

    def times(y: ir.Value, factors: np.ndarray) -> ir.Value:
        literal = constant(factors.astype(type_.dtype))
        return ops.mul(y, ops.broadcast_in_dim(literal, shape=type_of(y).shape, dims=(dim,)))

    zero = full(TensorType((), type_.dtype), 0)
    none, after = (0,) * type_.rank, (*(0,) * dim, padded - length)
    y = ops.pad(times(x, turns), zero, low=none, high=after, interior=none)
    y = times(_last(y, padded, True), spectrum)
    return times(slice_along(_last(y, padded, False), dim, 0, length), turns)


LEGALIZATIONS = (
    Legalization(
        name="fourier-transforms",
        stage=Stage.DECOMPOSE,
        kind=Kind.REFUSED,
        doc="write Fourier transforms as products of matrices, or leave long ones to NumPy",
        upstream="IREE 3.13 compiles transforms of some powers of two along one dimension of f32, "
        "and no others",
        issue="https://github.com/iree-org/iree/issues/12263",
        reproducer="`fft` of seven numbers does not compile",
        rules=fourier_rules,
    ),
)
