"""Collectives over a named axis: they mean something under the `vmap` that binds the name.

Mapping the axis replaces them: a `psum` of a batched value becomes a reduction of its batch
dimension. What is left of them when a program is lowered names an axis that nothing binds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon.dialects.attributes import STRINGS
from gnomon.dialects.combinators import Tangents, Values, batch_elementwise, jvp_linear
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
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType

_INT32 = np.dtype(np.int32)

Reduce = Callable[[ir.Value, int], ir.Value]


def _remaining(inst: Instance, axis: MappedAxis) -> tuple[str, ...]:
    return tuple(name for name in inst.params["axes"] if name != axis.name)


def _batch_reduction(reduce: Reduce, replicate: Callable[[ir.Value, int], ir.Value]) -> Any:
    """Batching of a reduction over named axes.

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
    """Members that attain the extremum share the tangent equally, as in ``reduce_max``."""
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

__all__ = ["axis_index", "pmax", "pmin", "psum"]
