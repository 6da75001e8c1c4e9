"""Sums of cotangents, to which an op that reads a part of an array adds that part alone.

The cotangent of ``a[i]`` for ``a`` is an array of zeros with one row in it. Added as an array to
what other reads gave, it would make each step of a loop over rows pass over the whole array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from gnomon.dialects.contract import Instance, instance_of
from gnomon.dialects.emit import constant_value, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["add_cotangents"]


def add_cotangents(a: ir.Value, b: ir.Value) -> ir.Value:
    """The sum of two cotangents of a value; an update of zeros is made in the other one instead."""
    for total, term in ((a, b), (b, a)):
        owner = term.owner
        if not isinstance(owner, ir.Block) and owner.operation.name in _UPDATES:
            update = instance_of(owner.operation)
            if _is_zero(update.operands[0]):
                return _UPDATES[owner.operation.name](total, update)
    return ops.add(a, b)


def _is_zero(value: ir.Value) -> bool:
    found = constant_value(value)
    # A literal that repeats one number is an array without strides.
    return found is not None and not any(found.strides) and not np.any(found.flat[:1])


def _add_window(total: ir.Value, update: Instance) -> ir.Value:
    _, window, *starts = update.operands
    old = ops.dynamic_slice(total, *starts, sizes=type_of(window).shape)
    return ops.dynamic_update_slice(total, ops.add(old, window), *starts)


def _add_scattered(total: ir.Value, update: Instance) -> ir.Value:
    return ops.scatter_add(total, *update.operands[1:], **update.params)


_Update: TypeAlias = "Callable[[ir.Value, Instance], ir.Value]"

_UPDATES: dict[str, _Update] = {
    "gnomon.dynamic_update_slice": _add_window,
    "gnomon.scatter_add": _add_scattered,
}
