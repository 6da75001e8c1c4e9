"""Indexing: ``gather`` and the scatter family, with the dimension numbers of XLA.

An index row, the last dimension of ``indices``, is the start of one window of the operand; gather
reads windows, scatter writes them. `windows` resolves the dimension numbers, for all six ops alike.
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
