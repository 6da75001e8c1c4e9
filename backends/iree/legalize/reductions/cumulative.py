"""Cumulative operations: sums block by block (see `backends/long_sums.py`), bf16 in f32."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, always
from gnomon.backends.long_sums import cumulative_rules
from gnomon.dialects.combinators import accumulator
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import convert
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import bfloat16

__all__ = ["LEGALIZATIONS"]


def _in_f32(inst: Instance) -> Sequence[ir.Value] | None:
    if inst.type.dtype != bfloat16:
        return None
    wide = convert(inst.operand, accumulator(bfloat16))
    (result,) = inst.op.build([wide], inst.params)
    return [rounded(result, bfloat16)]


LEGALIZATIONS = (
    Legalization(
        name="cumulative-sums",
        stage=Stage.DECOMPOSE,
        kind=Kind.INACCURATE,
        doc="accumulate many elements block by block",
        upstream="IREE 3.13 adds elements one after another: a cumulative sum of 20 million ones "
        "ends with 16777216",
        texts=("long_sums",),
        reproducer="a cumulative sum of a million times 1e-6 ends with 1.009",
        rules=always(cumulative_rules(rounded)),
    ),
    Legalization(
        name="cumulative-bfloat16",
        stage=Stage.REWRITE_AGAIN,
        kind=Kind.MISCOMPILED,
        doc="round cumulative operations of bf16 before they are used",
        upstream="IREE 3.13 drops the conversion of a result to bf16 where the same kernel uses it "
        "in f32",
        texts=("conversions_to_bf16_and_back",),
        reproducer="`y - y[::-1]` of a reversed cumulative sum `y` is not 0 in the middle row",
        rules=always(
            dict.fromkeys(("gnomon.cumsum", "gnomon.cumprod", "gnomon.cumlogsumexp"), _in_f32)
        ),
    ),
)
