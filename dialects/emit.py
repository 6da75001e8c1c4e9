"""Building IR in rules: ``ops.mul(t, ops.cos(x))`` and a few common composites.

``ops`` looks up an op in the registry when it is called, so that modules can use each other's ops
without importing each other. A trailing underscore is dropped: ``ops.and_``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.dialects.contract import REGISTRY, Op, params_of
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import any_symbolic
from gnomon.dialects.types import TensorType, is_complex, real_dtype, type_of


class _Ops:
    """Attribute access to the registry."""

    def __getattr__(self, name: str) -> Op:
        try:
            op = REGISTRY[f"gnomon.{name.rstrip('_')}"]
        except KeyError:
            raise AttributeError(f"the gnomon dialect has no op '{name}'") from None
        setattr(self, name, op)
        return op


ops: Any = _Ops()


def constant(value: Any) -> ir.Value:
    """A literal array; complex values are stored as pairs, since the bindings lack complex ones."""
    array = np.asarray(value)
    dtype = array.dtype
    if is_complex(dtype):
        array = np.stack([array.real, array.imag], axis=-1)
    return ops.constant(value=array, dtype=dtype)


def constant_value(value: ir.Value) -> np.ndarray | None:
    """The literal array of a `constant`, as stored; None if another op defines the value."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "gnomon.constant":
        return None
    array: np.ndarray = params_of(owner.operation)["value"]
    return array


def full(type_: TensorType, value: Any) -> ir.Value:
    """A constant that repeats one value, stored as a splat."""
    array = np.asarray(value).astype(type_.dtype)
    if any_symbolic(type_.shape):
        dims = tuple(range(type_.rank - array.ndim, type_.rank))
        return ops.broadcast_in_dim(constant(array), shape=type_.shape, dims=dims)
    if array.ndim:
        return constant(np.broadcast_to(array, type_.shape))
    # The same as np.broadcast_to, in a tenth of the time.
    return constant(np.ndarray(type_.shape, type_.dtype, array, 0, (0,) * len(type_.shape)))


def full_like(x: ir.Value, value: Any) -> ir.Value:
    """`full` with the type of ``x``."""
    return full(type_of(x), value)


def zeros(type_: TensorType) -> ir.Value:
    """The zero of a type."""
    return full(type_, 0)


def scale(x: ir.Value, factor: Any) -> ir.Value:
    """``factor * x`` for a Python number."""
    return ops.mul(x, full_like(x, factor))


def convert(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """Convert ``x`` to a dtype; ``x`` itself if it has that dtype."""
    dtype = np.dtype(dtype)
    return x if type_of(x).dtype == dtype else ops.convert(x, dtype=dtype)


def reshape(x: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Reshape ``x``; ``x`` itself if it has that shape."""
    shape = tuple(shape)
    return x if type_of(x).shape == shape else ops.reshape(x, shape=shape)


def transpose(x: ir.Value, permutation: Sequence[int]) -> ir.Value:
    """Permute the dimensions of ``x``; ``x`` itself for the identity permutation."""
    permutation = tuple(permutation)
    if permutation == tuple(range(len(permutation))):
        return x
    return ops.transpose(x, permutation=permutation)


def move_dim(x: ir.Value, source: int, destination: int) -> ir.Value:
    """Move one dimension; the others keep their order."""
    order = [d for d in range(type_of(x).rank) if d != source]
    order.insert(destination, source)
    return transpose(x, order)


def broadcast_new_dim(x: ir.Value, size: int, dim: int = 0) -> ir.Value:
    """Broadcast ``x`` along a new dimension of ``size`` at ``dim``."""
    shape = type_of(x).shape
    new = (*shape[:dim], size, *shape[dim:])
    return ops.broadcast_in_dim(x, shape=new, dims=tuple(d for d in range(len(new)) if d != dim))


def broadcast_scalar(x: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Broadcast a rank-0 value to a shape."""
    return ops.broadcast_in_dim(x, shape=tuple(shape), dims=()) if shape else x


def at_dim(x: ir.Value, dim: int | None, size: int, to: int = 0) -> ir.Value:
    """``x`` with its batch dimension at ``to``; an unbatched ``x`` is broadcast."""
    return broadcast_new_dim(x, size, to) if dim is None else move_dim(x, dim, to)


def real_like(x: ir.Value) -> TensorType:
    """The type of ``real(x)``."""
    type_ = type_of(x)
    return type_.with_dtype(real_dtype(type_.dtype))


def add_tangents(a: ir.Value | None, b: ir.Value | None) -> ir.Value | None:
    """The sum of two tangents or cotangents, either of which may be a symbolic zero."""
    if a is None:
        return b
    return a if b is None else ops.add(a, b)


def slice_along(x: ir.Value, dimension: int, start: int, limit: int, stride: int = 1) -> ir.Value:
    """Slice one dimension and keep the others whole."""
    shape = type_of(x).shape
    return ops.slice(
        x,
        start=tuple(start if d == dimension else 0 for d in range(len(shape))),
        limit=tuple(limit if d == dimension else n for d, n in enumerate(shape)),
        strides=tuple(stride if d == dimension else 1 for d in range(len(shape))),
    )


def take(
    x: ir.Value,
    places: ir.Value,
    dimension: int,
    along: Sequence[int] = (),
    *,
    mode: str = "promise_in_bounds",
    unique: bool = False,
) -> ir.Value:
    """Take elements of ``x`` along a dimension; the result keeps the order of dimensions of ``x``.

    Args:
      x: an array.
      places: integer indices; their dimensions are ``dimension`` and ``along``, in the order of
        ``x``.
      dimension: the dimension of ``x`` that is indexed.
      along: dimensions that ``x`` and ``places`` share; the other dimensions are read whole.
      mode: the treatment of indices out of bounds; ``"fill"`` gives zeros.
      unique: whether no element is read twice.
    """
    shape = type_of(x).shape
    own = sorted((*along, dimension))
    return ops.gather(
        x,
        reshape(places, (*type_of(places).shape, 1)),
        offset_dims=tuple(d for d in range(len(shape)) if d not in own),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        operand_batching_dims=tuple(along),
        start_indices_batching_dims=tuple(own.index(d) for d in along),
        slice_sizes=tuple(
            1 if d == dimension else min(n, 1) if d in along else n for d, n in enumerate(shape)
        ),
        mode=mode,
        fill_value=0,
        unique_indices=unique,
        indices_are_sorted=False,
    )
