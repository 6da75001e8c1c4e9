"""Reductions of windows.

- Complex numbers crash IREE 3.13: their parts are summed.
- Every element of a window is visited for every window: those of many elements are folded instead
  (`gnomon.dialects.windowed.fold_windows`), which takes time linear in the operand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gnomon.backends.rewriting import Rule
from gnomon.dialects.combinators import accumulator, highest, lowest
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import constant, convert, ops, reshape, slice_along, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_complex, type_of
from gnomon.dialects.windowed import first_of_two, fold_windows

__all__ = ["RULES"]

# Elements of a window from which on folding is faster.
_MANY = 64
_I32 = np.dtype(np.int32)


def _fold(
    parts: Sequence[ir.Value],
    identities: Sequence[ir.Value],
    inst: Instance,
    combine: Callable[[Sequence[ir.Value], Sequence[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    params = inst.params
    low, high, base = (params[k] for k in ("padding_low", "padding_high", "base_dilation"))
    gaps = tuple(b - 1 for b in base)
    padded = [
        ops.pad(x, identity, low=low, high=high, interior=gaps)
        for x, identity in zip(parts, identities, strict=True)
    ]
    return fold_windows(padded, type_of(padded[0]).shape, params, slice_along, combine)


def _folded(x: ir.Value, inst: Instance, combine: str, identity: ir.Value) -> ir.Value:
    return _fold([x], [identity], inst, lambda a, b: [getattr(ops, combine)(a[0], b[0])])[0]


def _has_many(inst: Instance) -> bool:
    return math.prod(inst.params["window_dimensions"]) >= _MANY and inst.type.size > 0


def _sum(inst: Instance) -> Sequence[ir.Value] | None:
    x, dtype = inst.operand, inst.type.dtype
    if is_complex(dtype) and inst.type.size:
        real, imag = (
            inst.op(part, **inst.params)
            if not _has_many(inst)
            else _folded(part, inst, "add", zeros(type_of(part).with_shape(())))
            for part in (ops.real(x), ops.imag(x))
        )
        return [ops.complex(real, imag)]
    if not _has_many(inst):
        return None
    wide = convert(x, accumulator(dtype))
    return [convert(_folded(wide, inst, "add", zeros(type_of(wide).with_shape(()))), dtype)]


def _max(inst: Instance) -> Sequence[ir.Value] | None:
    if not _has_many(inst):
        return None
    return [_folded(inst.operand, inst, "max", constant(lowest(inst.type.dtype)))]


def _min(inst: Instance) -> Sequence[ir.Value] | None:
    if not _has_many(inst):
        return None
    return [_folded(inst.operand, inst, "min", constant(highest(inst.type.dtype)))]


def _place(beyond: str, least: Callable[[np.dtype], np.ndarray]) -> Rule:
    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        (x,), (type_,) = inst.operands, inst.operand_types
        if not _has_many(inst):
            return None
        places = reshape(ops.iota(dtype=_I32, shape=(type_.size,), dimension=0), type_.shape)
        outside = [constant(least(type_.dtype)), constant(np.asarray(type_.size, _I32))]
        found = _fold([x, places], outside, inst, lambda a, b: first_of_two(ops, beyond, a, b))
        return found[1:]

    return rule


RULES: dict[str, Rule] = {
    "gnomon.window_argmax": _place("gt", lowest),
    "gnomon.window_argmin": _place("lt", highest),
    "gnomon.reduce_window_sum": _sum,
    "gnomon.reduce_window_max": _max,
    "gnomon.reduce_window_min": _min,
}
