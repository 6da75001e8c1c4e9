"""Programs for all devices of a mesh that share no memory, and the buffers of their operands."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._arrays.concrete import ConcreteArray
from gnomon._arrays.sharded import ShardedArray, layout_of, sharded, sharded_buffer
from gnomon._sharding.device import HOST, in_host_memory, number_of
from gnomon._sharding.device_group import is_spread, place_of_devices
from gnomon._sharding.mesh import Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon.backends.interface import Executable, lower_to_run
from gnomon.backends.shards import PartitionedExecutable, ShardedBuffer, ShardedExecutable, put
from gnomon.dialects import shardy
from gnomon.dialects.body import Body
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir
from gnomon.dialects.types import TensorType
from gnomon.passes.propagate_shardings import Split

__all__ = [
    "annotate",
    "clear_caches",
    "compiled_on_mesh",
    "mesh_buffer",
    "named",
    "on_mesh",
    "resharded",
    "sharded_executable",
    "split_of",
]


def split_of(sharding: Any, mesh: Mesh | None, ndim: int) -> Split:
    """The axes of a mesh that split each dimension; none for a sharding over another mesh."""
    none: Split = ((),) * ndim
    if mesh is None or not isinstance(sharding, NamedSharding):
        return none
    if sharding.mesh.shape != mesh.shape:
        return none
    return (*sharding._axes, *none)[:ndim]


def named(mesh: Mesh, split: Split, typed: NamedSharding | None = None) -> NamedSharding:
    """The sharding of a split; over a mesh with explicit axes its spec has all entries.

    The unreduced and reduced axes are those of the sharding in the type, if that is given.
    """
    entries = list(split)
    while entries and not entries[-1] and not mesh.explicit_axes:
        entries.pop()
    spec = PartitionSpec() if typed is None else typed.spec
    return NamedSharding(mesh, spec.update(partitions=entries))


def on_mesh(sharding: Any, mesh: Mesh, ndim: int) -> NamedSharding:
    """How a program over a mesh takes an array: sharded as it is on that mesh, or replicated."""
    return named(mesh, split_of(sharding, mesh, ndim))


# ----------------------------------------------------------------------------------------- programs


def annotate(program: Program, mesh: Mesh, ins: Sequence[Any], outs: Sequence[Any]) -> None:
    """Mark a program as one for all devices of a mesh.

    Args:
      program: with the function ``main``.
      mesh: the mesh.
      ins, outs: the shardings of the arguments and results of ``main``; a value without a sharding
        is replicated.
    """
    arguments, results = program.signature("main")

    def entries(sharding: Any, type_: TensorType) -> list[str]:
        return [",".join(axes) for axes in split_of(sharding, mesh, type_.rank)]

    devices = tuple(map(number_of, mesh._flat))
    names = tuple(map(str, mesh.axis_names))
    shardy.annotate(
        program.module,
        shardy.Mesh(names, mesh.axis_sizes, devices),
        [entries(s, t) for s, t in zip(ins, arguments, strict=True)],
        [entries(s, t) for s, t in zip(outs, results, strict=True)],
    )


def sharded_executable(
    executable: PartitionedExecutable,
    mesh: Mesh,
    inputs: Sequence[tuple[Any, TensorType]],
    outputs: Sequence[tuple[Any, TensorType]],
) -> ShardedExecutable:
    """A program that a backend has compiled for a mesh, as a program on whole arrays.

    Args:
      executable: the program, of a module that `annotate` marked.
      mesh: the mesh.
      inputs, outputs: the sharding and type of each argument and result.
    """

    def layouts(types: Sequence[tuple[Any, TensorType]]) -> list[Any]:
        return [
            (layout_of(on_mesh(s, mesh, t.rank), tuple(t.shape)), np.dtype(t.dtype))
            for s, t in types
        ]

    return ShardedExecutable(executable, mesh._flat, layouts(inputs), layouts(outputs))


def compiled_on_mesh(
    program: Program, mesh: Mesh, ins: Sequence[Any], outs: Sequence[Any]
) -> Executable:
    """Compile a program for all devices of a mesh; its module is consumed."""
    arguments, results = program.signature("main")
    annotate(program, mesh, ins, outs)
    place: Any = place_of_devices(mesh._flat)
    compiled: Any = place.backend.compile(lower_to_run(place.backend, program), device=place)
    return sharded_executable(
        compiled,
        mesh,
        list(zip(ins, arguments, strict=True)),
        list(zip(outs, results, strict=True)),
    )


# ------------------------------------------------------------------------------------------ buffers

# The size of the cache of small host values on meshes, and the limit on the bytes of one value.
_CACHE_SIZE = 512
_MAX_SMALL_BYTES = 1 << 14

_small_buffers: OrderedDict[Any, ShardedBuffer] = OrderedDict()
_movers: OrderedDict[Any, Executable] = OrderedDict()
_lock = threading.Lock()


def clear_caches() -> None:
    """Forget the compiled resharding programs, and the values that are cached on devices."""
    with _lock:
        _small_buffers.clear()
        _movers.clear()


def mesh_buffer(x: Any, sharding: NamedSharding, *, fresh: bool = False) -> ShardedBuffer:
    """The shards of an array on the devices of a mesh; they are transferred if necessary.

    Args:
      x: an array, or a NumPy array.
      sharding: the sharding that is needed.
      fresh: whether the program may overwrite the buffer, so that it must not come from the cache.
    Raises:
      GnomonRuntimeError: the array is on devices of several processes, and these are other devices
        than those of the mesh, or in another order.
    """
    layout = layout_of(sharding, tuple(x.shape))
    if type(x) is ShardedArray and is_spread(x._device) and not x.is_only_on_host():
        buffer: Any = x.device_buffer()
        if buffer.layout is layout or buffer.layout == layout:
            return buffer
        if buffer.layout.devices == layout.devices:
            return _moved(buffer, x._sharding, sharding)
    value = ConcreteArray.numpy_value(x) if isinstance(x, ConcreteArray) else np.asarray(x)
    if value.nbytes <= _MAX_SMALL_BYTES and not fresh:
        key = (layout, value.dtype, value.tobytes())
        with _lock:
            found = _small_buffers.pop(key, None)
            if found is None or found.is_deleted() or found.is_lost():
                found = put(value, layout, copy=True)
            _small_buffers[key] = found
            if len(_small_buffers) > _CACHE_SIZE:
                _small_buffers.popitem(last=False)
        return found
    # The caller may write to a NumPy array as soon as the call has returned.
    return put(value, layout, copy=not isinstance(x, ConcreteArray))


def _moved(buffer: ShardedBuffer, source: NamedSharding, target: NamedSharding) -> ShardedBuffer:
    """The shards of an array with another sharding over the same devices."""
    if source.mesh.shape != target.mesh.shape:
        # A replicated array has the same layout over every mesh of the devices.
        whole = NamedSharding(source.mesh, PartitionSpec())
        if not buffer.layout.is_fully_replicated:
            buffer = _moved(buffer, source, whole)
        source = NamedSharding(target.mesh, PartitionSpec())
        if buffer.layout == layout_of(target, buffer.shape):
            return buffer
    type_ = TensorType(buffer.shape, buffer.dtype)
    (moved,) = _mover(type_, source, target).run([buffer])
    return moved


def _mover(type_: TensorType, source: NamedSharding, target: NamedSharding) -> Executable:
    """The compiled program that reshards an array over its mesh."""
    key = (type_, source, target)
    with _lock:
        mover = _movers.pop(key, None)
    if mover is None:
        program = Program()
        with context(), ir.Location.unknown(context()):
            program.add("main", Body.build([type_], lambda value: [value]), public=True)
        mover = compiled_on_mesh(program, target.mesh, [source], [target])
    with _lock:
        _movers[key] = mover
        if len(_movers) > _CACHE_SIZE:
            _movers.popitem(last=False)
    return mover


def resharded(x: ConcreteArray, sharding: NamedSharding) -> ShardedArray:
    """An array with another sharding; its value is moved where devices do not share memory.

    Raises:
      GnomonRuntimeError: see `mesh_buffer`.
    """
    place = place_of_devices(sharding._device_tuple)
    if in_host_memory(place):
        return sharded(x.numpy_value(), sharding, x.weak_type)
    if is_spread(place):
        return sharded_buffer(mesh_buffer(x, sharding, fresh=True), x.aval, sharding)
    here = place is getattr(x, "_device", HOST)
    buffer: Any = x.device_buffer() if here else None  # type: ignore[attr-defined]
    result = sharded(x.numpy_value(), sharding, x.weak_type) if buffer is None else None
    if result is None:
        return sharded_buffer(buffer, x.aval, sharding)
    result.device_buffer()
    return result
