"""Fused multiply-add, with a single rounding.

Compilers contract ``x * y + z`` if the processor has an instruction for it, as XLA does in the
scaling of uniform random numbers. The op requests the contraction, so that evaluation and compiled
code give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects import work_rules
from gnomon.dialects.combinators import Tangents, nary, stablehlo
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import add_tangents, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, multilinear
from gnomon.dialects.types import FLOATING

# Veltkamp's splitting constant for 53-bit mantissas.
_SPLITTER = 2.0**27 + 1
# A shift that leaves the last 28 bits of an f64: halfway between two numbers of f32, all are zeros.
_LAST = np.uint64(64 - 28)
# The elements of a block: 128 KiB of f64.
_BLOCK = 1 << 14


def _product(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An f64 product and its rounding error (Dekker 1971)."""
    product = x * y
    (x1, x2), (y1, y2) = _halves(x), _halves(y)
    return product, ((x1 * y1 - product) + x1 * y2 + x2 * y1) + x2 * y2


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``x`` as a sum of two numbers of 26 bits, whose products are exact."""
    scaled = _SPLITTER * x
    high = scaled - (scaled - x)
    return high, x - high


def _sum(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A sum and its rounding error (Knuth, The Art of Computer Programming, 4.2.2)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _rounded_to_odd(rounded: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Change a number that is rounded to nearest into the same number rounded to odd.

    An inexact number with an even mantissa is replaced by its neighbor on the side of the exact
    value. Rounding that to fewer bits gives what rounding the exact value would give.
    """
    bits = rounded.view(f"u{rounded.dtype.itemsize}")
    to_odd = (error != 0) & np.isfinite(error) & (bits & 1 == 0)
    toward = np.copysign(np.asarray(np.inf, rounded.dtype), error)
    return np.where(to_odd, np.nextafter(rounded, toward), rounded)


def _fused_f64(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Round once (S. Boldo, G. Melquiond, Emulation of a FMA and correctly rounded sums, 2008).

    A product below 2**-969, whose error is not a number of f64, is itself rounded first.
    """
    high, low = _product(x, y)
    middle, lowest = _sum(low, z)
    total, error = _sum(high, middle)
    fused = total + _rounded_to_odd(*_sum(error, lowest))
    # Near overflow the splitting overflows, too; then, and for inf and nan, the plain sum is used.
    return np.where(np.isfinite(fused), fused, x * y + z)


def _fused_f32(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Compute in f64, block by block, so that the intermediate arrays stay in the cache."""
    if x.size <= _BLOCK:
        return _fused_block(x, y, z)
    flat = [operand.reshape(-1) for operand in (x, y, z)]
    fused = np.empty(x.size, np.float32)
    for start in range(0, x.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        fused[block] = _fused_block(*(operand[block] for operand in flat))
    return fused.reshape(x.shape)


def _fused_block(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    product = x.astype(np.float64) * y  # exact, in 48 bits
    total = np.asarray(product + z)
    # Rounding to f64 and then to f32 differs from rounding once only if the sum in f64 is halfway
    # between two numbers of f32: then its last bits are zeros.
    last = total.view(np.uint64) << _LAST
    if np.count_nonzero(last) != last.size:
        exact = np.flatnonzero(last == 0)
        terms = (product.flat[exact], z.astype(np.float64).flat[exact])
        total.flat[exact] = _rounded_to_odd(*_sum(*terms))
    return total.astype(np.float32)


def _evaluate(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    if x.dtype == np.float64:
        return _fused_f64(x, y, z)
    if x.dtype == np.float32:
        return _fused_f32(x, y, z)
    wide = _rounded_to_odd(*_sum(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)))
    if x.dtype == np.float16:
        return wide.astype(np.float16)
    # Other narrow types are converted by way of f32.
    narrow = wide.astype(np.float32)
    return _rounded_to_odd(narrow, wide - narrow).astype(x.dtype)


def _jvp(inst: Instance, outs: Sequence[ir.Value], tangents: Tangents) -> list[ir.Value | None]:
    x, y, _ = inst.operands
    dx, dy, dz = tangents
    if dy is None and dx is not None and dz is not None:
        return [ops.fma(dx, y, dz)]
    if dx is None and dy is not None and dz is not None:
        return [ops.fma(x, dy, dz)]
    products = [None if t is None else ops.mul(t, other) for t, other in ((dx, y), (dy, x))]
    return [add_tangents(add_tangents(*products), dz)]


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (ct,) = cotangents
    x, y, _ = inst.operands
    return [
        ops.mul(ct, y) if linear[0] else None,
        ops.mul(x, ct) if linear[1] else None,
        ct if linear[2] else None,
    ]


def _lower(inst: Instance) -> list[ir.Value]:
    x, y, z = inst.operands
    (product,) = stablehlo("multiply", [x, y], inst.result_types)
    return stablehlo("add", [product, z], inst.result_types)


fma = nary(
    "fma",
    3,
    doc="x * y + z; evaluation rounds once, and so does compiled code if the processor can",
    work=work_rules.per_element(2),
    cost=Cost.OPERATION,
    dtypes=FLOATING,
    evaluate=_evaluate,
    jvp=_jvp,
    linear=multilinear((0, 2), (1, 2)),
    transpose=_transpose,
    lower=_lower,
)
