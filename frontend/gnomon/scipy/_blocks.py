"""Maps over rows that need a table of each row with many others: a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnomon import lax
from gnomon._arrays.array import Array
from gnomon._transformations.vmap import vmap
from gnomon.dialects.symbolic.dimension import is_symbolic_dim

__all__ = ["map_in_blocks"]

# The number of elements of a block's table: 16 MiB in float32.
_AT_ONCE = 1 << 22


def map_in_blocks(f: Callable[[Array], Any], rows: Array, width: Any) -> Any:
    """Apply a function to each row, to as many at once as a table of bounded size allows.

    Args:
      f: maps a row to a pytree of arrays.
      rows: an array with the rows along its first dimension.
      width: the number of elements that ``f`` computes for a row.
    """
    count = rows.shape[0]
    if is_symbolic_dim(count) or is_symbolic_dim(width) or count * width <= _AT_ONCE:
        return vmap(f)(rows)
    return lax.map(f, rows, batch_size=max(1, _AT_ONCE // width))
