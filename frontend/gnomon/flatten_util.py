"""Conversion of pytrees of arrays to one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon import lax, tree_util
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand
from gnomon.dialects.types import is_complex
from gnomon.lax._creation import converted

__all__ = ["ravel_pytree"]

Shapes = tuple[tuple[int, ...], ...]
DTypes = tuple[np.dtype[Any], ...]


def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """Flatten a pytree of arrays to one vector.

    Args:
      pytree: arrays and scalars.
    Returns:
      ``(flat, unravel)``: a vector of the dtype that the leaves promote to (float32 if there are no
      leaves), and a function that converts a vector of the same length to such a pytree. If all
      leaves have the same dtype, ``unravel`` takes vectors of any dtype. Otherwise it raises
      ``TypeError`` for a vector of another dtype; it raises ``ValueError`` for one of another
      length.

    Example:
      >>> import gnomon.numpy as gnp
      >>> flat, unravel = ravel_pytree({"a": gnp.ones(2), "b": gnp.zeros((1, 2))})
      >>> flat
      Array([1., 1., 0., 0.], dtype=float32)
      >>> unravel(2 * flat)
      {'a': Array([2., 2.], dtype=float32), 'b': Array([[0., 0.]], dtype=float32)}
    """
    leaves, tree = tree_util.tree_flatten(pytree)
    arrays = [as_operand(leaf) for leaf in leaves]
    if not arrays:
        return lax.full((0,), 0, np.float32), _Unravel(tree, (), (), None)
    dtypes = tuple(x.dtype for x in arrays)
    common = _dtypes.result_type(*dtypes)
    flat = lax.concatenate(
        [lax.reshape(converted(x, common, x.aval.weak_type), (x.size,)) for x in arrays], 0
    )
    shapes = tuple(x.shape for x in arrays)
    expected = None if all(d == common for d in dtypes) else common
    return flat, _Unravel(tree, shapes, dtypes, expected)


@dataclass(frozen=True)
class _Unravel:
    """A function from a vector to a pytree; comparable, so that it can be a static argument.

    Attributes:
      tree: the structure of the pytree.
      shapes, dtypes: the shapes and dtypes of the leaves.
      expected: the dtype of the vector; None for any.
    """

    tree: Any
    shapes: Shapes
    dtypes: DTypes
    expected: np.dtype[Any] | None

    def __call__(self, flat: Any) -> Any:
        """Convert a vector to a pytree."""
        vector, expected = as_operand(flat), self.expected
        if expected is not None and vector.dtype != expected:
            raise TypeError(
                f"unravel function given array of dtype {vector.dtype}, but expected dtype "
                f"{expected}"
            )
        sizes = [math.prod(shape) for shape in self.shapes]
        if vector.shape != (sum(sizes),):
            raise ValueError(
                f"unravel function given array of shape {vector.shape}, but expected "
                f"({sum(sizes)},)"
            )
        parts = [
            lax.reshape(part, shape)
            for part, shape in zip(
                lax.split(vector, sizes) if sizes else [], self.shapes, strict=True
            )
        ]
        if expected is not None:
            parts = [_as_dtype(part, dtype) for part, dtype in zip(parts, self.dtypes, strict=True)]
        return tree_util.tree_unflatten(self.tree, parts)


def _as_dtype(x: Array, dtype: np.dtype[Any]) -> Array:
    # Leaves that are real here were real before flattening.
    if is_complex(x.dtype) and not is_complex(dtype):
        x = lax.real(x)
    return converted(x, dtype)
