"""The model of aliases: which ops share the buffer of an operand, or read it in place.

IREE goes wrong where a buffer is written while something else still reads it, or where a kernel
reads an operand through another op. Each set says for which of its decisions it holds; the names
are without the dialect, since the ops are the same in the gnomon dialect and in StableHLO.

After kernels are formed, buffers are those of IREE's own ops: see `in_place`.
"""

from __future__ import annotations

from typing import Final

from gnomon.dialects.mlir import ir

__all__ = [
    "MOVES_DIMENSIONS",
    "PADDED_IN_PLACE",
    "READ_IN_PLACE",
    "REARRANGES",
    "SAME_BUFFER",
    "UPDATES",
    "name_of",
]

# The result is written into the buffer of the first operand, if nothing else needs that buffer.
UPDATES: Final = frozenset(
    {
        *("dynamic_update_slice", "scatter"),
        *("scatter_add", "scatter_mul", "scatter_min", "scatter_max"),
    }
)

# The result is the buffer of the operand: the same bytes in the same order.
SAME_BUFFER: Final = frozenset({"reshape", "bitcast_convert", "optimization_barrier"})

# A kernel that reads the result at one place reads the operand at others: no array is made of a
# broadcast or a transpose. These are the ones whose dimensions are not those of memory.
MOVES_DIMENSIONS: Final = frozenset({"broadcast_in_dim", "transpose"})

# The result has the elements of the operand in another shape, and no kernel of its own.
REARRANGES: Final = MOVES_DIMENSIONS | {"reshape"}

# The same, with ops that read the bytes of an element as another type.
READ_IN_PLACE: Final = REARRANGES | {"bitcast_convert"}

# IREE puts padding between elements by writing the array into the padded one. It does the same if
# one of these ops is in between, and then makes an earlier update in the padded array.
PADDED_IN_PLACE: Final = frozenset({"bitcast_convert", "convert", "reshape", "pad"})


def name_of(op: ir.Operation | ir.OpView) -> str:
    """The name of an operation without that of its dialect."""
    return str(op.name).partition(".")[2]
