"""Powers with a literal half-integer exponent, as roots and products.

A general power is a logarithm, a product in two parts, an exponential, and selects for the edge
cases: ten nanoseconds per element. ``r ** -1.5``, as in the law of gravitation, takes only a square
root, a product and a quotient. In f64 these overflow for no f32, and are accurate enough to round
to f32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets, always
from gnomon.backends.rewriting import SpecialCase
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import constant_value, convert, full_like, ops
from gnomon.dialects.mlir import ir

__all__ = ["LEGALIZATIONS"]

_F64 = np.dtype(np.float64)
_MAX_EXPONENT = 4


def _power(inst: Instance) -> Sequence[ir.Value] | None:
    dtype = inst.type.dtype
    if dtype != np.float32:
        return None
    x, y = inst.operands
    exponent = _literal(y)
    if exponent is None or 2 * exponent % 2 != 1 or abs(exponent) > _MAX_EXPONENT:
        return None
    wide = convert(x, _F64)
    # sqrt gives -0 for -0 and nan for -inf, but the powers of both are those of 0 and infinity.
    is_edge = ops.or_(ops.eq(wide, full_like(wide, 0)), ops.eq(wide, full_like(wide, -np.inf)))
    base = ops.select(is_edge, ops.abs(wide), wide)
    power = ops.sqrt(base)
    for _ in range(int(abs(exponent))):
        power = ops.mul(power, base)
    if exponent < 0:
        power = ops.div(full_like(power, 1), power)
    return [convert(power, dtype)]


def _literal(value: ir.Value) -> float | None:
    """The number that all elements of a value are, if it is a finite literal."""
    while not isinstance(value.owner, ir.Block) and value.owner.name == "gnomon.broadcast_in_dim":
        (value,) = value.owner.operands
    array = constant_value(value)
    if array is None or not array.size or (array != array.flat[0]).any():
        return None
    number = float(array.flat[0])
    return number if np.isfinite(number) else None


LEGALIZATIONS = (
    Legalization(
        name="half-powers",
        stage=Stage.DECOMPOSE,
        kind=Kind.SLOW,
        doc="write powers with a literal half-integer exponent as roots and products",
        upstream="a power is a logarithm, a product and an exponential: 10 ns per element",
        reproducer="`x ** 1.5` takes three times as many operations",
        targets=Targets.where(f64=True),
        rules=always({"gnomon.pow": SpecialCase(_power)}),
    ),
)
