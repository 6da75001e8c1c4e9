"""The shardings of the operands and results of `shard_map` and `pmap`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, committed_device, wrap
from gnomon._arrays.sharded import ShardedArray
from gnomon._config.current import config
from gnomon._sharding.device import check_partitions, in_host_memory, is_described
from gnomon._sharding.device_group import place_of_devices
from gnomon._sharding.mesh import AbstractMesh, Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._tracing.bind import trace_for
from gnomon._tracing.constraints import constrained
from gnomon._tracing.partitioned import named, resharded, split_of
from gnomon._tracing.shardings import sharding_in
from gnomon.backends.errors import BackendUnavailable
from gnomon.passes.propagate_shardings import joined

__all__ = ["device_mesh", "give_shardings", "place_operands"]


def device_mesh(mesh: Mesh | AbstractMesh, operands: Sequence[Array]) -> Mesh | None:
    """The mesh whose devices hold the results of a mapped function.

    It is None inside of another mapped function, whose body runs on one device, and where no
    devices are known. The devices of an abstract mesh are those of the operands or of the context.

    Raises:
      BackendUnavailable: the devices are only described by a topology, and the call is not traced.
      NotImplementedError: there are several devices of a platform whose programs run on one only.
    """
    concrete, context, _ = config.mesh_context
    if context is not None and context.manual_axes:
        return None
    if isinstance(mesh, AbstractMesh):
        known: list[Any] = [s.mesh for s in map(sharding_in, operands) if s is not None]
        candidates = [m for m in (*known, concrete) if isinstance(m, Mesh)]
        alike = [m for m in candidates if m.shape == mesh.shape]
        if not alike:
            return None
        mesh = alike[0]
    first = mesh._flat[0]
    if is_described(first) and trace_for(operands) is None:
        raise BackendUnavailable(
            f"the devices of {mesh} are only described, so they cannot run programs: call "
            "shard_map or pmap in a function, and compile it with "
            "gnomon.jit(f).lower(...).compile()"
        )
    if not is_described(first):
        check_partitions(mesh._flat)
    return mesh


def place_operands(
    operands: Sequence[Any],
    specs: Sequence[PartitionSpec],
    mesh: Mesh,
    manual: Sequence[Any],
    what: str,
) -> list[Any]:
    """The operands of a mapped function on the devices of its mesh.

    Args:
      operands: the arrays.
      specs: how they are split over the manual axes.
      mesh, manual: the mesh, and its manual axes.
      what: the transformation, for messages.
    Raises:
      ValueError: an operand is committed to other devices.
    """
    place = place_of_devices(mesh._flat)
    device = committed_device(operands, lambda i: f"argument {i} of {what}")
    if device is not None and device is not place:
        raise ValueError(
            f"received incompatible devices: an argument of {what} is committed to {device!r}, "
            f"but the mesh has {place!r}. Move it with gnomon.device_put"
        )
    if trace_for(operands) is None and not in_host_memory(place):
        return [
            x if type(x) is ShardedArray else resharded(x, NamedSharding(mesh, spec))
            for x, spec in zip(operands, specs, strict=True)
        ]
    if len(manual) < len(mesh.axis_names):
        return list(operands)  # The other axes split the result as they split the operands.
    if trace_for(operands) is None:
        # Each device is given its shard, however the array was sharded before.
        return [
            wrap(x.numpy_value(), x.weak_type) if type(x) is ShardedArray else x for x in operands
        ]
    return list(operands)


def give_shardings(
    results: Sequence[Any], specs: Sequence[PartitionSpec], mesh: Mesh, manual: Sequence[Any]
) -> list[Any]:
    """The results of a mapped function with the shardings that its ``out_specs`` give."""
    partly = len(manual) < len(mesh.axis_names)
    return [_give_sharding(x, spec, mesh, partly) for x, spec in zip(results, specs, strict=True)]


def _give_sharding(x: Any, spec: PartitionSpec, mesh: Mesh, partly: bool) -> Any:
    sharding = NamedSharding(mesh, spec)
    if not isinstance(x, ConcreteArray):
        return constrained(x, sharding, others_open=partly)
    if partly:
        own = split_of(sharding, mesh, x.ndim)
        sharding = named(mesh, joined(own, split_of(sharding_in(x), mesh, x.ndim)))
    return resharded(x, sharding)
