"""Collectives over named axes: reductions, positions, and the cast from invariant to varying.

A collective is defined under the `vmap` or the `shard_map` that binds the name of its axis. Mapping
the axis replaces the collective: a `psum` of a batched value becomes a reduction over its batch
dimension. In a program that is partitioned over a mesh, collectives over axes of the mesh become
collectives of StableHLO. Any other collective in a program to lower names an unbound axis.

Under a `shard_map` that checks varying axes, a value is *varying* over an axis if it may differ
between its members, and *invariant* otherwise. Reductions whose names end in ``_invariant`` take
varying values to invariant ones, and ``pvary`` is the identity from invariant to varying.
``psum_invariant`` and ``pvary`` are transposes of each other. ``psum`` gives every member its own
copy of the sum, and is its own transpose.

Reductions take several axis names. Collectives that move data take one; see
`collective_movements`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INT_LISTS, STRINGS, Kind
from gnomon.dialects.collective_groups import Groups, apply_within_groups, check_groups
from gnomon.dialects.collective_lowering import lower_axis_index, lower_reduction
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    batch_elementwise,
    combiner,
    jvp_linear,
    larger,
    require,
    smaller,
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
    Rule,
)
from gnomon.dialects.emit import at_dim, broadcast_new_dim, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, linear
from gnomon.dialects.types import TensorType

_INT32 = np.dtype(np.int32)

# Reduces one dimension of a value.
Reduce: TypeAlias = "Callable[[ir.Value, int], ir.Value]"
# The reduction of a number of equal values.
Replicate: TypeAlias = "Callable[[ir.Value, int], ir.Value]"


def remaining_axes(inst: Instance, axis: MappedAxis) -> tuple[str, ...]:
    """The axis names of a collective without that of the mapped axis."""
    return tuple(name for name in inst.params["axes"] if name != axis.name)


def _reduce_within_groups(x: ir.Value, groups: Groups, size: int, reduce: Reduce) -> ir.Value:
    return apply_within_groups(
        x, groups, size, lambda v, length: broadcast_new_dim(reduce(v, 1), length, 1)
    )


def _batch_reduction(reduce: Reduce, replicate: Replicate) -> Any:
    """The batching rule of a reduction over named axes."""

    def rule(
        inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
    ) -> tuple[list[ir.Value], list[int | None]]:
        if axis.name not in inst.params["axes"]:
            return batch_elementwise(inst, operands, dims, axis)  # type: ignore[return-value]
        (x,), (dim,) = operands, dims
        if groups := inst.params.get("groups"):
            front = at_dim(x, dim, axis.size)
            return [_reduce_within_groups(front, groups, axis.size, reduce)], [0]
        total = replicate(x, axis.size) if dim is None else reduce(x, dim)
        rest = remaining_axes(inst, axis)
        return [inst.op.build([total], {**inst.params, "axes": rest})[0] if rest else total], [None]

    return rule


def _reduction(
    name: str,
    doc: str,
    reduce: Reduce,
    replicate: Replicate,
    combine: Rule,
    jvp: Facet,
    transpose: Facet,
) -> Op:
    invariant = name.endswith("_invariant")
    attributes: dict[str, Kind] = {"axes": STRINGS}
    if not invariant:
        attributes["groups"] = INT_LISTS

    def infer(x: TensorType, axes: tuple[str, ...], groups: Groups = ()) -> TensorType:
        check_groups(name, groups)
        require(not groups or len(axes) == 1, name, f"groups need a single axis, got {axes}")
        return x

    given = '{axes = ["i"]}' if invariant else '{axes = ["i"], groups = []}'
    return Op(
        name=name,
        doc=doc,
        example=f'%r = "gnomon.{name}"(%x) {given} : (tensor<4xf32>) -> tensor<4xf32>',
        attributes=attributes,
        operands=("x",),
        form=Form.COLLECTIVE,
        work=work_rules.elementwise,
        infer=infer,
        evaluate=EXPANDED,
        jvp=jvp,
        linear=linear() if callable(transpose) else None,
        transpose=transpose,
        batch=_batch_reduction(reduce, replicate),
        sharding=sharding_rules.elementwise,
        lower=lower_reduction(combine),
        collective=True,
    )


def _transposed_to(op: str) -> Any:
    """The transpose rule of a collective whose transpose is a collective of equal parameters."""

    def rule(inst: Instance, cotangents: Tangents, linear: Sequence[bool]) -> list[ir.Value | None]:
        (ct,) = cotangents
        return [None if ct is None else getattr(ops, op)(ct, **inst.params)]

    return rule


def _jvp_extremum(total: str) -> Any:
    """Average the tangents of the members that attain the extremum, as ``reduce_max`` does."""

    def rule(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
        (x,), (out,), (tangent,) = inst.operands, outs, tangents
        sum_ = getattr(ops, total)
        if total == "psum_invariant":
            out = ops.pvary(out, **inst.params)
        attains = ops.convert(ops.eq(x, out), dtype=inst.type.dtype)
        assert tangent is not None
        return [
            ops.div(sum_(ops.mul(tangent, attains), **inst.params), sum_(attains, **inst.params))
        ]

    return rule


_INVARIANT = ", as an invariant value"


def _sum(x: ir.Value, dim: int) -> ir.Value:
    total: ir.Value = ops.reduce_sum(x, axes=(dim,))
    return total


def _largest(x: ir.Value, dim: int) -> ir.Value:
    largest: ir.Value = ops.reduce_max(x, axes=(dim,))
    return largest


def _smallest(x: ir.Value, dim: int) -> ir.Value:
    smallest: ir.Value = ops.reduce_min(x, axes=(dim,))
    return smallest


def _times(x: ir.Value, size: int) -> ir.Value:
    product: ir.Value = ops.mul(x, full_like(x, size))
    return product


def _once(x: ir.Value, size: int) -> ir.Value:
    return x


_SUM = "the sum over the members of named axes"
_LARGEST = "the largest of the members of named axes"
_SMALLEST = "the smallest of the members of named axes"

psum = _reduction("psum", _SUM, _sum, _times, combiner("add"), jvp_linear, _transposed_to("psum"))
pmax = _reduction("pmax", _LARGEST, _largest, _once, larger, _jvp_extremum("psum"), NOT_LINEAR)
pmin = _reduction("pmin", _SMALLEST, _smallest, _once, smaller, _jvp_extremum("psum"), NOT_LINEAR)
psum_invariant = _reduction(
    "psum_invariant",
    _SUM + _INVARIANT,
    _sum,
    _times,
    combiner("add"),
    jvp_linear,
    _transposed_to("pvary"),
)
pmax_invariant = _reduction(
    "pmax_invariant",
    _LARGEST + _INVARIANT,
    _largest,
    _once,
    larger,
    _jvp_extremum("psum_invariant"),
    NOT_LINEAR,
)
pmin_invariant = _reduction(
    "pmin_invariant",
    _SMALLEST + _INVARIANT,
    _smallest,
    _once,
    smaller,
    _jvp_extremum("psum_invariant"),
    NOT_LINEAR,
)


def _batch_pvary(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    # All members hold the same invariant value, so it needs no batch dimension.
    (x,), (dim,) = operands, dims
    rest = remaining_axes(inst, axis)
    return [ops.pvary(x, axes=rest) if rest else x], [dim]


pvary = Op(
    name="pvary",
    doc="the operand, invariant over named axes, as a value that varies over them",
    example='%r = "gnomon.pvary"(%x) {axes = ["i"]} : (tensor<4xf32>) -> tensor<4xf32>',
    attributes={"axes": STRINGS},
    operands=("x",),
    form=Form.IDENTITY,
    work=work_rules.nothing,
    infer=lambda x, axes: x,
    evaluate=EXPANDED,
    jvp=jvp_linear,
    linear=linear(),
    transpose=_transposed_to("psum_invariant"),
    batch=_batch_pvary,
    sharding=sharding_rules.elementwise,
    lower=lambda inst: inst.operands,
    collective=True,
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
    form=Form.COLLECTIVE,
    work=work_rules.nothing,
    infer=lambda axes: TensorType((), _INT32),
    evaluate=EXPANDED,
    jvp=ZERO_TANGENT,
    transpose=NO_REVERSE,
    batch=_batch_axis_index,
    sharding=sharding_rules.creation,
    lower=lower_axis_index,
    collective=True,
)

__all__ = [
    "axis_index",
    "pmax",
    "pmax_invariant",
    "pmin",
    "pmin_invariant",
    "psum",
    "psum_invariant",
    "pvary",
    "remaining_axes",
]
