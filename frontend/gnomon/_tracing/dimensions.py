"""Symbolic dimensions as arrays, in functions that are traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon._arrays.dtypes import default_int_dtype
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._tracing.stack import state
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import Dimension, is_symbolic_dim
from gnomon.dialects.symbolic.errors import InconclusiveDimensionOperation


def array_of(size: Dimension) -> Any:
    """A size as a scalar of the default integer dtype, weakly typed, like a Python integer."""
    if state.staging is None:
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension '{size}' has no value outside of a function that export traces"
        )
    return with_weak_type(bind(ops.dimension, size=size, dtype=default_int_dtype()), True)


def number(size: Any, dtype: np.dtype[Any]) -> Any:
    """A size as an operand: a NumPy scalar, or an array where it is symbolic."""
    if is_symbolic_dim(size):
        return bind(ops.dimension, size=size, dtype=dtype)
    return np.asarray(size, dtype)


def ramp(size: Any) -> Any:
    """``np.arange(size)``; for a symbolic size, a traced array of int32."""
    if is_symbolic_dim(size):
        return bind(ops.iota, dtype=np.dtype(np.int32), shape=(size,), dimension=0)
    return np.arange(size)


Dimension.as_array = staticmethod(array_of)
