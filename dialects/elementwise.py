"""Elementwise arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects.combinators import Tangents, Values, binary, jvp_linear, nary, unary
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import add_tangents, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import ANY, NUMERIC


def _jvp_add(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    return [add_tangents(*tangents)]


def _jvp_sub(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    a, b = tangents
    if b is None:
        return [a]
    return [ops.neg(b) if a is None else ops.sub(a, b)]


def _transpose_mul(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (ct,) = cotangents
    x, y = inst.operands
    return [ops.mul(ct, y) if linear[0] else None, ops.mul(x, ct) if linear[1] else None]


add = nary(
    "add",
    2,
    doc="x + y; logical or on bool",
    dtypes=ANY,
    evaluate=np.add,
    jvp=_jvp_add,
    transpose=lambda inst, cts, linear: [cts[0] if is_linear else None for is_linear in linear],
    lower="add",
)
sub = binary(
    "sub",
    doc="x - y",
    dtypes=NUMERIC,
    evaluate=np.subtract,
    rule=_jvp_sub,
    transpose=lambda inst, cts, linear: [
        cts[0] if linear[0] else None,
        ops.neg(cts[0]) if linear[1] else None,
    ],
    lower="subtract",
)
mul = binary(
    "mul",
    doc="x * y; logical and on bool",
    dtypes=ANY,
    evaluate=np.multiply,
    jvp=(lambda x, y, out: y, lambda x, y, out: x),
    transpose=_transpose_mul,
    lower="multiply",
)
neg = unary(
    "neg",
    doc="-x",
    dtypes=NUMERIC,
    evaluate=np.negative,
    rule=jvp_linear,
    transpose=lambda inst, cts, linear: [ops.neg(cts[0])],
    lower="negate",
)
sin = unary(
    "sin",
    doc="sine",
    dtypes=NUMERIC,
    evaluate=np.sin,
    jvp=lambda x, out: ops.cos(x),
    lower="sine",
)
cos = unary(
    "cos",
    doc="cosine",
    dtypes=NUMERIC,
    evaluate=np.cos,
    jvp=lambda x, out: ops.neg(ops.sin(x)),
    lower="cosine",
)
