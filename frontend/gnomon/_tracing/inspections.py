"""Inspections: callbacks that receive the sharding of a value of a program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from gnomon._arrays.array import Array
from gnomon._config.current import config
from gnomon._sharding.mesh import Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._sharding.sharding import Sharding, SingleDeviceSharding
from gnomon._tracing.bind import trace_for
from gnomon._tracing.partitioned import named
from gnomon.dialects.callbacks import Callback, callback_of
from gnomon.dialects.emit import ops
from gnomon.passes.propagate_shardings import Inspected

__all__ = ["any_inspections", "inspect", "report_shardings"]

# Set when the first inspection is made; before that, no program need be searched for one.
_inspections = threading.Event()


def inspect(x: Array, callback: Callable[[Any], Any]) -> None:
    """Call a function with the sharding of an array: at once, or when its program is compiled."""
    trace = trace_for([x])
    if trace is None:
        callback(x.sharding)
        return
    _inspections.set()
    concrete, abstract, _ = config.mesh_context
    # Inside of `shard_map` the value is a shard, which is whole on its device.
    manual = abstract is not None and bool(abstract.manual_axes)
    mesh = (concrete or abstract) if manual else None

    def call(sharding: Sharding) -> tuple[()]:
        callback(sharding if mesh is None else NamedSharding(mesh, PartitionSpec()))
        return ()

    registered = Callback(call)
    trace.program.callbacks.append(registered)
    trace.bind(ops.inspect_sharding, [x], {"callback": registered.number})


def any_inspections() -> bool:
    """Whether programs may have inspections."""
    return _inspections.is_set()


def report_shardings(inspections: Sequence[Inspected], where: Mesh | Any) -> None:
    """Call the callbacks of inspections.

    Args:
      inspections: the inspections of a program, with the shardings of their values.
      where: the mesh of the program, or its only device.
    """
    for inspected in inspections:
        sharding: Any
        if isinstance(where, Mesh):
            sharding = named(where, inspected.split)
        else:
            sharding = SingleDeviceSharding(where)
        callback_of(inspected.callback).function(sharding)
