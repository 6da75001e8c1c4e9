"""Exponentials, logarithms, powers, circular and hyperbolic functions."""

from __future__ import annotations

import numpy as np

from gnomon.dialects.combinators import binary, unary
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import INEXACT

exp = unary(
    "exp",
    doc="e to the power x",
    dtypes=INEXACT,
    evaluate=np.exp,
    jvp=lambda x, out: out,
    lower="exponential",
)
log = unary(
    "log",
    doc="natural logarithm",
    dtypes=INEXACT,
    evaluate=np.log,
    rule=lambda inst, outs, tangents: [ops.div(tangents[0], inst.operand)],
    lower="log",
)
sqrt = unary(
    "sqrt",
    doc="square root",
    dtypes=INEXACT,
    evaluate=np.sqrt,
    jvp=lambda x, out: ops.div(full_like(x, 0.5), out),
    lower="sqrt",
)
tanh = unary(
    "tanh",
    doc="hyperbolic tangent",
    dtypes=INEXACT,
    evaluate=np.tanh,
    jvp=lambda x, out: ops.sub(full_like(x, 1), ops.mul(out, out)),
    lower="tanh",
)
sin = unary(
    "sin",
    doc="sine",
    dtypes=INEXACT,
    evaluate=np.sin,
    jvp=lambda x, out: ops.cos(x),
    lower="sine",
)
cos = unary(
    "cos",
    doc="cosine",
    dtypes=INEXACT,
    evaluate=np.cos,
    jvp=lambda x, out: ops.neg(ops.sin(x)),
    lower="cosine",
)


def _pow_by_base(x: ir.Value, y: ir.Value, out: ir.Value) -> ir.Value:
    zero, one = full_like(y, 0), full_like(y, 1)
    at_zero = ops.eq(y, zero)
    power = ops.pow(x, ops.select(at_zero, one, ops.sub(y, one)))
    return ops.select(at_zero, zero, ops.mul(y, power))


def _pow_by_exponent(x: ir.Value, y: ir.Value, out: ir.Value) -> ir.Value:
    zero, one = full_like(x, 0), full_like(x, 1)
    return ops.mul(ops.log(ops.select(ops.eq(x, zero), one, x)), out)


pow_ = binary(
    "pow",
    doc="x to the power y",
    dtypes=INEXACT,
    evaluate=np.power,
    jvp=(_pow_by_base, _pow_by_exponent),
    lower="power",
)
