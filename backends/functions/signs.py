"""Signs and infinities of floating-point numbers."""

from __future__ import annotations

import numpy as np

from gnomon.backends.functions.double_length import format_of
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["has_sign", "is_infinite", "with_sign", "with_sign_of"]


def has_sign(x: ir.Value) -> ir.Value:
    """Whether the sign bit is set, which includes -0 and some nans."""
    bits = ops.bitcast_convert(x, dtype=np.dtype(f"i{type_of(x).dtype.itemsize}"))
    return ops.lt(bits, full_like(bits, 0))


def with_sign(magnitude: ir.Value, sign: ir.Value) -> ir.Value:
    """The negated magnitude where ``sign`` is true."""
    return ops.select(sign, ops.neg(magnitude), magnitude)


def is_infinite(x: ir.Value) -> ir.Value:
    """Whether a number is infinite, of either sign."""
    return ops.eq(ops.abs(x), full_like(x, np.inf))


def with_sign_of(magnitude: ir.Value, x: ir.Value) -> ir.Value:
    """``magnitude``, which is not negative, with the sign bit of ``x``."""
    format_ = format_of(x)
    sign = full_like(ops.bitcast_convert(x, dtype=format_.integer), np.iinfo(format_.integer).min)
    bits = ops.and_(ops.bitcast_convert(x, dtype=format_.integer), sign)
    whole = ops.or_(ops.bitcast_convert(magnitude, dtype=format_.integer), bits)
    return ops.bitcast_convert(whole, dtype=format_.dtype)
