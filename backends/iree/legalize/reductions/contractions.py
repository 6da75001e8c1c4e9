"""Contractions: sums of products, accumulated in f32 at least, and long ones in stages.

IREE accumulates a contraction with a 16-bit result in 16 bits: with 4096 products of bf16, it loses
a quarter of the sum or more. It adds the terms one by one, which loses digits in long contractions
as it does in sums (`sums`). A long contraction with a small result is therefore computed in pieces,
which also use all cores.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, always
from gnomon.backends.long_sums import product_in_pieces, terms_of
from gnomon.dialects.combinators import accumulator
from gnomon.dialects.contract import Instance
from gnomon.dialects.dot_algorithm import is_algorithm, without_algorithm
from gnomon.dialects.emit import convert, ops, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_inexact

__all__ = ["LEGALIZATIONS"]


def _contraction(inst: Instance) -> Sequence[ir.Value] | None:
    dtype = inst.type.dtype
    if not is_inexact(dtype):
        return None
    wide = accumulator(dtype)
    if (total := product_in_pieces(inst, wide)) is not None:
        return [total if wide == dtype else rounded(total, dtype)]
    if wide != dtype:
        operands = inst.operands
        if terms_of(inst) == 1:
            # IREE 3.13 makes one product of this, and refuses operands that are narrower than it.
            operands = [convert(x, wide) for x in operands]
        return [rounded(ops.dot_general(*operands, **{**inst.params, "dtype": wide}), dtype)]
    return None


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
