"""Dtypes that IREE handles badly, stored as other dtypes while an op moves or combines elements."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, form_of
from gnomon.dialects.types import (
    BOOL,
    UNSIGNED,
    TensorType,
    is_floating,
)

__all__ = ["Storage", "storage_of"]

_EXTREMA = ("scatter_min", "scatter_max", "cummax", "cummin")
_I8 = np.dtype(np.int8)
_F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Storage:
    """The representation in which an op works on a dtype.

    Attributes:
      op: the op to use on stored values, without "gnomon.".
      store: converts a value to its stored form.
      load: converts a stored value back to a type.
      is_plain: whether values are stored unchanged.
    """

    op: str
    store: Callable[[ir.Value], ir.Value]
    load: Callable[[ir.Value, TensorType], ir.Value]
    is_plain: bool = False


def _plain(op: str) -> Storage:
    return Storage(op, lambda x: x, lambda x, type_: x, is_plain=True)


def _converted(op: str, dtype: np.dtype) -> Storage:
    return Storage(op, lambda x: convert(x, dtype), lambda x, type_: convert(x, type_.dtype))


def _bits(op: str, dtype: np.dtype) -> Storage:
    return Storage(
        op,
        lambda x: ops.bitcast_convert(x, dtype=dtype),
        lambda x, type_: ops.bitcast_convert(x, dtype=type_.dtype),
    )


def _shifted(op: str, dtype: np.dtype) -> Storage:
    """Store unsigned numbers as signed ones in the same order, by flipping the top bit."""

    def flip(x: ir.Value) -> ir.Value:
        return ops.xor(x, full_like(x, np.iinfo(dtype).min))

    return Storage(
        op,
        lambda x: flip(ops.bitcast_convert(x, dtype=dtype)),
        lambda x, type_: ops.bitcast_convert(flip(x), dtype=type_.dtype),
    )


# On bools a sum is "or" and a product "and".
_OF_BOOLS = {"scatter_add": "scatter_max", "scatter_mul": "scatter_min"}


@functools.cache
def storage_of(name: str, dtype: np.dtype) -> Storage:
    """The representation in which an op, given by its full name, works on a dtype."""
    op = name.removeprefix("gnomon.")
    if dtype == BOOL:
        return _converted(_OF_BOOLS.get(op, op), _I8)
    if dtype in UNSIGNED:
        signed = np.dtype(f"i{dtype.itemsize}")
        return _shifted(op, signed) if op in _EXTREMA else _bits(op, signed)
    if is_floating(dtype) and dtype.itemsize < 4:
        if form_of(name) in (Form.VIEW, Form.INDEXING) or op == "scatter":
            return _bits(op, np.dtype(f"i{dtype.itemsize}"))
        if op.startswith("scatter_"):
            # In f32, updates are rounded once, as the evaluator does.
            return _converted(op, _F32)
    return _plain(op)
