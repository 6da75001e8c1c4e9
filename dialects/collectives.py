"""Collectives over a named axis, which are defined under the `vmap` that binds the name.

Mapping the axis replaces them: a `psum` of a batched value becomes a reduction over its batch
dimension. A collective that is left when a program is lowered names an unbound axis.

Reductions take several axis names. Collectives that move data take one; the frontend decomposes a
movement over several names into one op per name, the last name first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gnomon.dialects.attributes import INT, INT_LISTS, STRINGS, Kind
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    batch_elementwise,
    jvp_linear,
    require,
)
from gnomon.dialects.contract import (
    EXPANDED,
    NO_REVERSE,
    NOT_LINEAR,
    ZERO_TANGENT,
    Facet,
    Instance,
    MappedAxis,
    Op,
)
from gnomon.dialects.emit import (
    at_dim,
    broadcast_new_dim,
    constant,
    full_like,
    move_dim,
    ops,
    take,
    transpose,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, type_of

_INT32 = np.dtype(np.int32)

Reduce: TypeAlias = "Callable[[ir.Value, int], ir.Value]"


def _remaining(inst: Instance, axis: MappedAxis) -> tuple[str, ...]:
    return tuple(name for name in inst.params["axes"] if name != axis.name)


def _batch_reduction(reduce: Reduce, replicate: Callable[[ir.Value, int], ir.Value]) -> Any:
    """The batching rule of a reduction over named axes.

    Args:
      reduce: reduces one dimension of a batched value.
      replicate: the reduction of ``size`` equal values.
    """

    def rule(
        inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
    ) -> tuple[list[ir.Value], list[int | None]]:
        if axis.name not in inst.params["axes"]:
            return batch_elementwise(inst, operands, dims, axis)  # type: ignore[return-value]
        (x,), (dim,) = operands, dims
        total = replicate(x, axis.size) if dim is None else reduce(x, dim)
        rest = _remaining(inst, axis)
        return [inst.op(total, axes=rest) if rest else total], [None]

    return rule


def _reduction(name: str, doc: str, jvp: Facet, transpose: Facet, batch: Facet) -> Op:
    return Op(
        name=name,
        doc=doc,
        example=f'%r = "gnomon.{name}"(%x) {{axes = ["i"]}} : (tensor<4xf32>) -> tensor<4xf32>',
        attributes={"axes": STRINGS},
        operands=("x",),
        infer=lambda x, axes: x,
        evaluate=EXPANDED,
        jvp=jvp,
        transpose=transpose,
        batch=batch,
        lower=EXPANDED,
        collective=True,
    )


def _transpose_psum(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (ct,) = cotangents
    return [None if ct is None else psum(ct, axes=inst.params["axes"])]


def _jvp_extremum(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """Average the tangents of the members that attain the extremum, as ``reduce_max`` does."""
    (x,), (out,), (tangent,) = inst.operands, outs, tangents
    axes = inst.params["axes"]
    attains = ops.convert(ops.eq(x, out), dtype=inst.type.dtype)
    assert tangent is not None
    return [ops.div(psum(ops.mul(tangent, attains), axes=axes), psum(attains, axes=axes))]


psum = _reduction(
    "psum",
    "the sum over the members of named axes",
    jvp=jvp_linear,
    transpose=_transpose_psum,
    batch=_batch_reduction(
        lambda x, dim: ops.reduce_sum(x, axes=(dim,)),
        lambda x, size: ops.mul(x, full_like(x, size)),
    ),
)
pmax = _reduction(
    "pmax",
    "the largest of the members of named axes",
    jvp=_jvp_extremum,
    transpose=NOT_LINEAR,
    batch=_batch_reduction(lambda x, dim: ops.reduce_max(x, axes=(dim,)), lambda x, size: x),
)
pmin = _reduction(
    "pmin",
    "the smallest of the members of named axes",
    jvp=_jvp_extremum,
    transpose=NOT_LINEAR,
    batch=_batch_reduction(lambda x, dim: ops.reduce_min(x, axes=(dim,)), lambda x, size: x),
)


def _batch_axis_index(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    positions = ops.iota(shape=(axis.size,), dtype=_INT32, dimension=0)
    return [positions], [0]


axis_index = Op(
    name="axis_index",
    doc="the position of the member along a named axis",
    example='%r = "gnomon.axis_index"() {axes = ["i"]} : () -> tensor<i32>',
    attributes={"axes": STRINGS},
    operands=(),
    infer=lambda axes: TensorType((), _INT32),
    evaluate=EXPANDED,
    jvp=ZERO_TANGENT,
    transpose=NO_REVERSE,
    batch=_batch_axis_index,
    lower=EXPANDED,
    collective=True,
)


# ------------------------------------------------------------------------------- movements of data

# The rule of a movement under the vmap that binds its name. It takes the operand, the position of
# its batch dimension (None: not batched), the axis size and the parameters; it returns the result
# and the position of its batch dimension.
Move: TypeAlias = (
    "Callable[[ir.Value, int | None, int, dict[str, Any]], tuple[ir.Value, int | None]]"
)
Params = dict[str, Any]


def _movement(
    name: str,
    doc: str,
    attributes: dict[str, Kind],
    infer: Callable[..., TensorType],
    move: Move,
    inner: Callable[[Params], Params],
    transposed: Callable[[ir.Value, Params], ir.Value],
    example: str,
) -> Op:
    """Declare a collective that is linear and takes one name.

    Args:
      name, doc, attributes, infer, example: see `Op`.
      move: the rule under the vmap that binds its name.
      inner: the parameters for an operand with one more leading dimension.
      transposed: the cotangent of the operand.
    """

    def batch(
        inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
    ) -> tuple[list[ir.Value], list[int | None]]:
        (x,), (dim,) = operands, dims
        if axis.name in inst.params["axes"]:
            result, place = move(x, dim, axis.size, inst.params)
            return [result], [place]
        assert dim is not None
        return inst.op.build([move_dim(x, dim, 0)], inner(inst.params)), [0]

    def transpose_rule(
        inst: Instance, cotangents: Tangents, linear: Sequence[bool]
    ) -> list[ir.Value | None]:
        (ct,) = cotangents
        return [None if ct is None else transposed(ct, inst.params)]

    return Op(
        name=name,
        doc=doc,
        example=f'%r = "gnomon.{name}"(%x) {example}',
        attributes={"axes": STRINGS, **attributes},
        operands=("x",),
        infer=infer,
        evaluate=EXPANDED,
        jvp=jvp_linear,
        transpose=transpose_rule,
        batch=batch,
        lower=EXPANDED,
        collective=True,
    )


def _shifted(*names: str) -> Callable[[Params], Params]:
    """Shift the named dimension parameters by one, past a new leading dimension."""
    return lambda params: {k: v + 1 if k in names else v for k, v in params.items()}


def _without(shape: tuple[int, ...], dimension: int) -> tuple[int, ...]:
    return (*shape[:dimension], *shape[dimension + 1 :])


def _insert(shape: tuple[int, ...], dimension: int, size: int) -> tuple[int, ...]:
    return (*shape[:dimension], size, *shape[dimension:])


def _check_divided(op: str, x: TensorType, dimension: int, size: int) -> None:
    require(
        0 <= dimension < x.rank and x.shape[dimension] == size,
        op,
        f"dimension {dimension} of {x} must have the size of the named axis, {size}",
    )


def _infer_all_gather(
    x: TensorType, axes: tuple[str, ...], dimension: int, size: int
) -> TensorType:
    require(0 <= dimension <= x.rank, "all_gather", f"no position {dimension} in {x}")
    return x.with_shape(_insert(x.shape, dimension, size))


def _move_all_gather(
    x: ir.Value, dim: int | None, size: int, params: Params
) -> tuple[ir.Value, int | None]:
    return at_dim(x, dim, size, params["dimension"]), None


def _infer_psum_scatter(
    x: TensorType, axes: tuple[str, ...], dimension: int, size: int
) -> TensorType:
    _check_divided("psum_scatter", x, dimension, size)
    return x.with_shape(_without(x.shape, dimension))


def _move_psum_scatter(
    x: ir.Value, dim: int | None, size: int, params: Params
) -> tuple[ir.Value, int | None]:
    if dim is None:
        return ops.mul(x, full_like(x, size)), params["dimension"]
    return ops.reduce_sum(x, axes=(dim,)), params["dimension"]


_SIZED = '{axes = ["i"], dimension = 0 : i64, size = 4 : i64} : '

all_gather = _movement(
    "all_gather",
    "the values of all members of a named axis, in a new dimension of its size",
    {"dimension": INT, "size": INT},
    infer=_infer_all_gather,
    move=_move_all_gather,
    inner=_shifted("dimension"),
    transposed=lambda ct, params: ops.psum_scatter(ct, **params),
    example=f"{_SIZED}(tensor<3xf32>) -> tensor<4x3xf32>",
)
psum_scatter = _movement(
    "psum_scatter",
    "the sum over the members of a named axis; each member keeps its slice along a dimension",
    {"dimension": INT, "size": INT},
    infer=_infer_psum_scatter,
    move=_move_psum_scatter,
    inner=_shifted("dimension"),
    transposed=lambda ct, params: ops.all_gather(ct, **params),
    example=f"{_SIZED}(tensor<4x3xf32>) -> tensor<3xf32>",
)


def _infer_all_to_all(
    x: TensorType, axes: tuple[str, ...], split: int, concat: int, size: int
) -> TensorType:
    _check_divided("all_to_all", x, split, size)
    require(0 <= concat < x.rank, "all_to_all", f"no position {concat} in {x}")
    return x.with_shape(_insert(_without(x.shape, split), concat, size))


def _move_all_to_all(
    x: ir.Value, dim: int | None, size: int, params: Params
) -> tuple[ir.Value, int | None]:
    # Exchange the batch dimension with the dimension that is split among the members.
    split, concat = params["split"], params["concat"]
    if dim is None:
        x, dim = broadcast_new_dim(x, size), 0
    source = split + (dim <= split)
    order = [d for d in range(type_of(x).rank) if d not in (dim, source)]
    order.insert(concat, dim)
    return transpose(x, [source, *order]), 0


all_to_all = _movement(
    "all_to_all",
    "split one dimension over the members of a named axis, and concatenate the parts that each "
    "member receives along another",
    {"split": INT, "concat": INT, "size": INT},
    infer=_infer_all_to_all,
    move=_move_all_to_all,
    inner=_shifted("split", "concat"),
    transposed=lambda ct, params: ops.all_to_all(
        ct, **{**params, "split": params["concat"], "concat": params["split"]}
    ),
    example=(
        '{axes = ["i"], split = 0 : i64, concat = 1 : i64, size = 4 : i64} : '
        "(tensor<4x3xf32>) -> tensor<3x4xf32>"
    ),
)


def _infer_ppermute(
    x: TensorType, axes: tuple[str, ...], permutation: Sequence[Sequence[int]]
) -> TensorType:
    for side in zip(*permutation, strict=True):
        require(len(set(side)) == len(side), "ppermute", f"{permutation} repeats a member")
    return x


def _move_ppermute(
    x: ir.Value, dim: int | None, size: int, params: Params
) -> tuple[ir.Value, int | None]:
    # Members without a source read out of bounds, which gives zero.
    sources = np.full(size, size, np.int32)
    for source, destination in params["permutation"]:
        sources[destination] = source
    if dim is None and (sources < size).all():
        return x, None
    front = at_dim(x, dim, size)
    return take(front, constant(sources), 0, mode="fill"), 0


ppermute = _movement(
    "ppermute",
    "the value of another member of a named axis, by pairs (source, destination); zero without one",
    {"permutation": INT_LISTS},
    infer=_infer_ppermute,
    move=_move_ppermute,
    inner=lambda params: params,
    transposed=lambda ct, params: ops.ppermute(
        ct, axes=params["axes"], permutation=[pair[::-1] for pair in params["permutation"]]
    ),
    example=(
        '{axes = ["i"], permutation = [array<i64: 0, 1>, array<i64: 1, 0>]} : '
        "(tensor<4xf32>) -> tensor<4xf32>"
    ),
)

__all__ = [
    "all_gather",
    "all_to_all",
    "axis_index",
    "pmax",
    "pmin",
    "ppermute",
    "psum",
    "psum_scatter",
]
