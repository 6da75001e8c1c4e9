"""Arrays and values that go from process to process; see `gnomon.distributed`.

All processes must call these functions, in the same order. They also work in a program of one
process, in which nothing is sent.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._api.array_parts import (
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from gnomon._api.devices import device_put, devices, process_count, process_index
from gnomon._arrays.array import Array
from gnomon._compilation.jit import jit
from gnomon._sharding.mesh import Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._trees.prefixes import broadcast_prefix
from gnomon.backends import platforms

__all__ = [
    "assert_equal",
    "broadcast_one_to_all",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
    "process_allgather",
    "reached_preemption_sync_point",
    "sync_global_devices",
]

_PROCESSES, _DEVICES = "processes", "local_devices"


def _mesh() -> Mesh:
    """All devices: one row for each process."""
    grid = np.array(devices(), dtype=object).reshape(process_count(), -1)
    return Mesh(grid, (_PROCESSES, _DEVICES))


def _replicated(array: Any) -> Any:
    """An array over devices of several processes, whole on each device."""
    whole = NamedSharding(array.sharding.mesh, PartitionSpec())
    return jit(lambda x: x, out_shardings=whole)(array)


def _is_global(x: Any) -> bool:
    return isinstance(x, Array) and not x.is_fully_addressable


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The arrays of all processes, in each process.

    Args:
      in_tree: a pytree of arrays, with the same shapes and dtypes in each process. An array over
        devices of several processes is gathered unchanged.
      tiled: join the arrays of the processes along their first dimension, instead of stacking them.
    Returns:
      The pytree with NumPy arrays: of shape ``(process_count, *shape)``, or if ``tiled``,
      ``(process_count * shape[0], *shape[1:])``.
    Raises:
      ValueError: ``tiled`` is set, and an array has no dimension.
      gnomon.errors.DistributedError: another process is gone, or calls something else.

    Example:
      >>> import numpy as np
      >>> from gnomon.experimental import multihost_utils
      >>> multihost_utils.process_allgather(np.arange(3.0))
      array([[0., 1., 2.]]...)
    """

    def gather(x: Any) -> np.ndarray[Any, Any]:
        if _is_global(x):
            return np.asarray(_replicated(x))
        value = np.asarray(x)
        if tiled and not value.ndim:
            raise ValueError("process_allgather: a number cannot be tiled: it has no dimension")
        every = _gathered(value)
        return every.reshape(-1, *value.shape[1:]) if tiled else every

    return tree_util.tree_map(gather, in_tree)


def _gathered(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values of all processes, stacked."""
    if process_count() == 1:
        return value[None]
    sharding = NamedSharding(_mesh(), PartitionSpec(_PROCESSES))
    # As bytes: every dtype keeps its bits, and 64 bits need no gnomon_enable_x64.
    data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)[None]
    shape = (process_count(), data.shape[1])
    every = np.asarray(_replicated(make_array_from_process_local_data(sharding, data, shape)))
    found = np.frombuffer(every.tobytes(), value.dtype)
    return found.reshape(process_count(), *value.shape)


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The values of one process, in each process.

    Args:
      in_tree: a pytree of arrays, with the same shapes and dtypes in each process.
      is_source: whether this process is the source; by default process 0 is.
    Returns:
      The pytree of the source, with NumPy arrays.
    Raises:
      ValueError: not exactly one process is the source.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.experimental import multihost_utils
      >>> int(multihost_utils.broadcast_one_to_all({"seed": gnp.array(7)})["seed"])
      7
    """
    source = process_index() == 0 if is_source is None else bool(is_source)
    sources = np.flatnonzero(_gathered(np.array(source)))
    if len(sources) != 1:
        raise ValueError(
            f"broadcast_one_to_all: one process must be the source, got {sources.tolist()}"
        )
    return tree_util.tree_map(lambda x: _gathered(np.asarray(x))[sources[0]], in_tree)


def sync_global_devices(name: str) -> None:
    """Wait until all processes have made this call.

    Args:
      name: a name for this call, the same in each process.
    Raises:
      gnomon.errors.DistributedError: a process is gone, or calls something else.

    Example:
      >>> from gnomon.experimental import multihost_utils
      >>> multihost_utils.sync_global_devices("the data are written")
    """
    engine: Any = platforms.host_engine()
    if engine is None or process_count() == 1:
        return
    digest = hashlib.sha256(name.encode()).hexdigest()
    engine.connection.agree(f"sync_global_devices({name!r})", digest, tuple(range(process_count())))


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether to save the state now, because a process was asked to end.

    Where machines may be taken away, a process gets the signal SIGTERM some time before. The
    processes then agree on a step that none of them has begun, and this function is true in that
    step, in each process. All processes must call it in each step. From the first call on, the
    first SIGTERM does not end a process; the second one does.

    Args:
      step_id: the number of the step, the same in each process, and larger at each call.
    Returns:
      Whether the state is to be saved in this step; always False without
      `gnomon.distributed.initialize`.

    Raises:
      RuntimeError: the first call of this process is not in the main thread.
      gnomon.errors.DistributedError: a process is gone.

    Example:
      >>> from gnomon.experimental import multihost_utils
      >>> multihost_utils.reached_preemption_sync_point(1)
      False
    """
    engine: Any = platforms.host_engine()
    if engine is None or engine.connection is None:
        return False
    return bool(engine.connection.reached_preemption_point(int(step_id)))


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Check that all processes have the same values.

    Args:
      in_tree: a pytree of arrays, with the same shapes and dtypes in each process.
      fail_message: the beginning of the error's message.
    Raises:
      AssertionError: the values differ; raised in each process.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.experimental import multihost_utils
      >>> multihost_utils.assert_equal(gnp.arange(3), "The seeds differ")
    """
    leaves, _ = tree_util.tree_flatten_with_path(in_tree)
    for path, leaf in leaves:
        value = np.asarray(leaf)
        every = _gathered(value)
        for number, other in enumerate(every):
            if other.tobytes() != every[0].tobytes():
                where = tree_util.keystr(path) or "the value"
                raise AssertionError(
                    f"{fail_message or 'assert_equal'}: {where} of process {number} is not that of "
                    f"process 0: {other!r} and {every[0]!r}"
                )


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays over the devices of all processes, assembled from the parts of each process.

    Args:
      local_inputs: a pytree of arrays: the parts of this process, joined.
      global_mesh: a mesh of devices of all processes.
      pspecs: how the arrays are split over it: a pytree of specs that is a prefix of
        ``local_inputs``.
    Returns:
      The pytree of arrays over the mesh.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon.experimental import multihost_utils
      >>> mesh = gn.make_mesh((1,), ("x",))
      >>> x = gnp.arange(4)
      >>> spec = gn.sharding.PartitionSpec("x")
      >>> multihost_utils.host_local_array_to_global_array(x, mesh, spec).shape
      (4,)
    """

    def convert(x: Any, spec: Any) -> Any:
        if _is_global(x):
            return x
        return make_array_from_process_local_data(NamedSharding(global_mesh, spec), np.asarray(x))

    return _with_specs(convert, local_inputs, pspecs, "host_local_array_to_global_array")


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The parts that this process holds of arrays over the devices of all processes.

    Args:
      global_inputs: a pytree of arrays.
      global_mesh: a mesh of devices of all processes.
      pspecs: how the arrays are split over it: a pytree of specs that is a prefix of
        ``global_inputs``.
    Returns:
      The pytree of arrays over the devices of this process.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon.experimental import multihost_utils
      >>> mesh = gn.make_mesh((1,), ("x",))
      >>> x = gnp.arange(4)
      >>> spec = gn.sharding.PartitionSpec("x")
      >>> multihost_utils.global_array_to_host_local_array(x, mesh, spec).shape
      (4,)
    """
    local_mesh = global_mesh.local_mesh

    def convert(x: Any, spec: Any) -> Any:
        if isinstance(x, Array) and x.is_fully_addressable:
            return x
        wanted = NamedSharding(global_mesh, spec)
        if not x.sharding.is_equivalent_to(wanted, x.ndim):
            x = device_put(x, wanted)
        parts = [shard.data for shard in x.addressable_shards]
        bounds = wanted.addressable_devices_indices_map(x.shape).values()
        shape = [
            sum(b - a for a, b in {index[d].indices(size)[:2] for index in bounds})
            for d, size in enumerate(x.shape)
        ]
        return make_array_from_single_device_arrays(shape, NamedSharding(local_mesh, spec), parts)

    return _with_specs(convert, global_inputs, pspecs, "global_array_to_host_local_array")


def _with_specs(convert: Any, tree: Any, pspecs: Any, name: str) -> Any:
    leaves, structure = tree_util.tree_flatten(tree)
    specs = broadcast_prefix(
        pspecs,
        tree,
        lambda x: x is None or isinstance(x, PartitionSpec),
        prefix_name=f"{name}: pspecs",
        full_name="the arrays",
    )
    found = [convert(x, s or PartitionSpec()) for x, s in zip(leaves, specs, strict=True)]
    return tree_util.tree_unflatten(structure, found)
