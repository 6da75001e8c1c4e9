"""Indexing: ``gather`` and the scatter family, with the dimension numbers of XLA.

An index row (a slice along the last dimension of ``indices``) is the start of one window of the
operand. Gather reads windows, scatter writes them. `windows` resolves the dimension numbers for
all six ops.
"""

from gnomon.dialects.indexing.gather import default_fill_value, gather
from gnomon.dialects.indexing.scatter import (
    scatter,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_mul,
)

__all__ = [
    "default_fill_value",
    "gather",
    "scatter",
    "scatter_add",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
]
