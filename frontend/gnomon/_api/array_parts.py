"""Arrays over several devices, assembled from their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon._api.devices import device_put
from gnomon._arrays.annotations import ArrayLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._arrays.aval import shaped_array
from gnomon._arrays.concrete import ConcreteArray
from gnomon._arrays.dtypes import canonicalize_dtype
from gnomon._arrays.sharded import layout_of, sharded_buffer
from gnomon._sharding.device_group import is_spread, place_of_devices
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.sharding import Sharding
from gnomon._tracing.bind import as_operand
from gnomon.backends.shards import ShardedBuffer

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
        returns that part. It is called once for each different part that devices of this process
        hold.
      dtype: the dtype that the parts must have; by default that of the first part.
    Raises:
      TypeError: ``sharding`` is not a sharding.
      ValueError: a part has the wrong shape or dtype, or the sharding does not fit the shape.
      NotImplementedError: the sharding is unreduced.

    Example:
      >>> import gnomon as gn, numpy as np
      >>> sharding = gn.NamedSharding(gn.make_mesh((1,), ("data",)), gn.P("data"))
      >>> gn.make_array_from_callback((4,), sharding, lambda index: np.arange(4)[index])
      Array([0, 1, 2, 3], dtype=int32)
    """
    name = "make_array_from_callback"
    shape = _checked(name, shape, sharding)
    parts: dict[Any, np.ndarray[Any, Any]] = {}
    if isinstance(sharding, NamedSharding) and sharding.spec.unreduced:
        raise NotImplementedError(
            f"{name}: the callback does not know which term of the sum a device is to have, and "
            f"{sharding} is unreduced. Reshard an array to it with gnomon.sharding.reshard"
        )
    places = sharding.addressable_devices_indices_map(shape)
    for index in places.values():
        key = _key(index)
        if key not in parts:
            parts[key] = np.asarray(as_operand(data_callback(index)))
    values = [parts[_key(i)] for i in places.values()]
    _check_parts(name, shape, sharding, values, dtype)
    if not _is_spread(sharding):
        return _assembled(shape, sharding, values)
    return _of_buffers(
        shape,
        sharding,
        [
            device.backend.put(value, device, copy=True)
            for device, value in zip(places, values, strict=True)
        ],
    )


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
      arrays: a list with the part of each device of this process, in any order.
      dtype: the dtype that the parts must have; by default that of the first part.
    Raises:
      TypeError: ``arrays`` is not a list of arrays.
      ValueError: a part has the wrong shape or dtype or is on another device.
      NotImplementedError: the sharding is unreduced, and its devices do not share memory.

    Example:
      >>> import gnomon as gn
      >>> sharding = gn.NamedSharding(gn.make_mesh((1,), ("data",)), gn.P("data"))
      >>> part = gn.device_put(gn.numpy.arange(3), gn.devices()[0])
      >>> gn.make_array_from_single_device_arrays((3,), sharding, [part])
      Array([0, 1, 2], dtype=int32)
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
    places = sharding.addressable_devices_indices_map(shape)
    if len(arrays) != len(places):
        raise ValueError(
            f"{name}: the sharding needs one array for each of its {len(places)} devices, got "
            f"{len(arrays)}"
        )
    missing = [device for device in places if device not in by_device]
    if missing:
        raise ValueError(f"{name}: there is no array on {missing[0]!r}")
    parts = [by_device[device] for device in places]
    _check_parts(name, shape, sharding, parts, dtype)
    if not _is_spread(sharding):
        return _assembled(shape, sharding, [np.asarray(part) for part in parts])
    if isinstance(sharding, NamedSharding) and sharding.spec.unreduced:
        raise NotImplementedError(
            f"{name}: the devices of {sharding} do not share memory, so the terms of an unreduced "
            "array cannot be summed here. Make an array of the terms along a new dimension, which "
            "the unreduced axes split, and sum it with out_sharding="
        )
    return _of_buffers(shape, sharding, [part.device_buffer() for part in parts])


def make_array_from_process_local_data(
    sharding: Sharding, local_data: ArrayLike, global_shape: Sequence[int] | None = None
) -> Array:
    """An array from the data of this process.

    With one process, the data is the whole array. With several, each process gives the parts that
    its devices hold, joined into one array. Along any dimension, a process may also give the whole
    extent of the array instead of the part that its devices hold.

    Args:
      sharding: the sharding of the array.
      local_data: the data: a NumPy array.
      global_shape: the shape of the array; by default, the data of each process is proportional to
        the number of its devices.
    Raises:
      ValueError: the shape of the data does not match the parts of this process.

    Example:
      >>> import gnomon as gn, numpy as np
      >>> sharding = gn.NamedSharding(gn.make_mesh((1,), ("data",)), gn.P("data"))
      >>> gn.make_array_from_process_local_data(sharding, np.arange(3))
      Array([0, 1, 2], dtype=int32)
    """
    data = np.asarray(local_data)
    if sharding.is_fully_addressable:
        if global_shape is not None and tuple(global_shape) != data.shape:
            raise ValueError(
                "make_array_from_process_local_data: all devices belong to this process, so "
                f"global_shape must equal the shape of the data, {data.shape}; got "
                f"{tuple(global_shape)}"
            )
        return device_put(data, sharding)
    shape = _global_shape(sharding, data.shape, global_shape)
    starts = _local_starts(sharding, data.shape, shape)

    def part(index: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        bounds = [s.indices(size)[:2] for s, size in zip(index, shape, strict=True)]
        return data[
            tuple(
                slice(offset[start], offset[start] + stop - start)
                for (start, stop), offset in zip(bounds, starts, strict=True)
            )
        ]

    return make_array_from_callback(shape, sharding, part)


def _global_shape(sharding: Sharding, local: tuple[int, ...], given: Any) -> tuple[int, ...]:
    """The shape of an array of which this process has data of some shape."""
    if given is not None:
        return tuple(int(size) for size in given)
    # The number of parts along each dimension, of all processes and of this one.
    probe = tuple(sharding.num_devices for _ in local)
    everywhere = sharding.devices_indices_map(probe)
    here = sharding.addressable_devices_indices_map(probe)

    def parts(places: Any, dimension: int) -> int:
        return len({index[dimension].start for index in places.values()})

    return tuple(size * parts(everywhere, d) // parts(here, d) for d, size in enumerate(local))


def _local_starts(
    sharding: Sharding, local: tuple[int, ...], shape: tuple[int, ...]
) -> list[dict[int, int]]:
    """For each dimension, the starts of local parts in the data, by their starts in the array."""
    if len(local) != len(shape):
        raise ValueError(
            "make_array_from_process_local_data: the data has the shape "
            f"{local}, and global_shape is {shape}"
        )
    places = sharding.addressable_devices_indices_map(shape).values()
    found = []
    for d, (mine, size) in enumerate(zip(local, shape, strict=True)):
        bounds = sorted({index[d].indices(size)[:2] for index in places})
        if mine == size:
            found.append({start: start for start, _ in bounds})
            continue
        starts, total = {}, 0
        for start, stop in bounds:
            starts[start], total = total, total + stop - start
        if total != mine:
            raise ValueError(
                f"make_array_from_process_local_data: dimension {d} of the data has size {mine}, "
                f"but the devices of this process hold {total} of the {size} elements that the "
                "array has along it"
            )
        found.append(starts)
    return found


def _checked(name: str, shape: Sequence[int], sharding: Any) -> tuple[int, ...]:
    if not isinstance(sharding, Sharding):
        raise TypeError(f"{name}: sharding must be a gnomon.sharding.Sharding, got {sharding!r}")
    return tuple(int(size) for size in shape)


def _key(index: tuple[slice, ...]) -> tuple[Any, ...]:
    return tuple((part.start, part.stop) for part in index)


def _check_parts(
    name: str, shape: tuple[int, ...], sharding: Sharding, parts: Sequence[Any], dtype: Any
) -> None:
    """Raise `ValueError` unless parts have the shape that the sharding says, and one dtype."""
    expected = sharding.shard_shape(shape)
    wanted = parts[0].dtype if dtype is None else canonicalize_dtype(np.dtype(dtype))
    for part in parts:
        if part.shape != expected:
            raise ValueError(
                f"{name}: each part must have the shape {expected}, got one of shape {part.shape} "
                f"(the array has the shape {shape} and the sharding {sharding})"
            )
        if part.dtype != wanted:
            raise ValueError(
                f"{name}: each part must have the dtype {wanted}, got one of dtype {part.dtype}"
            )


def _is_spread(sharding: Sharding) -> bool:
    return isinstance(sharding, NamedSharding) and is_spread(
        place_of_devices(sharding._device_tuple)
    )


def _of_buffers(shape: tuple[int, ...], sharding: Any, parts: Sequence[Any]) -> Array:
    """An array over devices that do not share memory, from the buffers of those of this process."""
    dtype = parts[0].dtype
    buffer = ShardedBuffer(layout_of(sharding, shape), dtype, parts)
    return sharded_buffer(buffer, shaped_array(shape, dtype, False), sharding)


def _sum_of_terms(
    shape: tuple[int, ...], sharding: NamedSharding, parts: Sequence[np.ndarray[Any, Any]]
) -> np.ndarray[Any, Any]:
    """The value of an unreduced array: each device has a term of one of its parts."""
    whole = np.zeros(shape, parts[0].dtype)
    indices = list(sharding.devices_indices_map(shape).values())
    names, sizes = sharding.mesh.axis_names, sharding.mesh.axis_sizes
    copies = [names.index(axis) for axis in sharding.replicated_axes]
    for i, place in enumerate(np.ndindex(*sizes)):
        if not any(place[d] for d in copies):
            whole[indices[i]] += parts[i]
    return whole


def _assembled(
    shape: tuple[int, ...], sharding: Sharding, parts: Sequence[np.ndarray[Any, Any]]
) -> Array:
    if isinstance(sharding, NamedSharding) and sharding.spec.unreduced:
        return device_put(as_operand(_sum_of_terms(shape, sharding, parts)), sharding)
    whole = np.empty(shape, parts[0].dtype)
    indices = sharding.devices_indices_map(shape).values()
    for part, index in zip(parts, indices, strict=True):
        whole[index] = part
    return device_put(as_operand(whole), sharding)
