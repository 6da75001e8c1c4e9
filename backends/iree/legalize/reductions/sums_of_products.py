"""Sums of opposite or scaled numbers and of products, whose fused kernels IREE compiles badly.

IREE 3.13 fuses a sum with the ops that compute its terms. For ``sum(-x)`` the kernel then subtracts
from the sum, which IREE does not know as a reduction. For CUDA and ROCm, ``sum(x * c)``, where
``c`` does not vary along the sum, becomes a product of a matrix and a vector that is not divided
among threads. Both fail for some sizes, such as f32[128,128].

For CPUs, a fused sum of products of two arrays counts as a contraction without rows and columns.
Its kernel is unrolled: on two busy cores that of ``sum(x * y, 0)`` of f32[2048,512] took 25 seconds
to compile instead of one. Sums of products of integers do not have this fault.

So each term ``t`` is replaced by ``max(t, min(t, 1))``, which is ``t``. That costs no memory, IREE
does not simplify it, and it keeps the product or the negation out of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gnomon.backends.iree.legalize.aliases import REARRANGES, name_of
from gnomon.backends.iree.legalize.fusion.wide_fusions import is_fused, is_splat
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.targets import Target
from gnomon.dialects.body import operands_of
from gnomon.dialects.contract import all_operations, instance_of
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_floating, type_of

__all__ = ["LEGALIZATIONS", "keep_factors_out_of_sums", "keep_products_out_of_sums"]

_PRODUCTS = ("mul", "square", "integer_pow")
# The most ops that are searched for the dependences of a factor; if there are more, it counts as
# constant.
_SEARCHED = 64


def keep_products_out_of_sums(program: Program, target: Target) -> None:
    """Separate opposite and scaled terms of sums from their computation, in place."""
    _separate(program, _are_opposite_or_scaled)


def keep_factors_out_of_sums(program: Program, target: Target) -> None:
    """Separate terms of sums that are products of two arrays from the products, in place."""
    _separate(program, lambda terms, _axes: _are_products_of_arrays(terms))


def _separate(program: Program, are_such: Callable[[ir.Value, Sequence[int]], bool]) -> None:
    for function in program.functions:
        for op in list(all_operations(program.body(symbol_name(function)))):
            if name_of(op) != "reduce_sum":
                continue
            (terms,) = operands_of(op)
            if are_such(terms, instance_of(op).params["axes"]):
                with ir.InsertionPoint(op), op.location:
                    op.operands[0] = ops.max(terms, ops.min(terms, full_like(terms, 1)))


def _before_moves(value: ir.Value) -> ir.Value:
    """The value of which another one has the elements, in other places."""
    while not isinstance(value.owner, ir.Block) and name_of(value.owner) in REARRANGES:
        value = value.owner.operation.operands[0]
    return value


def _are_products_of_arrays(terms: ir.Value) -> bool:
    """Whether values are floating-point products of two different arrays, neither broadcast.

    A product with a broadcast factor is a contraction like that of two matrices.
    """
    terms = _before_moves(terms)
    if isinstance(terms.owner, ir.Block) or name_of(terms.owner) != "mul":
        return False
    if not is_floating(type_of(terms).dtype):
        return False
    left, right = operands_of(terms.owner.operation)
    return left != right and not any(map(_is_repeated, (left, right)))


def _is_repeated(value: ir.Value) -> bool:
    """Whether a value is a smaller array or a number that is broadcast."""
    source = _before_moves(value)
    if type_of(source).size != type_of(value).size:
        return True
    return not isinstance(source.owner, ir.Block) and is_splat(source.owner.operation)


def _are_opposite_or_scaled(terms: ir.Value, axes: Sequence[int]) -> bool:
    given, terms = terms, _before_moves(terms)
    moved = terms != given
    if isinstance(terms.owner, ir.Block):
        return False
    if name_of(terms.owner) == "neg":
        return True
    if name_of(terms.owner) not in _PRODUCTS:
        return False
    return moved or any(_is_equal_along(x, axes) for x in operands_of(terms.owner.operation))


def _is_equal_along(value: ir.Value, axes: Sequence[int]) -> bool:
    """Whether the elements along some dimensions are one number that is broadcast."""
    waiting = [(value, frozenset(axes))]
    for _ in range(_SEARCHED):
        if not waiting:
            return True
        value, along = waiting.pop()
        shape = type_of(value).shape
        if not shape or all(shape[d] == 1 for d in along):
            continue
        if isinstance(value.owner, ir.Block):
            return False
        op = value.owner.operation
        if name_of(op) == "broadcast_in_dim":
            dims = instance_of(op).params["dims"]
            inner = frozenset(i for i, d in enumerate(dims) if d in along)
            waiting.append((operands_of(op)[0], inner))
        elif is_splat(op):
            continue
        elif not _keeps_places(op):
            return False
        else:
            waiting += [(x, along) for x in operands_of(op)]
    return True


def _keeps_places(op: ir.Operation) -> bool:
    """Whether an op computes each element from those of its operands at the same place."""
    operands = operands_of(op)
    if not (operands and is_fused(op.name)) or name_of(op) in ("transpose", "rev", "slice"):
        return False
    return {type_of(x).shape for x in operands} - {()} == {type_of(op.results[0]).shape}


LEGALIZATIONS = (
    Legalization(
        name="sums-of-products",
        stage=Stage.FUSE,
        kind=Kind.REFUSED,
        doc="keep the computation of opposite and scaled numbers out of their sums",
        upstream="IREE 3.13 fuses it with the sum, and does not divide the kernel among threads",
        texts=("sums_of_opposite_numbers_on_cuda",),
        reproducer="`sum(-x, 1)` of f32[128,128] does not compile for devices",
        targets=Targets.where(memory="device"),
        run=keep_products_out_of_sums,
    ),
    Legalization(
        name="sums-of-factors",
        stage=Stage.FUSE,
        kind=Kind.SLOW,
        doc="keep products of two arrays out of their sums",
        upstream="IREE 3.13 takes the fused sum for a contraction and unrolls it, which takes "
        "seconds",
        reproducer="`sum(x * y, 0)` of f32[512,512] has over twice as many bytes of code for "
        "x86-64-v4",
        targets=Targets.where(memory="host"),
        run=keep_factors_out_of_sums,
    ),
)
