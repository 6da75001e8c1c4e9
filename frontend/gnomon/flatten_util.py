"""Pytrees of arrays as one vector, and back."""

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
    """All elements of a pytree of arrays in one vector.

    Args:
      pytree: arrays and scalars.
    Returns:
      ``(flat, unravel)``: a vector of the dtype that those of the leaves promote to (float32, where
      there is no leaf), and a function that makes such a pytree of a vector of the same length.
      Where the leaves are of one dtype, that function takes a vector of any dtype.
    Raises:
      TypeError: by ``unravel``: a vector of another dtype, where the leaves are of several.
      ValueError: by ``unravel``: a vector of another length.

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
    """Makes a pytree of a vector; equal ones make the same, so they are one static argument.

    Attributes:
      tree: the structure.
      shapes, dtypes: of the leaves.
      expected: the dtype of the vector; None for any.
    """

    tree: Any
    shapes: Shapes
    dtypes: DTypes
    expected: np.dtype[Any] | None

    def __call__(self, flat: Any) -> Any:
        """The pytree of a vector."""
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
    # What is real here was real before.
    if is_complex(x.dtype) and not is_complex(dtype):
        x = lax.real(x)
    return converted(x, dtype)
