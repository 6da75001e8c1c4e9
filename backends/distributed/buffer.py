"""Buffers: arrays on one device of jaxlib's client."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.backends.distributed.device import Device
from gnomon.backends.distributed.jaxlib_client import execution_error, put_on_device
from gnomon.backends.errors import BufferDeletedError, DistributedError
from gnomon.dialects.types import TensorType

__all__ = ["Buffer", "put"]

# The interval in seconds for polling a value that other processes help to compute.
_MIN_POLL_S, _MAX_POLL_S = 20e-6, 2e-3


class Buffer:
    """An array on a device, which may not have been computed yet.

    Args:
      array: jaxlib's array.
      device: the device that holds it.

    Attributes:
      shape: a tuple of integers.
      dtype: a NumPy dtype.
      device: the device that holds it.
    """

    __slots__ = ("__weakref__", "_array", "_deleted", "_host", "device", "dtype", "shape")

    def __init__(
        self, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device
    ) -> None:
        self._array = array
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self._host: np.ndarray[Any, Any] | None = None
        self._deleted: str | None = None

    @property
    def nbytes(self) -> int:
        """The size in bytes, as NumPy counts."""
        return TensorType(self.shape, self.dtype).nbytes

    @property
    def array(self) -> Any:
        """The jaxlib array.

        Raises:
          BufferDeletedError: the buffer was deleted or donated.
        """
        if self._array is None:
            raise BufferDeletedError.of(self, self._deleted)
        return self._array

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Wait for the value; return a read-only array, which may view the device's memory.

        Raises:
          ExecutionError: the program that computes it failed.
          DistributedError: another process that takes part in the program is gone.
          BufferDeletedError: the buffer was deleted or donated.
        """
        if self._host is None:
            self.wait()
            value, _ = self.array._single_device_array_to_np_array_did_copy()
            host = np.asarray(value)
            host.flags.writeable = False
            self._host = host
        return self._host

    def wait(self) -> None:
        """Wait for the value; raise the error of its computation, if any."""
        array = self.array
        world = self.device.world
        try:
            if world is not None and not array.is_ready():
                # A wait inside jaxlib could not be interrupted when another process dies.
                pause = _MIN_POLL_S
                while not array.is_ready():
                    world.pause(pause)
                    pause = min(2 * pause, _MAX_POLL_S)
            array.block_until_ready()
        except DistributedError:
            raise
        except RuntimeError as error:
            raise self._failed(error) from error

    def _failed(self, error: RuntimeError) -> Exception:
        world = self.device.world
        if world is not None:
            world.explain(error)
        return execution_error(error, "a program failed at run time")

    def is_ready(self) -> bool:
        """Whether the value is computed, so that reading it does not wait."""
        return bool(self.array.is_ready())

    def copy_to_host_async(self) -> None:
        """Do nothing: the device's memory is the host's."""

    def delete(self, reason: str = "delete() was called on it") -> None:
        """Drop the memory; any later use raises an error that states ``reason``."""
        if self._deleted is None:
            self._deleted = reason
            self._array = self._host = None

    def is_deleted(self) -> bool:
        """Whether the buffer was deleted or donated."""
        return self._array is None

    def is_lost(self) -> bool:
        """Whether the value will never be computed, because another process is gone."""
        world = self.device.world
        return world is not None and world.failure is not None and not self._is_computed()

    def _is_computed(self) -> bool:
        return self._array is not None and self._array.is_ready()

    def __repr__(self) -> str:
        state = "deleted" if self.is_deleted() else "ready" if self.is_ready() else "pending"
        return f"Buffer(shape={self.shape}, dtype={self.dtype}, {self.device}, {state})"


def put(array: np.ndarray[Any, Any], device: Device, *, copy: bool = False) -> Buffer:
    """Transfer an array to a device of this process; see `Backend.put`."""
    if not device.is_addressable:
        raise ValueError(
            f"{device!r} belongs to process {device.process_index}: this one cannot put arrays on "
            "it. The devices of this process are gnomon.local_devices()"
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    contiguous = array if array.flags.c_contiguous else np.array(array, order="C")
    try:
        made = put_on_device(contiguous, device.handle, copy=copy)
    except (RuntimeError, TypeError, ValueError) as error:
        what = f"an array of shape {array.shape} and dtype {array.dtype} cannot be put on"
        raise execution_error(error, f"{what} {device!r}") from error
    return Buffer(made, array.shape, array.dtype, device)
