"""The model of aliases: which ops share the buffer of an operand, or read it in place.

IREE goes wrong where a buffer is written while something else still reads it, or where a kernel
reads an operand through another op. The comment on each set describes the behaviour that its ops
share. Names omit the dialect, since the ops are the same in the gnomon dialect and in StableHLO.

Once IREE has formed kernels, its own ops determine the buffers: see `in_place`.
"""

from __future__ import annotations

from typing import Final

from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, form_of

__all__ = [
    "MOVES_DIMENSIONS",
    "PADDED_IN_PLACE",
    "READ_IN_PLACE",
    "REARRANGES",
    "SAME_BUFFER",
    "is_update",
    "name_of",
]

# The result is the buffer of the operand: the same bytes in the same order.
SAME_BUFFER: Final = frozenset({"reshape", "bitcast_convert", "optimization_barrier"})

# The result is never stored: a kernel that reads it reads the operand instead, at other indices.
# The dimensions of these results are not in the order of memory.
MOVES_DIMENSIONS: Final = frozenset({"broadcast_in_dim", "transpose"})

# The result has the operand's elements in another shape or order, and no kernel computes it.
REARRANGES: Final = MOVES_DIMENSIONS | {"reshape"}

# `REARRANGES`, and the op that reads the bytes of an element as another type.
READ_IN_PLACE: Final = REARRANGES | {"bitcast_convert"}

# IREE pads between elements by writing the array into the padded one. It does so even if one of
# these ops is between the array and the pad, and then runs an earlier update in the padded array.
PADDED_IN_PLACE: Final = frozenset({"bitcast_convert", "convert", "reshape", "pad"})


def is_update(op: ir.Operation | ir.OpView) -> bool:
    """Whether an op writes its result into the buffer of the first operand.

    It does so if nothing else needs that buffer.
    """
    return form_of(op.name) is Form.SCATTER or name_of(op) == "dynamic_update_slice"


def name_of(op: ir.Operation | ir.OpView) -> str:
    """The name of an operation without the name of its dialect."""
    return str(op.name).partition(".")[2]
