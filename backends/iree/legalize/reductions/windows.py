"""Reductions of windows, folded one dimension after the other (`fold_windows`).

IREE 3.13's own kernels for them are wrong if a program has two. They add into an array of zeros,
and two of them share that array if their windows are alike, or if the program itself contains zeros
of that shape. On Vulkan, each thread then adds its share several times. The compiler crashes on
complex numbers, and its kernels read every element of every window. (Compared with these, folded
average pools of f32[8,64,64,16] take up to twice as long for 2 x 2, as long for 3 x 3, and half as
long for 7 x 7.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, always
from gnomon.backends.rewriting import Rule
from gnomon.dialects.combinators import accumulator, highest, lowest
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import constant, convert, ops, reshape, slice_along, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of
from gnomon.dialects.window_folds import fold_windows
from gnomon.dialects.windowed import first_of_two

__all__ = ["LEGALIZATIONS"]

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


def _sum(inst: Instance) -> Sequence[ir.Value] | None:
    dtype = inst.type.dtype
    if not inst.type.size:
        return None
    wide = convert(inst.operand, accumulator(dtype))
    zero = zeros(type_of(wide).with_shape(()))
    return [convert(_folded(wide, inst, "add", zero), dtype)]


def _extremum(combine: str, least: Callable[[np.dtype], np.ndarray]) -> Rule:
    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        if not inst.type.size:
            return None
        return [_folded(inst.operand, inst, combine, constant(least(inst.type.dtype)))]

    return rule


def _place(beyond: str, least: Callable[[np.dtype], np.ndarray]) -> Rule:
    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        (x,), (type_,) = inst.operands, inst.operand_types
        if not inst.type.size:
            return None
        places = reshape(ops.iota(dtype=_I32, shape=(type_.size,), dimension=0), type_.shape)
        outside = [constant(least(type_.dtype)), constant(np.asarray(type_.size, _I32))]
        found = _fold([x, places], outside, inst, lambda a, b: first_of_two(ops, beyond, a, b))
        return found[1:]

    return rule


_RULES: dict[str, Rule] = {
    "gnomon.window_argmax": _place("gt", lowest),
    "gnomon.window_argmin": _place("lt", highest),
    "gnomon.reduce_window_sum": _sum,
    "gnomon.reduce_window_max": _extremum("max", lowest),
    "gnomon.reduce_window_min": _extremum("min", highest),
}


LEGALIZATIONS = (
    Legalization(
        name="windows",
        stage=Stage.DECOMPOSE,
        kind=Kind.MISCOMPILED,
        doc="fold reductions of windows, one dimension after the other",
        upstream="IREE 3.13 adds up the windows of two reductions several times on GPUs without "
        "subgroups, and crashes on complex numbers",
        texts=("sums_of_windows_on_vulkan", "windows_of_complex_numbers_on_vulkan"),
        reproducer="a maximum and three sums of equal windows, on `vulkan:portable`, are added up",
        rules=always(_RULES),
    ),
)
