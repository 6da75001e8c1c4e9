"""Factorizations, triangular systems, Fourier transforms, random bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects.combinators import accumulator
from gnomon.dialects.emit import convert, ops, reshape
from gnomon.dialects.linear_algebra.matrices import conjugated, swapped
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.source import RaiseError, Source, raises
from gnomon.dialects.types import type_of

_U32 = np.dtype(np.uint32)
_STATE_WORDS = 4
# XLA's default on CPUs and GPUs is Philox.
_ALGORITHMS = {"DEFAULT": "philox", "PHILOX": "philox", "THREE_FRY": "threefry"}


def adjoint(a: ir.Value) -> ir.Value:
    """The conjugate transpose of the last two dimensions."""
    return conjugated(swapped(a))


def _widened(operands: Sequence[ir.Value]) -> list[ir.Value]:
    """Operands of small formats in f32: factorizations take f32, f64 and complex numbers."""
    return [convert(x, accumulator(type_of(x).dtype)) for x in operands]


@raises("cholesky")
def _cholesky(source: Source) -> ir.Value:
    (a,), dtype = _widened(source.operands), source.type.dtype
    if source.flag("lower"):
        return convert(ops.cholesky(a), dtype)
    return convert(adjoint(ops.cholesky(adjoint(a))), dtype)


@raises("triangular_solve")
def _triangular_solve(source: Source) -> ir.Value:
    transpose = source.word("transpose_a", "NO_TRANSPOSE")
    solved: ir.Value = ops.triangular_solve(
        *_widened(source.operands),
        **{name: source.flag(name) for name in ("left_side", "lower", "unit_diagonal")},
        transpose_a=transpose in ("TRANSPOSE", "ADJOINT"),
        conjugate_a=transpose == "ADJOINT",
    )
    return convert(solved, source.type.dtype)


@raises("fft")
def _fft(source: Source) -> ir.Value:
    transformed: ir.Value = ops.fft(
        source.operand, kind=source.word("fft_type"), lengths=source.ints("fft_length")
    )
    return transformed


@raises("rng_bit_generator")
def rng_bit_generator(source: Source) -> list[ir.Value]:
    """Random bits of the result's type, from the first operand."""
    state = source.operands[0]
    type_ = type_of(state)
    if type_.dtype != _U32 and type_.dtype.itemsize != 8:
        raise RaiseError(f"a state of {type_} is not read; StableHLO's has words of ui64, or ui32")
    words = _words(state)
    if type_of(words).shape != (_STATE_WORDS,):
        raise RaiseError(f"a state of {type_} is not read; the dialect's has 128 bits")
    algorithm = _ALGORITHMS[source.word("rng_algorithm")]
    bits_type = source.result_types[1]
    dtype = np.dtype(f"uint{8 * bits_type.dtype.itemsize}")
    new, bits = ops.rng_bit_generator(
        words, shape=bits_type.shape, dtype=dtype, algorithm=algorithm
    )
    if dtype != bits_type.dtype:
        bits = ops.bitcast_convert(bits, dtype=bits_type.dtype)
    if type_.dtype == _U32:
        return [new, bits]
    pairs = reshape(new, (_STATE_WORDS // 2, 2))
    return [ops.bitcast_convert(pairs, dtype=type_.dtype), bits]


def _words(state: ir.Value) -> ir.Value:
    """A state as 32-bit words."""
    type_ = type_of(state)
    if type_.dtype == _U32:
        return state
    words = ops.bitcast_convert(state, dtype=_U32)
    return reshape(words, (type_of(words).size,))
