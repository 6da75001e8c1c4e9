"""Devices and what is on them: `devices`, `device_put`, `device_get`."""

from __future__ import annotations

import gc
import os
import platform as os_platform
import sys
from importlib import metadata
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._arrays import host_values
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, PlacedArray, placed, placed_buffer
from gnomon._arrays.sharded import ShardedArray, sharded
from gnomon._arrays.transfers import explicit_transfers, guard_host_value
from gnomon._config.current import Config, config
from gnomon._sharding.device import (
    Device,
    as_device,
    devices_of,
    in_host_memory,
    is_addressable,
    is_device,
)
from gnomon._sharding.device_group import place_of_devices
from gnomon._sharding.layout import Format, check_layout
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._sharding.sharding import Sharding
from gnomon._tracing import on_device
from gnomon._tracing.bind import as_operand
from gnomon._tracing.constraints import constrained
from gnomon._tracing.partitioned import resharded
from gnomon._tracing.shardings import check_fits
from gnomon._tracing.trace import is_tracer
from gnomon._trees.prefixes import broadcast_prefix
from gnomon.backends import platforms

__all__ = [
    "copy_to_host_async",
    "default_backend",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "live_arrays",
    "local_device_count",
    "local_devices",
    "print_environment_info",
    "process_count",
    "process_index",
    "process_indices",
]


def devices(backend: str | None = None) -> list[Device]:
    """The devices of a platform.

    Args:
      backend: the name of the platform; by default the default platform.
    Raises:
      RuntimeError: there is no such platform, or its driver, plugin or hardware is missing; the
        message says what was searched for. (It is a `gnomon.errors.BackendUnavailable`.)

    Example:
      >>> import gnomon as gn
      >>> gn.devices("cpu")
      [CpuDevice(id=0)]
    """
    return devices_of(backend)


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """The devices of a process.

    Args:
      process_index: the number of the process; None means this one.
      backend: the platform; None means the default one.
      host_id: another name of ``process_index``.
    Raises:
      ValueError: there is no process of that number.

    Example:
      >>> import gnomon as gn
      >>> gn.local_devices(backend="cpu")[0].platform
      'cpu'

    See also:
      `devices`
    """
    number = process_index if process_index is not None else host_id
    found = devices(backend)
    if number is None:
        return [device for device in found if is_addressable(device)]
    if number not in process_indices(backend):
        raise ValueError(
            f"unknown process_index {number}: the processes are {process_indices(backend)}"
        )
    return [device for device in found if device.process_index == number]


def device_count(backend: str | None = None) -> int:
    """The number of devices of all processes.

    Args:
      backend: the platform; None means the default one.

    Example:
      >>> import gnomon as gn
      >>> gn.device_count("cpu") >= 1
      True

    See also:
      `devices`, `local_device_count`
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """The number of devices of this process.

    Args:
      backend: the platform; None means the default one.

    Example:
      >>> import gnomon as gn
      >>> gn.local_device_count("cpu") >= 1
      True

    See also:
      `local_devices`, `device_count`
    """
    return len(local_devices(backend=backend))


def default_backend() -> str:
    """The name of the default platform.

    Returns:
      The first one of ``gnomon_platforms``, or "cpu".

    Example:
      >>> import gnomon as gn
      >>> gn.default_backend()
      'cpu'
    """
    return platforms.selected()[0]


def process_index(backend: str | None = None) -> int:
    """The number of this process, from 0.

    Args:
      backend: the platform; None means the default one.

    Example:
      >>> import gnomon as gn
      >>> gn.process_index()
      0

    See also:
      `gnomon.distributed`
    """
    return int(getattr(platforms.backend(backend), "process_index", 0))


def process_count(backend: str | None = None) -> int:
    """The number of processes that compute together.

    Args:
      backend: the platform; None means the default one.

    Example:
      >>> import gnomon as gn
      >>> gn.process_count()
      1

    See also:
      `gnomon.distributed`
    """
    return len(process_indices(backend))


def process_indices(backend: str | None = None) -> list[int]:
    """The indices of the processes that the devices belong to.

    Args:
      backend: the platform; None means the default one.

    Example:
      >>> import gnomon as gn
      >>> gn.process_indices()
      [0]
    """
    return sorted({device.process_index for device in devices(backend)})


def live_arrays(platform: str | None = None) -> list[Array]:
    """All arrays on the devices of a platform that have not been deleted.

    Args:
      platform: the name of the platform; by default the default platform.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> x = gnp.ones(3)
      >>> any(y is x for y in gn.live_arrays())
      True
    """
    wanted = platform or default_backend()
    found = [x for x in gc.get_objects() if type(x) in (ConcreteArray, PlacedArray, ShardedArray)]
    return [x for x in found if not x.is_deleted() and x.platform() == wanted]


def print_environment_info(return_string: bool = False) -> str | None:
    """Describe this machine and its packages for a bug report.

    Args:
      return_string: return it instead of printing it.

    Example:
      >>> import gnomon as gn
      >>> gn.print_environment_info(return_string=True).startswith("gnomon")
      True
    """
    lines = [f"{name}: {_version(name)}" for name in _PACKAGES]
    lines += [
        f"python: {' '.join(sys.version.split())}",
        f"device info: {devices()[0].device_kind}-{device_count()}, "
        f"{local_device_count()} local devices",
        f"process_count: {process_count()}",
        f"platform: {os_platform.uname()}",
    ]
    lines += [
        f"{key}={value}"
        for key, value in sorted(os.environ.items())
        if key.startswith(("GNOMON_", "JAX_"))
    ]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None


_PACKAGES = ("gnomon", "iree-base-compiler", "iree-base-runtime", "torch-mlir", "numpy")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


# ---------------------------------------------------------------------------------------- transfers


def _is_destination(x: Any) -> bool:
    return x is None or is_device(x) or isinstance(x, (Sharding, PartitionSpec, Format))


def _place(target: Any, x: Any) -> Device | NamedSharding | None:
    """The device or sharding to which `device_put` moves an array; None leaves it where it is."""
    if isinstance(target, Format):
        check_layout("device_put", target.layout, np.shape(x))
        target = target.sharding
    if isinstance(target, PartitionSpec):
        mesh = config.mesh_context[0]
        if mesh is None:
            raise ValueError(
                f"device_put: the spec {target} needs a mesh: set one with gnomon.set_mesh, or "
                "pass a gnomon.NamedSharding"
            )
        target = NamedSharding(mesh, target)
    if target is None or isinstance(target, NamedSharding):
        return target
    return as_device(target)


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Any:
    """Put the arrays of a pytree on a device.

    An array that is put on a device is committed to it: operations on the array run there.

    Args:
      x: a pytree of arrays, NumPy arrays and Python numbers.
      device: one of `devices`, a `gnomon.sharding.Sharding`, a `gnomon.P` of the mesh that is set,
        a `gnomon.experimental.layout.Format`, or a pytree of those and of None that is a prefix of
        ``x``. None leaves an array where it is, and puts other values on the default device,
        uncommitted.
      src: ignored, since arrays know where they are; accepted for JAX's signature.
      donate: whether the result may take over the memory of ``x``, which must not be used
        afterwards; a bool, or a prefix of ``x`` with bools.
      may_alias: False makes a copy even where the array is on the device already; a bool, None, or
        a prefix of ``x`` with those.
    Returns:
      The pytree with arrays on the device. Inside of a transformed function, a traced array stays
      where its program runs.
    Raises:
      TypeError: ``device`` holds something that is not a device.
      ValueError: ``donate`` and ``may_alias`` are both True, a prefix does not fit, or a sharding
        does not fit the shape of an array.
      NotImplementedError: a layout is not row-major.
      RuntimeError: the device is out of memory, or no longer available.

    Example:
      >>> import gnomon as gn, numpy as np
      >>> cpu = gn.devices("cpu")[0]
      >>> gn.device_put({"w": np.ones(2, np.float32)}, cpu)
      {'w': Array([1., 1.], dtype=float32)}
    """
    leaves, tree = tree_util.tree_flatten(x)

    def spread(prefix: Any, name: str, single: bool) -> list[Any]:
        if single:
            return [prefix] * len(leaves)
        return broadcast_prefix(
            prefix,
            x,
            _is_destination,
            prefix_name=f"device_put: {name}",
            full_name="x",
        )

    targets = spread(device, "device", _is_destination(device) or _is_leaf(device))
    donates = spread(donate, "donate", isinstance(donate, bool))
    aliases = spread(may_alias, "may_alias", may_alias is None or isinstance(may_alias, bool))
    if any(d and a for d, a in zip(donates, aliases, strict=True)):
        raise ValueError("device_put: may_alias and donate cannot be True at the same time")
    places = [_place(target, leaf) for target, leaf in zip(targets, leaves, strict=True)]
    with explicit_transfers():
        put = [
            _put(leaf, place, bool(d), a is False)
            for leaf, place, d, a in zip(leaves, places, donates, aliases, strict=True)
        ]
    return tree_util.tree_unflatten(tree, put)


def _is_leaf(x: Any) -> bool:
    return not isinstance(x, (tuple, list, dict)) and tree_util.all_leaves([x])


def _put(x: Any, device: Device | NamedSharding | None, donate: bool, copy: bool) -> Array:
    """Put one array on a device; with ``copy``, in separate memory."""
    if is_tracer(x):
        result: Array = constrained(x, device) if isinstance(device, NamedSharding) else x
        return result
    if isinstance(device, NamedSharding):
        return _put_sharded(x, device, donate, copy)
    if device is None:
        array: Any = as_operand(x)
        return array.__copy__() if copy and array is x else array
    if not isinstance(x, ConcreteArray):
        if not in_host_memory(device) and type(x) is np.ndarray:
            if Config.guards_somewhere:
                guard_host_value(x)
            value = host_values.canonical_view(x)
            return _committed(value, device, copy=value is x and host_values.is_writable(x))
        # `as_operand` copies arrays that the caller may write to.
        return _put(as_operand(x), device, False, False)
    if x.device is not device:
        if Config.guards_somewhere:
            on_device.guard_operands([x], device)
        # No copy in host memory: arrays never change, and a view keeps its memory alive.
        array = _committed(ConcreteArray.numpy_value(x), device, weak_type=x.weak_type)
        if donate:
            x.delete()
        return array
    if copy:
        x = x.__copy__()
    value, buffer = x._value, x._buffer
    if value is None:
        buffer = x._live_buffer()
    if buffer is None:
        assert value is not None
        result = placed(value, device, committed=True, weak_type=x.weak_type)
    else:
        result = placed_buffer(buffer, x.aval, device, True)
        result._value = value
    if donate:
        # Its memory is the result's now.
        x._aval, x._value, x._buffer = x.aval, None, None
    return result


def _put_sharded(x: Any, sharding: NamedSharding, donate: bool, copy: bool) -> Array:
    """Put one array on the devices of a sharding."""
    array: Any = as_operand(x)
    check_fits(sharding, array.shape, "device_put")
    if type(array) is ShardedArray and array._sharding == sharding and not (copy or donate):
        return array
    if in_host_memory(sharding._device_tuple[0]):
        value = array.numpy_value()
        result = sharded(value.copy() if copy else value, sharding, array.weak_type)
    else:
        if Config.guards_somewhere:
            on_device.guard_operands([x], place_of_devices(sharding._device_tuple))
        result = resharded(array.__copy__() if copy else array, sharding)
    if donate and array is x:
        x.delete()
    return result


def _committed(
    value: np.ndarray[Any, Any], device: Device, *, weak_type: bool = False, copy: bool = False
) -> PlacedArray:
    """An array that is committed to a device, made of a value in host memory."""
    if in_host_memory(device):
        return placed(value, device, committed=True, weak_type=weak_type)
    array = placed(value, device, committed=True, weak_type=weak_type)
    aval = array.aval
    return placed_buffer(device.backend.put(value, device, copy=copy), aval, device, True)


def copy_to_host_async(x: Any) -> Any:
    """Start to copy the arrays of a pytree to host memory, without waiting.

    Leaves of other types that have a method ``copy_to_host_async`` are copied by that method.

    Args:
      x: a pytree; leaves of other types that have a method ``copy_to_host_async`` are copied by it.
    Returns:
      The pytree itself.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> gn.copy_to_host_async([gnp.arange(2)])
      [Array([0, 1], dtype=int32)]

    See also:
      `device_get`
    """
    for leaf in tree_util.tree_leaves(x):
        if not is_tracer(leaf) and hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def device_get(x: Any) -> Any:
    """A pytree of arrays as NumPy arrays in host memory.

    All copies are started before the first one is waited for.

    Args:
      x: a pytree; leaves that have no method ``__array__`` are returned unchanged.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> gn.device_get({"a": gnp.arange(2), "b": 3})
      {'a': array([0, 1], dtype=int32), 'b': 3}

    See also:
      `device_put`
    """

    def get(leaf: Any) -> Any:
        return leaf.__array__() if hasattr(leaf, "__array__") and not is_tracer(leaf) else leaf

    with explicit_transfers():
        copy_to_host_async(x)
        return tree_util.tree_map(get, x)
