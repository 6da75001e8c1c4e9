"""Contractions: sums of products, accumulated in f32 at least, and long ones in stages.

IREE accumulates a contraction with a 16-bit result in 16 bits: with 4096 products of bf16, it loses
a quarter of the sum or more. It adds the terms one by one, which loses digits in long contractions
as it does in sums (`sums`). A long contraction with a small result is therefore computed in pieces,
which also use all cores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, always
from gnomon.backends.iree.legalize.reductions.sums import sum_along
from gnomon.dialects.combinators import accumulator
from gnomon.dialects.contract import Instance
from gnomon.dialects.dot_algorithm import is_algorithm, without_algorithm
from gnomon.dialects.emit import constant, convert, ops, reshape, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_inexact, type_of

__all__ = ["LEGALIZATIONS"]

_PIECE = 2048
# The terms of a piece of a product with a vector, or with fewer rows or columns than this: the
# library does not compute it, and IREE adds the terms one by one. A product of two vectors is a sum
# along the last dimension, which is added in lanes.
_NARROW_PIECE = 256
_NARROW = 8
# The pieces of a result have at most this many elements, or as many as the operands.
_MAX_ELEMENTS = 1 << 20


def _contraction(inst: Instance) -> Sequence[ir.Value] | None:
    dtype = inst.type.dtype
    if not is_inexact(dtype):
        return None
    wide = accumulator(dtype)
    params = {**inst.params, "dtype": wide}
    pieces, piece, pair = _pieces(inst)
    if pieces > 1:
        total = _in_pieces(inst, params, pieces, piece, pair)
    elif wide != dtype:
        operands = inst.operands
        if _terms(inst) == 1:
            # IREE 3.13 makes one product of this, and refuses operands that are narrower than it.
            operands = [convert(x, wide) for x in operands]
        total = ops.dot_general(*operands, **params)
    else:
        return None
    return [total if wide == dtype else rounded(total, dtype)]


def _terms(inst: Instance) -> int:
    """The number of products in each sum."""
    return math.prod(inst.operand_types[0].shape[d] for d in inst.params["lhs_contracting"])


def _pieces(inst: Instance) -> tuple[int, int, int]:
    """The pieces, their terms, and the index of the contracted pair to split, the longest one."""
    (lhs, rhs), dims = inst.operand_types, inst.params["lhs_contracting"]
    sizes = [lhs.shape[d] for d in dims]
    longest = max(sizes, default=1)
    batch = math.prod(lhs.shape[d] for d in inst.params["lhs_batch"])
    terms = max(_terms(inst), 1) * max(batch, 1)
    is_narrow = min(lhs.size, rhs.size) < _NARROW * terms < _NARROW * max(lhs.size, rhs.size)
    most = _NARROW_PIECE if is_narrow else _PIECE
    fit = max(_MAX_ELEMENTS, lhs.size + rhs.size) // max(inst.type.size, 1)
    if longest <= 2 * most or fit < 2:
        return 1, longest, 0
    most = max(most, -(-longest // fit))
    # With a divisor, nothing is padded.
    piece = next((n for n in range(most, most // 2, -1) if longest % n == 0), most)
    pieces = -(-longest // piece)
    return pieces, piece, sizes.index(longest)


def _in_pieces(
    inst: Instance, params: dict[str, object], pieces: int, piece: int, pair: int
) -> ir.Value:
    operands = []
    for side, x in zip(("lhs", "rhs"), inst.operands, strict=True):
        contracted, batch = inst.params[f"{side}_contracting"], inst.params[f"{side}_batch"]
        at = contracted[pair]
        operands.append(_split(x, at, pieces, piece))
        params[f"{side}_contracting"] = tuple(d + (d >= at) for d in contracted)
        params[f"{side}_batch"] = (at, *(d + (d >= at) for d in batch))
    return sum_along(ops.dot_general(*operands, **params), 0)


def _split(x: ir.Value, axis: int, pieces: int, piece: int) -> ir.Value:
    """``x`` with an axis split in two, pieces first, after padding it with zeros."""
    shape = type_of(x).shape
    missing = pieces * piece - shape[axis]
    if missing:
        nothing = (0,) * len(shape)
        high = tuple(missing if d == axis else 0 for d in range(len(shape)))
        zero = constant(type_of(x).dtype.type(0))
        x = ops.pad(x, zero, low=nothing, high=high, interior=nothing)
    return reshape(x, (*shape[:axis], pieces, piece, *shape[axis + 1 :]))


def _by_algorithm(inst: Instance) -> Sequence[ir.Value] | None:
    return [without_algorithm(inst)] if is_algorithm(inst.params["precision"]) else None


def _of_nothing(inst: Instance) -> Sequence[ir.Value] | None:
    # The compiler divides by the number of terms, so a sum without terms is written as zeros.
    if all(type_.size for type_ in inst.operand_types):
        return None
    return [zeros(inst.type)]


LEGALIZATIONS = (
    Legalization(
        name="products-by-algorithm",
        stage=Stage.PREPARE,
        kind=Kind.MISCOMPILED,
        doc="write the roundings that a product's algorithm prescribes as ops",
        upstream="IREE 3.13 drops the `algorithm` of a `dot_general`",
        texts=("algorithms_of_products",),
        reproducer="a product of f32 with precision `BF16_BF16_F32` is as exact as one of f32",
        rules=always({"gnomon.dot_general": _by_algorithm}),
    ),
    Legalization(
        name="empty-contractions",
        stage=Stage.REWRITE,
        kind=Kind.REFUSED,
        doc="write a contraction of empty operands as zeros",
        upstream="IREE 3.13 divides by the number of terms, and crashes",
        texts=("products_over_nothing",),
        reproducer="a product of f32[3,0] and f32[0,4] crashes the compiler",
        rules=always({"gnomon.dot_general": _of_nothing}),
    ),
    Legalization(
        name="contractions",
        stage=Stage.REWRITE_AGAIN,
        kind=Kind.INACCURATE,
        doc="accumulate contractions in f32 at least, and long ones in pieces",
        upstream="IREE 3.13 accumulates a contraction of bf16 or f16 in 16 bits, and adds the "
        "terms of long ones one by one",
        texts=("products_of_bf16",),
        reproducer="a product of 4096 numbers of bf16 loses a quarter of the sum",
        rules=always({"gnomon.dot_general": _contraction}),
    ),
)
