"""Buffers: arrays on a device of a plugin, which a running program may still compute.

Three objects have lifetimes: the `Buffer` that the user holds, the device's memory (`Memory`), and
NumPy's memory on the host. If the device's memory is the host's, the device may read a NumPy array
in place, and NumPy may view device memory. A `Memory` therefore keeps the array from which it was
created, a view of device memory keeps the `Memory`, and `Buffer.delete` only drops its reference.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from gnomon.backends import profiling
from gnomon.backends.errors import BufferDeletedError, ExecutionError, OutOfMemory
from gnomon.backends.pjrt.c_api import STRUCTS, PjrtError, address_of
from gnomon.backends.pjrt.client import Client, Device
from gnomon.dialects.types import TensorType

__all__ = ["ELEMENT_TYPES", "Buffer", "Memory", "execution_error", "put", "result_buffer"]

# The values of PJRT_Buffer_Type.
ELEMENT_TYPES: dict[np.dtype[Any], int] = {
    np.dtype(dtype): number
    for dtype, number in (
        (np.bool_, 1),
        (np.int8, 2),
        (np.int16, 3),
        (np.int32, 4),
        (np.int64, 5),
        (np.uint8, 6),
        (np.uint16, 7),
        (np.uint32, 8),
        (np.uint64, 9),
        (np.float16, 10),
        (np.float32, 11),
        (np.float64, 12),
        (ml_dtypes.bfloat16, 13),
        (np.complex64, 14),
        (np.complex128, 15),
        (ml_dtypes.float8_e5m2, 16),
        (ml_dtypes.float8_e4m3fn, 17),
        (ml_dtypes.float8_e4m3b11fnuz, 18),
        (ml_dtypes.float8_e5m2fnuz, 19),
        (ml_dtypes.float8_e4m3fnuz, 20),
        (ml_dtypes.int4, 21),
        (ml_dtypes.uint4, 22),
        (ml_dtypes.int2, 24),
        (ml_dtypes.uint2, 25),
        (ml_dtypes.float8_e4m3, 26),
        (ml_dtypes.float8_e3m4, 27),
        (ml_dtypes.float8_e8m0fnu, 28),
        (ml_dtypes.float4_e2m1fn, 29),
    )
}
# Dtypes that are packed on the device, while NumPy stores one element per byte.
_PACKED = frozenset(
    np.dtype(d)
    for d in (
        ml_dtypes.int4,
        ml_dtypes.uint4,
        ml_dtypes.int2,
        ml_dtypes.uint2,
        ml_dtypes.float4_e2m1fn,
    )
)

# PJRT_HostBufferSemantics: copy during the call, or read in place for the buffer's lifetime.
_COPY, _IN_PLACE = 0, 2
# Below this size, copying is cheaper than the bookkeeping of reading in place.
_COPY_BELOW_BYTES = 16384


def execution_error(error: PjrtError, what: str) -> ExecutionError | OutOfMemory:
    """Convert a plugin's error in an allocation, transfer or execution."""
    kind = OutOfMemory if error.code == "RESOURCE_EXHAUSTED" else ExecutionError
    return kind(f"{what}: {error}")


class Memory:
    """Memory of a device, freed when this object is garbage collected.

    Attributes:
      client: the client that owns it.
      handle: the plugin's buffer.
      source: the NumPy array that the device reads in place, and the event that signals when it no
        longer does.
    """

    __slots__ = ("client", "handle", "source")

    def __init__(self, client: Client, handle: int, source: tuple[int, object] | None = None):
        self.client = client
        self.handle = client.adopt(handle, "Buffer_Destroy")
        self.source = source
        if source is not None:
            client.adopt(source[0], "Event_Destroy")

    def __del__(self) -> None:
        client = self.client
        client.release(self.handle)
        if self.source is not None:
            client.linger(*self.source)

    @property
    def is_shared(self) -> bool:
        """Whether NumPy arrays view the memory, so that no program may reuse it."""
        return self.handle in self.client.viewed


class _View:
    """The base of NumPy arrays that view device memory."""

    __slots__ = ("__array_interface__", "__weakref__", "memory")

    def __init__(self, memory: Memory, shape: tuple[int, ...], itemsize: int, address: int):
        self.memory = memory
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": f"|V{itemsize}",
            "data": (address, True),
        }


class _Transfer:
    """A running copy to the host; keeps the array alive until it finishes."""

    __slots__ = ("array", "client", "event")

    def __init__(self, client: Client, event: int, array: np.ndarray[Any, Any]):
        self.client = client
        self.event = client.adopt(event, "Event_Destroy")
        self.array = array

    def finish(self) -> np.ndarray[Any, Any]:
        """Wait for the copy and return the array."""
        self.client.api.call("Event_Await", event=self.event)
        return self.array

    def __del__(self) -> None:
        self.client.linger(self.event, self.array)


class Buffer:
    """An array on a device, which may not have been computed yet.

    Attributes:
      shape: a tuple of integers.
      dtype: a NumPy dtype.
      device: the device that holds it.
    """

    __slots__ = (
        "__weakref__",
        "_deleted",
        "_host",
        "_memory",
        "_transfer",
        "device",
        "dtype",
        "shape",
    )

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: Device

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, memory: Memory
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self._memory: Memory | None = memory
        self._host: np.ndarray[Any, Any] | None = None
        self._transfer: _Transfer | None = None
        self._deleted: str | None = None

    @property
    def nbytes(self) -> int:
        """The size in bytes, as NumPy counts."""
        return TensorType(self.shape, self.dtype).nbytes

    @property
    def memory(self) -> Memory:
        """The device's memory.

        Raises:
          BufferDeletedError: the buffer was deleted or donated.
          ExecutionError: its client was closed, or this process is a fork of the client's process.
        """
        memory = self._memory
        if memory is None:
            raise BufferDeletedError.of(self, self._deleted)
        memory.client.check_alive()
        return memory

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Wait for the value and return a read-only array, a view if memory is shared.

        Raises:
          ExecutionError: the program that computes it failed.
          BufferDeletedError: the buffer was deleted or donated.
        """
        host = self._host
        if host is None:
            memory, transfer = self.memory, self._transfer
            if transfer is None and self._can_be_read_in_place(memory):
                self.wait()
                host = self._view(memory)
            else:
                transfer = transfer or self._start_transfer(memory)
                try:
                    host = transfer.finish()
                except PjrtError as error:
                    raise self._failed(error) from error
                finally:
                    self._transfer = None
            host.flags.writeable = False
            self._host = host
        return host

    def copy_to_host_async(self) -> None:
        """Start the transfer to the host, for which `to_numpy` waits."""
        memory = self.memory
        if self._host is not None or self._transfer is not None:
            return
        if not self._can_be_read_in_place(memory):
            self._transfer = self._start_transfer(memory)

    def _start_transfer(self, memory: Memory) -> _Transfer:
        array = np.empty(self.shape, self.dtype)
        layout, kept = _row_major(len(self.shape))
        try:
            started = memory.client.api.call(
                "Buffer_ToHostBuffer",
                buffer=memory.handle,
                host_layout=address_of(layout),
                data=array.ctypes.data,
                data_size=array.nbytes,
            )
        except PjrtError as error:
            raise self._failed(error) from error
        del kept
        return _Transfer(memory.client, started.event, array)

    def is_ready(self) -> bool:
        """Whether the value can be read without waiting; reading may still raise."""
        if self._host is not None:
            return True
        memory = self.memory
        api = memory.client.api
        event = api.call("Buffer_ReadyEvent", buffer=memory.handle).event
        ready = api.is_ready(event)
        api.call("Event_Destroy", event=event)
        return ready

    def wait(self) -> None:
        """Wait for the value.

        Raises:
          ExecutionError: the program that computes it failed.
          BufferDeletedError: the buffer was deleted or donated.
        """
        if self._host is not None:
            return
        memory = self.memory
        api = memory.client.api
        try:
            api.wait(api.call("Buffer_ReadyEvent", buffer=memory.handle).event)
        except PjrtError as error:
            raise self._failed(error) from error

    def delete(self, reason: str = "delete() was called on it") -> None:
        """Release the memory, so that any later use raises; NumPy arrays of it stay valid."""
        if self._deleted is None:
            self._deleted = reason
            self._memory = self._host = self._transfer = None

    def is_deleted(self) -> bool:
        """Whether `delete` was called or the buffer was donated."""
        return self._deleted is not None

    def is_lost(self) -> bool:
        """Always false: a client is not restarted, so no buffer outlives it."""
        return False

    def copy_to(self, device: Device) -> Buffer:
        """Copy the array to another device of the same client."""
        memory = self.memory
        try:
            copied = memory.client.api.call(
                "Buffer_CopyToDevice", buffer=memory.handle, device=device.handle
            )
        except PjrtError as error:
            raise self._failed(error) from error
        return Buffer(self.shape, self.dtype, device, Memory(memory.client, copied.copy))

    def _can_be_read_in_place(self, memory: Memory) -> bool:
        return memory.client.shares_host_memory and self.dtype not in _PACKED

    def _view(self, memory: Memory) -> np.ndarray[Any, Any]:
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        client, handle = memory.client, memory.handle
        view = client.viewed.get(handle)
        if view is None:
            address = client.api.call("Buffer_UnsafePointer", buffer=handle).pointer
            view = _View(memory, self.shape, self.dtype.itemsize, address)
            client.viewed[handle] = view
        return np.asarray(view).view(self.dtype)

    def _failed(self, error: PjrtError) -> ExecutionError | OutOfMemory:
        return execution_error(error, "the program that computes this value failed")

    def __repr__(self) -> str:
        state = "deleted" if self._deleted else "ready" if self.is_ready() else "pending"
        return f"Buffer(shape={self.shape}, dtype={self.dtype}, device={self.device!r}, {state})"


def _row_major(rank: int) -> tuple[Any, Any]:
    """The row-major layout, and the objects to keep alive along with it."""
    struct = STRUCTS["MemoryLayout"]
    order = (ctypes.c_int64 * max(rank, 1))(*reversed(range(rank)))
    layout = struct(minor_to_major=address_of(order), minor_to_major_size=rank)
    layout.struct_size = layout.tiled_size = struct.size
    return layout, order


_new = object.__new__


def result_buffer(
    shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, memory: Memory
) -> Buffer:
    """Make the buffer of a program's result, more quickly than ``Buffer(...)`` does."""
    buffer = _new(Buffer)
    buffer.shape = shape
    buffer.dtype = dtype
    buffer.device = device
    buffer._memory = memory
    buffer._host = buffer._transfer = buffer._deleted = None
    return buffer


def put(array: np.ndarray[Any, Any], device: Device, *, copy: bool = False) -> Buffer:
    """Transfer an array to a device; share its memory if the device can read it in place.

    Args:
      array: an array of any layout; without ``copy`` it must not be modified during the lifetime of
        the buffer.
      device: the target device.
      copy: whether the array may be modified as soon as the call returns.

    Raises:
      TypeError: the device does not support the dtype.
      OutOfMemory: the device does not have enough free memory.
    """
    client = device.client
    client.check_alive()
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    element = ELEMENT_TYPES.get(array.dtype)
    if element is None:
        supported = ", ".join(sorted(known.name for known in ELEMENT_TYPES))
        raise TypeError(
            f"arrays of dtype {array.dtype} cannot be put on {device!r}; convert to one of "
            f"{supported}"
        )
    shape = array.shape
    contiguous = array if array.flags.c_contiguous else np.array(array, order="C")
    in_place = not copy and array.nbytes >= _COPY_BELOW_BYTES and array.dtype not in _PACKED
    dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    try:
        made = client.api.call(
            "Client_BufferFromHostBuffer",
            client=client.handle,
            data=contiguous.ctypes.data,
            type=element,
            dims=address_of(dims),
            num_dims=len(shape),
            host_buffer_semantics=_IN_PLACE if in_place else _COPY,
            device=device.handle,
        )
    except PjrtError as error:
        what = f"an array of shape {shape} and dtype {array.dtype} cannot be put on {device!r}"
        raise execution_error(error, what) from error
    event = made.done_with_host_buffer
    # A plugin that cannot use the memory in place (for its alignment, say) has already copied it.
    if in_place and not client.api.is_ready(event):
        memory = Memory(client, made.buffer, (event, contiguous))
    else:
        memory = Memory(client, made.buffer)
        client.api.wait(event)
    return Buffer(shape, array.dtype, device, memory)


profiling.instrument(Buffer, "wait", profiling.record_wait)
