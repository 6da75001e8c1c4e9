"""Contractions: sums of products, accumulated in f32 at least, and long ones in stages.

IREE accumulates a contraction with a 16-bit result in 16 bits: with 4096 products of bf16, it loses
a quarter of the sum or more. It adds the terms one by one, which loses digits in long contractions
as it does in sums (`sums`). A long contraction with a small result is therefore computed in pieces,
which also use all cores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gnomon.backends.iree.legalize.aliases import name_of
from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets, always
from gnomon.backends.iree.legalize.reductions.sums import is_transposed
from gnomon.backends.long_sums import product_in_pieces, terms_of
from gnomon.dialects.body import operands_of
from gnomon.dialects.combinators import accumulator
from gnomon.dialects.contract import Instance, instance_of
from gnomon.dialects.dot_algorithm import algorithm_as_ops
from gnomon.dialects.emit import convert, ops, reshape, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import any_symbolic
from gnomon.dialects.types import is_floating, is_inexact, type_of

__all__ = ["LEGALIZATIONS"]

# The most terms of a product with a vector that IREE adds up as fast. Loops with a product of fewer
# terms become kernels, in which IREE's products take a third of the time of sums.
_SHORT = 512


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


def _with_vector(inst: Instance) -> Sequence[ir.Value] | None:
    """A long product of a matrix with a vector as a sum along the rows that memory holds."""
    dtype, params = inst.type.dtype, inst.params
    if any_symbolic([d for t in inst.operand_types for d in t.shape]) or not is_floating(dtype):
        return None
    if terms_of(inst) <= _SHORT:
        return None
    sides = (*inst.operands, "lhs", "rhs"), (*reversed(inst.operands), "rhs", "lhs")
    for matrix, vector, side, other in sides:
        matrix, moved = _stored(matrix)
        shape = type_of(matrix).shape
        batch, axes = ([moved[d] for d in params[f"{side}_{k}"]] for k in ("batch", "contracting"))
        # The dimensions of the matrix that those of the vector are multiplied with.
        dims = dict(zip(params[f"{other}_batch"], batch, strict=True))
        dims |= zip(params[f"{other}_contracting"], axes, strict=True)
        along = [dims[d] for d in sorted(dims)]
        sizes = [shape[d] for d in along]
        rows = [*batch, *(d for d in moved if d not in dims.values()), *sorted(axes)]
        is_vector = math.prod(sizes) == type_of(vector).size
        if is_vector and rows == sorted(rows) and along == sorted(along):
            if is_transposed(matrix):
                return None
            wide = accumulator(dtype)
            factor = reshape(convert(vector, wide), sizes)
            factor = ops.broadcast_in_dim(factor, shape=shape, dims=tuple(along))
            total = ops.reduce_sum(ops.mul(convert(matrix, wide), factor), axes=tuple(sorted(axes)))
            return [reshape(total if wide == dtype else rounded(total, dtype), inst.type.shape)]
    return None


def _stored(value: ir.Value) -> tuple[ir.Value, Sequence[int]]:
    """The value that a transpose reads, and its dimension for each one of the transpose."""
    owner = value.owner
    if isinstance(owner, ir.Block) or name_of(owner.operation) != "transpose":
        return value, range(type_of(value).rank)
    (operand,) = operands_of(owner.operation)
    return operand, instance_of(owner.operation).params["permutation"]


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
        rules=always({"gnomon.dot_general": algorithm_as_ops}),
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
        name="products-with-vectors",
        stage=Stage.DECOMPOSE,
        kind=Kind.SLOW,
        doc="write long products of a matrix's rows with a vector as sums of products",
        upstream="IREE 3.13 stores the pieces of the rows in another order",
        reproducer="a product of f32[2000,5000] and a vector needs over 1.5 times the dispatches",
        targets=Targets.where(host_memory=True),
        rules=always({"gnomon.dot_general": _with_vector}),
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
