"""Arrays over several devices, assembled from their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon._api.devices import device_put
from gnomon._arrays.annotations import ArrayLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray
from gnomon._arrays.dtypes import canonicalize_dtype
from gnomon._sharding.sharding import Sharding
from gnomon._tracing.bind import as_operand

__all__ = [
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
]


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Sharding,
    data_callback: Callable[[Any], Any],
    dtype: DTypeLike | None = None,
) -> Array:
    """An array whose parts are computed by a function.

    Args:
      shape: the shape of the array.
      sharding: its sharding.
      data_callback: takes the index of a part, a tuple with one slice for each dimension, and
        returns that part. It is called once for each different part.
      dtype: the dtype that the parts must have; by default that of the first part.
    Raises:
      TypeError: ``sharding`` is not a sharding.
      ValueError: a part has the wrong shape or dtype, or the sharding does not fit the shape.

    Example:
      >>> import gnomon as gn, numpy as np
      >>> sharding = gn.NamedSharding(gn.make_mesh((1,), ("data",)), gn.P("data"))
      >>> gn.make_array_from_callback((4,), sharding, lambda index: np.arange(4)[index])
      Array([0, 1, 2, 3], dtype=int32)
    """
    name = "make_array_from_callback"
    shape = _checked(name, shape, sharding)
    parts: dict[Any, np.ndarray[Any, Any]] = {}
    places = sharding.devices_indices_map(shape)
    for index in places.values():
        key = _key(index)
        if key not in parts:
            parts[key] = np.asarray(as_operand(data_callback(index)))
    return _assembled(name, shape, sharding, [parts[_key(i)] for i in places.values()], dtype)


def make_array_from_single_device_arrays(
    shape: Sequence[int],
    sharding: Sharding,
    arrays: Sequence[Array],
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """An array made of parts that are on their devices already.

    Args:
      shape: the shape of the array.
      sharding: its sharding.
      arrays: a list with the part of each device, in any order.
      dtype: the dtype that the parts must have; by default that of the first part.
    Raises:
      TypeError: ``arrays`` is not a list of arrays.
      ValueError: a part has the wrong shape or dtype or is on another device.
    """
    name = "make_array_from_single_device_arrays"
    shape = _checked(name, shape, sharding)
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"{name}: arrays must be a list of arrays, got a {type(arrays).__name__}")
    by_device: dict[Any, Any] = {}
    for array in arrays:
        if not isinstance(array, ConcreteArray):
            raise TypeError(
                f"{name}: arrays must be a list of arrays, got a {type(array).__name__}"
            )
        (device, *others) = array.devices()
        if others:
            raise ValueError(f"{name}: each array must be on one device, got {array.sharding}")
        by_device[device] = array
    places = sharding.devices_indices_map(shape)
    if len(arrays) != len(places):
        raise ValueError(
            f"{name}: the sharding takes one array for each of its {len(places)} devices, got "
            f"{len(arrays)}"
        )
    missing = [device for device in places if device not in by_device]
    if missing:
        raise ValueError(f"{name}: there is no array on {missing[0]!r}")
    parts = [np.asarray(by_device[device]) for device in places]
    return _assembled(name, shape, sharding, parts, dtype)


def make_array_from_process_local_data(
    sharding: Sharding, local_data: ArrayLike, global_shape: Sequence[int] | None = None
) -> Array:
    """An array from the part of its data that this process has.

    There is only one process, so ``local_data`` is the whole array.

    Args:
      sharding: the sharding of the array.
      local_data: the data, a NumPy array.
      global_shape: the shape of the array; None or the shape of ``local_data``.
    Raises:
      ValueError: ``global_shape`` differs from the shape of ``local_data``.
    """
    data = np.asarray(local_data)
    if global_shape is not None and tuple(global_shape) != data.shape:
        raise ValueError(
            "make_array_from_process_local_data: there is only one process, so global_shape must "
            f"be the shape of the data, {data.shape}; got {tuple(global_shape)}"
        )
    return device_put(data, sharding)


def _checked(name: str, shape: Sequence[int], sharding: Any) -> tuple[int, ...]:
    if not isinstance(sharding, Sharding):
        raise TypeError(f"{name}: sharding must be a gnomon.sharding.Sharding, got {sharding!r}")
    return tuple(int(size) for size in shape)


def _key(index: tuple[slice, ...]) -> tuple[Any, ...]:
    return tuple((part.start, part.stop) for part in index)


def _assembled(
    name: str,
    shape: tuple[int, ...],
    sharding: Sharding,
    parts: Sequence[np.ndarray[Any, Any]],
    dtype: Any,
) -> Array:
    expected = sharding.shard_shape(shape)
    wanted = parts[0].dtype if dtype is None else canonicalize_dtype(np.dtype(dtype))
    whole = np.empty(shape, wanted)
    indices = sharding.devices_indices_map(shape).values()
    for part, index in zip(parts, indices, strict=True):
        if part.shape != expected:
            raise ValueError(
                f"{name}: each part must have the shape {expected}, got one of shape {part.shape} "
                f"(the array has the shape {shape} and the sharding {sharding})"
            )
        if part.dtype != wanted:
            raise ValueError(
                f"{name}: each part must have the dtype {wanted}, got one of dtype {part.dtype}"
            )
        whole[index] = part
    return device_put(as_operand(whole), sharding)
