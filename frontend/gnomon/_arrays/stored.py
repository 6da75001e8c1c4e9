"""The storage of arrays that have a value: its memory, its device, its shards, and its deletion."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray, shaped_array
from gnomon._arrays.shard import Shard
from gnomon._sharding.device import HOST, Device, in_host_memory
from gnomon._sharding.layout import Format, row_major
from gnomon._sharding.sharding import Sharding, SingleDeviceSharding
from gnomon.backends.errors import BufferDeletedError
from gnomon.backends.interface import Buffer

__all__ = ["StoredArray"]

_ndarray = np.ndarray


class StoredArray(Array):
    """An array with a value, in host memory or in a buffer of a backend."""

    __slots__ = ("__weakref__", "_aval", "_buffer", "_value", "weak_type")

    # The slots:
    # _value: an np.ndarray that is never written to, or None if only the device has the value.
    # _buffer: a Buffer or None. If both are None, the array was deleted, and _aval is set.
    # _aval: the interned type, or None until it is first read.
    _value: np.ndarray[Any, Any] | None
    _buffer: Buffer | None
    _aval: ShapedArray | None
    weak_type: bool

    @property
    def aval(self) -> ShapedArray:
        """Shape, dtype and weak type in one interned object."""
        aval = self._aval
        if aval is None:
            value = self._value
            assert value is not None
            aval = self._aval = shaped_array(value.shape, value.dtype, self.weak_type)
        return aval

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        value = self._value
        return self.aval.shape if value is None else value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        value = self._value
        return self.aval.dtype if value is None else value.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        value = self._value
        return self.aval.size if value is None else value.size

    # ------------------------------------------------------------------------------------ the value

    def numpy_value(self) -> np.ndarray[Any, Any]:
        """The value as the array holds it; do not write to it. Waits for the device.

        Raises:
          RuntimeError: the array was deleted or donated.
        """
        value = self._value
        if value is None:
            buffer = self._buffer
            if buffer is None:
                raise self._deleted_error()
            try:
                value = buffer.to_numpy()
            except BufferDeletedError:
                raise self._deleted_error() from None
            if type(value) is not _ndarray:
                value = np.asarray(value)
            self._value = value
        return value

    def _live_buffer(self) -> Buffer:
        buffer = self._buffer
        if buffer is None or buffer.is_deleted():
            raise self._deleted_error()
        return buffer

    def _deleted_error(self) -> RuntimeError:
        return RuntimeError(
            f"the array {self.aval} has been deleted or donated: its memory belongs to another "
            "value now. Use the result of the call that it was donated to, or call without "
            "donate_argnums"
        )

    def delete(self) -> None:
        """Free the memory; using the array afterwards raises ``RuntimeError``."""
        aval = self.aval
        buffer = self._buffer
        if buffer is not None and not buffer.is_deleted():
            buffer.delete()
        self._aval, self._value, self._buffer = aval, None, None

    def is_deleted(self) -> bool:
        """Whether the array was deleted by `delete`, or donated to a call."""
        if self._value is not None:
            return False
        return self._buffer is None or self._buffer.is_deleted()

    def block_until_ready(self) -> StoredArray:
        """Wait until the value is computed; return the array itself."""
        if self._value is None:
            buffer = self._buffer
            if buffer is None:
                raise self._deleted_error()
            try:
                buffer.wait()
            except BufferDeletedError:
                raise self._deleted_error() from None
        return self

    def is_ready(self) -> bool:
        """Whether the value is computed."""
        return self._value is not None or self._live_buffer().is_ready()

    def copy_to_host_async(self) -> None:
        """Start to copy the value to host memory, so that reading it need not wait."""
        if self._value is None:
            self._live_buffer().copy_to_host_async()

    def _check_alive(self) -> None:
        if self.is_deleted():
            raise self._deleted_error()

    @property
    def device(self) -> Device:
        """The device that holds the array."""
        return HOST

    def devices(self) -> set[Device]:
        """The devices that hold the array."""
        self._check_alive()
        return {self.device}

    @property
    def sharding(self) -> Sharding:
        """How the array is distributed over devices: it is on a single one."""
        return SingleDeviceSharding(self.device)

    @property
    def format(self) -> Format:
        """The sharding of the array, with the layout in memory that programs give it."""
        return row_major(self.ndim, self.sharding)

    def platform(self) -> str:
        """The name of the platform whose device holds the array."""
        return self.device.platform

    @property
    def committed(self) -> bool:
        """Whether the array was put on its device explicitly; then operations on it run there."""
        return False

    def on_device_size_in_bytes(self) -> int:
        """The bytes that the array takes up on its device."""
        self._check_alive()
        return self.nbytes

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return True

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        return True

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of the array that devices of this process hold."""
        return self._shards()

    @property
    def global_shards(self) -> list[Shard]:
        """The parts of the array that devices hold."""
        return self._shards()

    def addressable_data(self, index: int) -> Any:
        """The part that one device holds, by the position of the device in the sharding."""
        return self._shards()[index].data

    def unsafe_buffer_pointer(self) -> int:
        """The address of the elements in host memory, valid as long as the array is.

        Raises:
          NotImplementedError: the array is on an accelerator.
        """
        if not in_host_memory(self.device):
            raise NotImplementedError(
                f"unsafe_buffer_pointer: the array is on {self.device}, and its memory has no "
                "address on the host"
            )
        return int(self.numpy_value().ctypes.data)

    def _shards(self) -> list[Shard]:
        self._check_alive()
        return [Shard(self.device, (slice(None),) * self.ndim, 0, self)]
