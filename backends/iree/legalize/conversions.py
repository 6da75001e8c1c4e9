"""Conversions that IREE compiles to a call of a function that nothing provides, or to another
value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.backends.iree.legalize.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import BOOL, bfloat16, is_integer, type_of

__all__ = ["RULES"]

_FLOAT32 = np.dtype(np.float32)


def _to_bfloat16(x: ir.Value) -> ir.Value:
    """An f32 value rounded to bf16, kept apart from how it was computed.

    LLVM fuses a conversion to f32 with the one to bf16 behind it to a call of ``__truncsfbf2``,
    which no library on the machine provides: the process would end when the kernel is first called.
    """
    return ops.convert(ops.optimization_barrier(x)[0], dtype=bfloat16)


def _convert(inst: Instance) -> Sequence[ir.Value] | None:
    x = inst.operand
    source, target = type_of(x).dtype, inst.type.dtype
    if target == bfloat16 and (is_integer(source) or source == BOOL):
        return [_to_bfloat16(ops.convert(x, dtype=_FLOAT32))]
    return None


def _iota(inst: Instance) -> Sequence[ir.Value] | None:
    if inst.type.dtype != bfloat16:
        return None
    return [_to_bfloat16(ops.iota(**(inst.params | {"dtype": _FLOAT32})))]


RULES: dict[str, Rule] = {"gnomon.convert": _convert, "gnomon.iota": _iota}
