"""Contraction: ``dot_general``, the one op to which every matrix product is traced."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import DTYPE, INTS, STRING
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    jvp_linear_in,
    normalized,
    parse,
    require,
    require_dtype,
    stablehlo,
)
from gnomon.dialects.contract import Instance, MappedAxis, Op
from gnomon.dialects.contraction_evaluation import evaluate, free_dims
from gnomon.dialects.dot_algorithm import (
    algorithm_of,
    is_algorithm,
    lower_algorithm,
)
from gnomon.dialects.emit import convert, ops, transpose
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, multilinear
from gnomon.dialects.types import (
    ANY,
    BOOL,
    TensorType,
    is_complex,
    is_floating,
    is_integer,
    short_name,
    type_of,
)
from gnomon.dialects.work_rules import Types, Work

Dims = tuple[int, ...]
Multiply = Callable[[np.ndarray, np.ndarray], np.ndarray]

PRECISIONS = ("default", "high", "highest")


# ------------------------------------------------------------------------------------------ types


def _kind(dtype: np.dtype) -> str:
    if is_integer(dtype):
        return "integer"
    if is_floating(dtype):
        return "floating"
    return "complex" if is_complex(dtype) else "bool"


def _check_dtypes(lhs: TensorType, rhs: TensorType, dtype: np.dtype) -> None:
    require_dtype("dot_general", lhs, ANY)
    both_small = all(is_floating(t.dtype) and t.dtype.itemsize == 1 for t in (lhs, rhs))
    require(
        lhs.dtype == rhs.dtype or both_small,
        "dot_general",
        f"operands must have one dtype (two f8 types may mix), got {lhs} and {rhs}; "
        "convert one of them",
    )
    kinds = {_kind(lhs.dtype), "floating"} if is_integer(lhs.dtype) else {_kind(lhs.dtype)}
    if lhs.dtype == BOOL:
        kinds = {"bool", "integer", "floating"}
    require(
        _kind(dtype) in kinds,
        "dot_general",
        f"the result dtype of {short_name(lhs.dtype)} operands must be of kind "
        f"{' or '.join(sorted(kinds))}, got {short_name(dtype)}",
    )


def _split_precision(precision: str) -> tuple[str, str]:
    """The precision of each operand; for an algorithm, the algorithm and its swapped form."""
    if is_algorithm(precision):
        return precision, str(algorithm_of(precision).swapped())
    parts = precision.split(",")
    require(
        len(parts) in (1, 2) and all(p in PRECISIONS for p in parts),
        "dot_general",
        f"precision must be one of {', '.join(PRECISIONS)}, two of them joined by a comma "
        f"(lhs, rhs), or an algorithm such as bf16*bf16->f32; got '{precision}'",
    )
    return parts[0], parts[-1]


def _infer(
    lhs: TensorType,
    rhs: TensorType,
    *,
    lhs_contracting: Dims,
    rhs_contracting: Dims,
    lhs_batch: Dims,
    rhs_batch: Dims,
    dtype: np.dtype,
    precision: str,
) -> TensorType:
    dtype = np.dtype(dtype)
    _check_dtypes(lhs, rhs, dtype)
    _split_precision(precision)
    require(
        not is_algorithm(precision) or all(is_floating(d) for d in (lhs.dtype, rhs.dtype, dtype)),
        "dot_general",
        f"the algorithm {precision} takes floating point operands, got {lhs} and {rhs}",
    )
    normalized((*lhs_batch, *lhs_contracting), lhs.rank, "dot_general")
    normalized((*rhs_batch, *rhs_contracting), rhs.rank, "dot_general")
    for what, a, b in (
        ("contracting", lhs_contracting, rhs_contracting),
        ("batch", lhs_batch, rhs_batch),
    ):
        a_sizes = tuple(lhs.shape[d] for d in a)
        b_sizes = tuple(rhs.shape[d] for d in b)
        require(
            a_sizes == b_sizes,
            "dot_general",
            f"{what} dimensions {tuple(a)} of {lhs} and {tuple(b)} of {rhs} must have the same "
            f"sizes, got {a_sizes} and {b_sizes}",
        )
    shape = (
        *(lhs.shape[d] for d in lhs_batch),
        *(lhs.shape[d] for d in free_dims(lhs.rank, lhs_batch, lhs_contracting)),
        *(rhs.shape[d] for d in free_dims(rhs.rank, rhs_batch, rhs_contracting)),
    )
    return TensorType(shape, dtype)


# ------------------------------------------------------------------------------- transformations


def _transpose_operand(inst: Instance, cotangent: ir.Value, which: int) -> ir.Value:
    """The cotangent of operand ``which``: contract the cotangent with the other operand."""
    sides = ("lhs", "rhs")
    own, other = sides[which], sides[1 - which]
    params = inst.params
    own_type, other_type = inst.operand_types[which], inst.operand_types[1 - which]
    own_contracting, own_batch = params[f"{own}_contracting"], params[f"{own}_batch"]
    other_contracting, other_batch = params[f"{other}_contracting"], params[f"{other}_batch"]
    own_free = free_dims(own_type.rank, own_batch, own_contracting)
    other_free = free_dims(other_type.rank, other_batch, other_contracting)

    batch_rank = len(own_batch)
    start = batch_rank + (len(own_free) if which == 0 else 0)
    other_in_result = tuple(range(start, start + len(other_free)))
    # If the result dtype differs from the operands' (bf16 x bf16 -> f32), the cotangent and the
    # other operand have different dtypes; the wider one represents both exactly.
    result_dtype = inst.type.dtype
    work = max(result_dtype, other_type.dtype, key=lambda d: d.itemsize)
    lhs_precision, rhs_precision = _split_precision(params["precision"])
    other_precision = rhs_precision if which == 0 else lhs_precision
    own_precision = lhs_precision if which == 0 else rhs_precision
    # In the product, the other operand's contracted dims keep that operand's order.
    contracted = tuple(
        own for _, own in sorted(zip(other_contracting, own_contracting, strict=True))
    )
    in_place = tuple(range(own_type.rank))
    order = (*own_batch, *own_free, *contracted)
    factors = [
        (cotangent, other_in_result, tuple(range(batch_rank)), own_precision),
        (inst.operands[1 - which], other_free, other_batch, other_precision),
    ]
    if order != in_place and (*own_batch, *contracted, *own_free) == in_place:
        # With the operands swapped, no transpose is needed, as for the weights in x @ w.
        order = in_place
        factors.reverse()
    (lhs, lhs_dims, lhs_batch, lhs_precision), (rhs, rhs_dims, rhs_batch, rhs_precision) = factors
    product = ops.dot_general(
        convert(lhs, work),
        convert(rhs, work),
        lhs_contracting=lhs_dims,
        rhs_contracting=rhs_dims,
        lhs_batch=lhs_batch,
        rhs_batch=rhs_batch,
        dtype=work,
        precision=_join_precision(lhs_precision, rhs_precision),
    )
    inverse = tuple(order.index(d) for d in in_place)
    return convert(transpose(product, inverse), own_type.dtype)


def _join_precision(lhs: str, rhs: str) -> str:
    return lhs if lhs == rhs or is_algorithm(lhs) else f"{lhs},{rhs}"


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (cotangent,) = cotangents
    if cotangent is None:
        return [None, None]
    return [
        _transpose_operand(inst, cotangent, which) if is_linear else None
        for which, is_linear in enumerate(linear)
    ]


def _shifted(dims: Dims, batch_dim: int | None) -> Dims:
    """Renumber ``dims`` of the unbatched operand for the operand with a dim at ``batch_dim``."""
    if batch_dim is None:
        return dims
    return tuple(d + (d >= batch_dim) for d in dims)


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    params = dict(inst.params)
    for side, dim in zip(("lhs", "rhs"), dims, strict=True):
        for name in (f"{side}_contracting", f"{side}_batch"):
            params[name] = _shifted(params[name], dim)
    lhs_dim, rhs_dim = dims
    if lhs_dim is not None and rhs_dim is not None:
        params["lhs_batch"] = (lhs_dim, *params["lhs_batch"])
        params["rhs_batch"] = (rhs_dim, *params["rhs_batch"])
        return inst.op.build(operands, params), [0]
    # If one side alone is batched, its batch dim becomes one more free dim: no data moves.
    result_dim = len(params["lhs_batch"])
    lhs_rank, rhs_rank = (type_of(x).rank for x in operands)
    lhs_free = free_dims(lhs_rank, params["lhs_batch"], params["lhs_contracting"])
    if lhs_dim is not None:
        result_dim += lhs_free.index(lhs_dim)
    else:
        assert rhs_dim is not None
        rhs_free = free_dims(rhs_rank, params["rhs_batch"], params["rhs_contracting"])
        result_dim += len(lhs_free) + rhs_free.index(rhs_dim)
    return inst.op.build(operands, params), [result_dim]


@functools.cache
def _stablehlo_attributes(
    lhs_contracting: Dims, rhs_contracting: Dims, lhs_batch: Dims, rhs_batch: Dims, precision: str
) -> dict[str, ir.Attribute]:
    modes = "default" if is_algorithm(precision) else precision
    lhs_precision, rhs_precision = _split_precision(modes)
    return {
        "dot_dimension_numbers": parse(
            f"#stablehlo.dot<lhs_batching_dimensions = {list(lhs_batch)}, "
            f"rhs_batching_dimensions = {list(rhs_batch)}, "
            f"lhs_contracting_dimensions = {list(lhs_contracting)}, "
            f"rhs_contracting_dimensions = {list(rhs_contracting)}>"
        ),
        "precision_config": parse(
            f"[#stablehlo<precision {lhs_precision.upper()}>, "
            f"#stablehlo<precision {rhs_precision.upper()}>]"
        ),
    }


def _lower(inst: Instance) -> list[ir.Value]:
    params: dict[str, Any] = {k: v for k, v in inst.params.items() if k != "dtype"}
    attributes = _stablehlo_attributes(**params)
    if is_algorithm(params["precision"]):
        return lower_algorithm(inst, attributes)
    return stablehlo("dot_general", inst.operands, inst.result_types, **attributes)


def _work(
    operands: Types, results: Types, *, lhs_contracting: Sequence[int], **params: Any
) -> Work:
    depth = math.prod(operands[0].shape[d] for d in lhs_contracting)
    return Work(flops=2.0 * results[0].size * depth)


dot_general = Op(
    name="dot_general",
    doc="products summed over paired dimensions; result dims: batch, lhs free, rhs free",
    example=(
        '%r = "gnomon.dot_general"(%lhs, %rhs) {lhs_contracting = array<i64: 1>, '
        "rhs_contracting = array<i64: 0>, lhs_batch = array<i64>, rhs_batch = array<i64>, "
        'dtype = f32, precision = "default"} : (tensor<2x3xf32>, tensor<3x4xf32>) '
        "-> tensor<2x4xf32>"
    ),
    attributes={
        "lhs_contracting": INTS,
        "rhs_contracting": INTS,
        "lhs_batch": INTS,
        "rhs_batch": INTS,
        "dtype": DTYPE,
        "precision": STRING,
    },
    operands=("lhs", "rhs"),
    form=Form.CONTRACTION,
    stablehlo=("dot_general",),
    work=_work,
    infer=_infer,
    evaluate=evaluate,
    jvp=jvp_linear_in(0, 1),
    linear=multilinear(0, 1),
    transpose=_transpose,
    batch=_batch,
    sharding=sharding_rules.dot,
    lower=_lower,
)
