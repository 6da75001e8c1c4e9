"""Collectives over a named axis that move data: gathers, scatters, exchanges, permutations.

Each takes one name; the frontend decomposes a movement over several names into one op per name,
the last name first. See `collectives` for where collectives are defined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gnomon.dialects import work_rules
from gnomon.dialects.attributes import INT, INT_LISTS, STRINGS, Kind
from gnomon.dialects.collective_groups import Groups, apply_within_groups, check_groups
from gnomon.dialects.collective_lowering import (
    lower_all_gather,
    lower_all_to_all,
    lower_ppermute,
    lower_psum_scatter,
)
from gnomon.dialects.combinators import Tangents, Values, jvp_linear, require
from gnomon.dialects.contract import EXPANDED, Instance, MappedAxis, Op, Rule
from gnomon.dialects.emit import (
    at_dim,
    broadcast_new_dim,
    constant,
    full_like,
    move_dim,
    ops,
    reshape,
    take,
    transpose,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.sharding_rules import Labels, SplitUse, by_labels
from gnomon.dialects.traits import Form, linear
from gnomon.dialects.types import TensorType, type_of
from gnomon.dialects.work_rules import WorkRule

# The batching rule of a movement under the vmap that binds its name. It takes the operand, the
# position of its batch dimension (None: not batched), the axis size and the parameters; it returns
# the result and the position of its batch dimension.
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
    lower: Rule,
    example: str,
    work: WorkRule = work_rules.nothing,
) -> Op:
    """Declare a linear collective over one named axis.

    Args:
      name, doc, attributes, infer, lower, example, work: see `Op`.
      move: the batching rule under the vmap that binds the name.
      inner: the parameters for an operand with one more leading dimension.
      transposed: the cotangent of the operand.
    """

    def within(params: Params) -> Callable[[ir.Value, int], ir.Value]:
        # For the movement, the dimension of groups is one more dimension of each member's value.
        def moved(x: ir.Value, size: int) -> ir.Value:
            return at_dim(*move(x, 1, size, inner(params)), size, 1)

        return moved

    def batch(
        inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
    ) -> tuple[list[ir.Value], list[int | None]]:
        (x,), (dim,) = operands, dims
        if axis.name in inst.params["axes"]:
            if groups := inst.params.get("groups"):
                front = at_dim(x, dim, axis.size)
                return [apply_within_groups(front, groups, axis.size, within(inst.params))], [0]
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
        form=Form.COLLECTIVE,
        work=work,
        infer=infer,
        evaluate=EXPANDED,
        jvp=jvp_linear,
        linear=linear(),
        transpose=transpose_rule,
        batch=batch,
        sharding=by_labels(_other_dimensions, _check_removed),
        lower=lower,
        collective=True,
    )


def _other_dimensions(use: SplitUse) -> Labels:
    """The dimensions that stay; one may move between the members and the dimensions."""
    rank, given = len(use.results[0]), list(range(len(use.operands[0])))
    removed = _removed(use)
    kept: list[int | None] = [d for d in given if d != removed]
    if len(kept) < rank:
        place = use.params.get("concat", use.params.get("dimension"))
        kept = [*kept[:place], None, *kept[place:]]
    return Labels([given], [kept])


def _removed(use: SplitUse) -> int | None:
    """The dimension of the operand that is split among the members."""
    params = use.params
    is_removed = len(use.results[0]) < len(use.operands[0])
    removed: int | None = params["dimension"] if is_removed else params.get("split")
    return None if "permutation" in params else removed


def _check_removed(use: SplitUse) -> None:
    removed = _removed(use)
    if removed is not None and use.splits[0][removed]:
        raise use.fail(
            f"dimension {removed} is split among the members, so explicit axes must not split "
            f"it, got {use.typed(0)}"
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
    x: TensorType, axes: tuple[str, ...], dimension: int, size: int, groups: Groups = ()
) -> TensorType:
    check_groups("all_gather", groups, size=size)
    require(0 <= dimension <= x.rank, "all_gather", f"{dimension} is not a position in {x}")
    return x.with_shape(_insert(x.shape, dimension, size))


def _move_all_gather(
    x: ir.Value, dim: int | None, size: int, params: Params
) -> tuple[ir.Value, int | None]:
    return at_dim(x, dim, size, params["dimension"]), None


def _infer_psum_scatter(
    x: TensorType, axes: tuple[str, ...], dimension: int, size: int, groups: Groups
) -> TensorType:
    check_groups("psum_scatter", groups, size=size)
    _check_divided("psum_scatter", x, dimension, size)
    return x.with_shape(_without(x.shape, dimension))


def _move_psum_scatter(
    x: ir.Value, dim: int | None, size: int, params: Params
) -> tuple[ir.Value, int | None]:
    if dim is None:
        return ops.mul(x, full_like(x, size)), params["dimension"]
    return ops.reduce_sum(x, axes=(dim,)), params["dimension"]


_SIZED = '{axes = ["i"], dimension = 0 : i64, groups = [], size = 4 : i64} : '


def _own_slice(ct: ir.Value, params: Params) -> ir.Value:
    """The slice of an invariant value at the position of the member."""
    position = reshape(ops.axis_index(axes=params["axes"]), (1,))
    varying = ops.pvary(ct, axes=params["axes"])
    chosen = take(varying, position, params["dimension"])
    return reshape(chosen, _without(type_of(chosen).shape, params["dimension"]))


all_gather = _movement(
    "all_gather",
    "the values of all members of a named axis, stacked along a new dimension",
    {"dimension": INT, "size": INT, "groups": INT_LISTS},
    infer=_infer_all_gather,
    move=_move_all_gather,
    inner=_shifted("dimension"),
    transposed=lambda ct, params: ops.psum_scatter(ct, **params),
    lower=lower_all_gather,
    example=f"{_SIZED}(tensor<3xf32>) -> tensor<4x3xf32>",
)
all_gather_invariant = _movement(
    "all_gather_invariant",
    "the values of all members of a named axis, stacked along a new dimension, as an invariant "
    "value",
    {"dimension": INT, "size": INT},
    infer=_infer_all_gather,
    move=_move_all_gather,
    inner=_shifted("dimension"),
    transposed=_own_slice,
    lower=lower_all_gather,
    example=(
        '{axes = ["i"], dimension = 0 : i64, size = 4 : i64} : (tensor<3xf32>) -> tensor<4x3xf32>'
    ),
)
psum_scatter = _movement(
    "psum_scatter",
    "the sum over the members of a named axis; each member keeps its slice along a dimension",
    {"dimension": INT, "size": INT, "groups": INT_LISTS},
    infer=_infer_psum_scatter,
    move=_move_psum_scatter,
    inner=_shifted("dimension"),
    transposed=lambda ct, params: ops.all_gather(ct, **params),
    lower=lower_psum_scatter,
    example=f"{_SIZED}(tensor<4x3xf32>) -> tensor<3xf32>",
    work=work_rules.elementwise,
)


def _infer_all_to_all(
    x: TensorType, axes: tuple[str, ...], split: int, concat: int, size: int, groups: Groups
) -> TensorType:
    check_groups("all_to_all", groups, size=size)
    _check_divided("all_to_all", x, split, size)
    require(0 <= concat < x.rank, "all_to_all", f"{concat} is not a position in {x}")
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
    {"split": INT, "concat": INT, "size": INT, "groups": INT_LISTS},
    infer=_infer_all_to_all,
    move=_move_all_to_all,
    inner=_shifted("split", "concat"),
    transposed=lambda ct, params: ops.all_to_all(
        ct, **{**params, "split": params["concat"], "concat": params["split"]}
    ),
    lower=lower_all_to_all,
    example=(
        '{axes = ["i"], split = 0 : i64, concat = 1 : i64, groups = [], size = 4 : i64} : '
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
    "the value of the source of each member of a named axis, given as pairs (source, destination); "
    "zero for a member without a source",
    {"permutation": INT_LISTS},
    infer=_infer_ppermute,
    move=_move_ppermute,
    inner=lambda params: params,
    transposed=lambda ct, params: ops.ppermute(
        ct, axes=params["axes"], permutation=[pair[::-1] for pair in params["permutation"]]
    ),
    lower=lower_ppermute,
    example=(
        '{axes = ["i"], permutation = [array<i64: 0, 1>, array<i64: 1, 0>]} : '
        "(tensor<4xf32>) -> tensor<4xf32>"
    ),
)

__all__ = [
    "all_gather",
    "all_gather_invariant",
    "all_to_all",
    "ppermute",
    "psum_scatter",
]
