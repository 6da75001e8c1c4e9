"""Arrays sharded over devices that do not share memory: each device has a buffer with its part.

A backend provides buffers on single devices (`Backend.put`) and executables with ``run_on_all``.
This module combines them into whole arrays, for any backend and any number of processes: a `Layout`
describes which part each device holds, a `ShardedBuffer` holds the parts on the devices of this
process, and a `ShardedExecutable` runs a program on such buffers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gnomon.backends.errors import BufferDeletedError, GnomonRuntimeError
from gnomon.backends.interface import Buffer, Device
from gnomon.dialects.types import TensorType

__all__ = [
    "NUMBERS",
    "Layout",
    "PartitionedExecutable",
    "ShardedBuffer",
    "ShardedExecutable",
    "is_addressable",
    "put",
]

# Programs identify a device by its id plus a multiple of this number. The multiple distinguishes
# platforms and topologies.
NUMBERS = 1 << 40

Shape = tuple[int, ...]
Index = tuple[slice, ...]


def is_addressable(device: Device) -> bool:
    """Whether a device belongs to this process, so that its memory can be read.

    Devices of a backend for several processes have an attribute ``is_addressable``. Other devices
    belong to this process if their ``process_index`` is 0.
    """
    is_addressable = getattr(device, "is_addressable", None)
    return device.process_index == 0 if is_addressable is None else bool(is_addressable)


class Layout:
    """The part of an array that each device holds.

    Args:
      shape: the shape of the whole array.
      devices: all devices of the mesh, in its order, whichever process they belong to.
      indices: the part of each device, one slice for each dimension. Devices with equal slices hold
        copies.

    Attributes:
      shape, devices, indices: the arguments; each slice has an explicit start and stop.
      local: the positions in ``devices`` of the devices of this process.
    """

    __slots__ = ("_hash", "_key", "devices", "indices", "local", "shape")

    def __init__(self, shape: Shape, devices: Sequence[Device], indices: Sequence[Index]) -> None:
        self.shape = tuple(shape)
        self.devices = tuple(devices)
        self.indices = tuple(_normalized(index, self.shape) for index in indices)
        self.local = tuple(i for i, device in enumerate(self.devices) if is_addressable(device))
        # Slices cannot be hashed before Python 3.12.
        places = tuple(tuple((s.start, s.stop) for s in index) for index in self.indices)
        self._key = (self.shape, self.devices, places)
        self._hash = hash(self._key)

    def place(self, position: int) -> tuple[tuple[int, int], ...]:
        """The part on the device at a position, as hashable (start, stop) pairs per dimension."""
        return self._key[2][position]

    def local_shape(self, position: int) -> Shape:
        """The shape of the part on the device at a position."""
        return tuple(stop - start for start, stop in self.place(position))

    @property
    def local_devices(self) -> tuple[Device, ...]:
        """The devices that belong to this process, in the order of the mesh."""
        return tuple(self.devices[i] for i in self.local)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return len(self.local) == len(self.devices)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        return all(self.local_shape(i) == self.shape for i in range(len(self.devices)))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Layout) and self._hash == other._hash and self._key == other._key
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Layout(shape={self.shape}, devices={self.devices}, indices={self.indices})"


def _normalized(index: Index, shape: Shape) -> Index:
    given = (*index, *(slice(None),) * (len(shape) - len(index)))
    return tuple(slice(*s.indices(size)[:2]) for s, size in zip(given, shape, strict=True))


class ShardedBuffer:
    """An array sharded over devices, which may not have been computed yet; a `Buffer`.

    Args:
      layout: which part each device holds.
      dtype: the dtype of the elements.
      parts: the buffers of ``layout.local_devices``, in that order. They may be shared with other
        arrays: `delete` drops them, and their memory is freed with its last user.
    """

    __slots__ = ("__weakref__", "_deleted", "_host", "_parts", "dtype", "layout")

    def __init__(self, layout: Layout, dtype: np.dtype[Any], parts: Sequence[Buffer]) -> None:
        if len(parts) != len(layout.local):
            raise TypeError(
                f"an array over {len(layout.devices)} devices, of which {len(layout.local)} "
                f"belong to this process, needs one part for each of these, got {len(parts)}"
            )
        self.layout = layout
        self.dtype = dtype
        self._parts: tuple[Buffer, ...] | None = tuple(parts)
        self._host: np.ndarray[Any, Any] | None = None
        self._deleted: str | None = None

    @property
    def shape(self) -> Shape:
        """The size of each dimension of the whole array."""
        return self.layout.shape

    @property
    def nbytes(self) -> int:
        """The size of the whole array in bytes, as NumPy counts."""
        return TensorType(self.shape, self.dtype).nbytes

    @property
    def device(self) -> Any:
        """The first of the devices."""
        return self.layout.devices[0]

    @property
    def parts(self) -> tuple[Buffer, ...]:
        """The buffers on the devices of this process.

        Raises:
          BufferDeletedError: the array was deleted, or a part of it was donated to a call.
        """
        parts = self._parts
        if parts is None or any(part.is_deleted() for part in parts):
            raise BufferDeletedError.of(self, self._deleted or "a part of it was deleted")
        return parts

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Wait for all parts; return the whole value as a read-only array.

        Raises:
          GnomonRuntimeError: some parts are only on devices of other processes.
        """
        host = self._host
        if host is None:
            host = self._host = self._assembled()
        return host

    def _assembled(self) -> np.ndarray[Any, Any]:
        layout, parts = self.layout, self.parts
        # Copies of a part may differ (the results of pmap with out_axes=None): the first is taken.
        chosen: dict[Any, tuple[Index, Buffer]] = {}
        for i, part in zip(layout.local, parts, strict=True):
            chosen.setdefault(layout.place(i), (layout.indices[i], part))
        for _, part in chosen.values():
            part.copy_to_host_async()
        whole = tuple((0, size) for size in layout.shape)
        if whole in chosen:
            return chosen[whole][1].to_numpy()
        self._check_complete()
        value = np.empty(layout.shape, self.dtype)
        for index, part in chosen.values():
            value[index] = part.to_numpy()
        value.flags.writeable = False
        return value

    def is_readable(self) -> bool:
        """Whether the devices of this process hold all parts, so that the value can be read."""
        layout = self.layout
        if layout.is_fully_addressable:
            return True
        here = {layout.place(i) for i in layout.local}
        return all(layout.place(i) in here for i in range(len(layout.devices)))

    def _check_complete(self) -> None:
        if self.is_readable():
            return
        layout = self.layout
        raise GnomonRuntimeError(
            f"an array of shape {layout.shape} is distributed over the devices of several "
            f"processes, and this process has {len(layout.local)} of its {len(layout.devices)} "
            "devices, so its value cannot be read here. Read the local parts "
            "(x.addressable_shards), or gather the array in each process: "
            "gnomon.experimental.multihost_utils.process_allgather(x), or jit with out_shardings "
            "of gnomon.P()"
        )

    def wait(self) -> None:
        """Wait for all parts; raise the error of their computation, if any."""
        for part in self.parts:
            part.wait()

    def is_ready(self) -> bool:
        """Whether all parts are computed, so that reading them does not wait."""
        return all(part.is_ready() for part in self.parts)

    def copy_to_host_async(self) -> None:
        """Start the transfer of the parts to the host."""
        for part in self.parts:
            part.copy_to_host_async()

    def delete(self, reason: str = "delete() was called on it") -> None:
        """Drop the parts; any later use raises an error that states ``reason``."""
        if self._deleted is None:
            self._deleted = reason
            self._parts = self._host = None

    def is_deleted(self) -> bool:
        """Whether `delete` was called, or a part was deleted or donated."""
        parts = self._parts
        return parts is None or any(part.is_deleted() for part in parts)

    def is_lost(self) -> bool:
        """Whether a part is lost because its device is gone or belongs to another process."""
        parts = self._parts
        return parts is not None and any(part.is_lost() for part in parts)

    def __repr__(self) -> str:
        state = "deleted" if self.is_deleted() else "ready" if self.is_ready() else "pending"
        return (
            f"ShardedBuffer(shape={self.shape}, dtype={self.dtype}, "
            f"{len(self.layout.devices)} devices, {state})"
        )


def put(array: np.ndarray[Any, Any], layout: Layout, *, copy: bool = False) -> ShardedBuffer:
    """Give each device of this process its part of an array.

    Args:
      array: the whole array; without ``copy`` it must not be modified during the lifetime of the
        buffer.
      layout: the layout, for the array's shape.
      copy: whether the array may be modified as soon as the call returns.
    Raises:
      OutOfMemory: a device does not have enough free memory.
    """
    parts: list[Buffer] = []
    for position in layout.local:
        device = layout.devices[position]
        part = np.asarray(array[layout.indices[position]])
        parts.append(device.backend.put(part, device, copy=copy))
    return ShardedBuffer(layout, array.dtype, parts)


class PartitionedExecutable(Protocol):
    """A program that a backend has compiled for all devices of a mesh.

    Its optional methods are those of an `Executable`.
    """

    def run_on_all(self, buffers: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Start the program on all devices of this process.

        Args:
          buffers: for each of these devices, in the order of the mesh, the parts of the arguments.
        Returns:
          For each of these devices, the parts of the results.
        """


class ShardedExecutable:
    """A program for all devices of a mesh that takes whole arrays; an `Executable`.

    Args:
      executable: the program.
      devices: the devices of the mesh.
      inputs, outputs: the layouts and dtypes of the arguments and results.
    """

    def __init__(
        self,
        executable: PartitionedExecutable,
        devices: Sequence[Device],
        inputs: Sequence[tuple[Layout, np.dtype[Any]]],
        outputs: Sequence[tuple[Layout, np.dtype[Any]]],
    ) -> None:
        self.executable = executable
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._count = sum(map(is_addressable, devices))

    def __getattr__(self, name: str) -> Any:
        # The optional methods of the backend's executable: serialize, memory_analysis, as_text, ...
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.executable, name)

    @functools.cached_property
    def input_types(self) -> Sequence[tuple[Shape, Any]]:
        """The shape and dtype of each whole argument."""
        return [(layout.shape, dtype) for layout, dtype in self.inputs]

    @functools.cached_property
    def output_types(self) -> Sequence[tuple[Shape, Any]]:
        """The shape and dtype of each whole result."""
        return [(layout.shape, dtype) for layout, dtype in self.outputs]

    def run(self, buffers: Sequence[ShardedBuffer]) -> list[ShardedBuffer]:
        """Start the program on buffers that have the layouts of its inputs, without checks."""
        given = [buffer.parts for buffer in buffers]
        of_devices = list(zip(*given, strict=True)) if given else [()] * self._count
        made = self.executable.run_on_all(of_devices)
        parts: Any = zip(*made, strict=True) if made else [()] * len(self.outputs)
        return [
            ShardedBuffer(layout, dtype, part)
            for (layout, dtype), part in zip(self.outputs, parts, strict=True)
        ]

    def __call__(self, args: Sequence[Any]) -> list[ShardedBuffer]:
        """Start the program on buffers or whole NumPy arrays; check their types and layouts."""
        if len(args) != len(self.inputs):
            raise TypeError(f"the program takes {len(self.inputs)} arguments, got {len(args)}")
        buffers = []
        for i, (arg, (layout, dtype)) in enumerate(zip(args, self.inputs, strict=True)):
            if tuple(arg.shape) != layout.shape or arg.dtype != dtype:
                raise TypeError(
                    f"argument {i} has shape {tuple(arg.shape)} and dtype {arg.dtype}, but the "
                    f"program was compiled for shape {layout.shape} and dtype {dtype}"
                )
            if isinstance(arg, np.ndarray):
                arg = put(arg, layout, copy=True)
            elif arg.layout != layout:
                raise TypeError(f"argument {i} is {arg.layout}, the program takes {layout}")
            buffers.append(arg)
        return self.run(buffers)
