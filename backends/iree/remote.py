"""Arrays in a device's own memory, which Python reaches by copies."""

from __future__ import annotations

import threading
from typing import Any

import iree.runtime as rt
import numpy as np

from gnomon.backends.errors import ExecutionError, OutOfMemory
from gnomon.backends.iree.buffer import Buffer, Pending, element_type, execution_error
from gnomon.backends.iree.device import Device
from gnomon.backends.iree.driver import DriverState
from gnomon.backends.iree.transfer import Download, Upload

__all__ = ["RemoteBuffer", "put", "read", "upload_and_wait"]


class _Lost(Pending):
    """The program of a value that is lost."""

    __slots__ = ("_reason",)

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def finished(self) -> bool:
        """Return True."""
        return True

    def failure(self) -> str:
        """The reason why the value is lost."""
        return self._reason

    def wait(self) -> None:
        """Raise an error that gives the reason."""
        raise ExecutionError(self._reason)


class RemoteBuffer(Buffer):
    """An array in a device's own memory, which may not be copied or computed yet.

    The memory is freed with the buffer, as soon as the programs that use it have ended. The device
    counts the memory of its buffers.
    """

    __slots__ = ("_counted", "_download", "_moving", "_state")

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        device: Device,
        state: DriverState,
        *,
        view: Any = None,
        pending: Pending | None = None,
    ) -> None:
        super().__init__(shape, dtype, device, view=view, pending=pending)
        self._state = state
        self._download: Download | None = None
        # Held while the value is read or put on a new device: a download ends only once. The memory
        # for it may come from garbage, whose finalizers may read this value on the same thread.
        self._moving = threading.RLock()
        self._counted = 0 if view is None else view.byte_length
        state.memory.add(self, self._counted)

    def copy_to_host_async(self) -> None:
        """Start copying the value to the host, so that `to_numpy` waits less."""
        self._check_alive()
        view, pending = self._view, self._pending
        if self._host is not None or self._download is not None or not (view and view.byte_length):
            return
        if pending is not None and pending.failure() is not None:
            # `wait` raises its error. On CUDA, a copy after a failed program would fail all later
            # work of the device with the same error.
            return
        try:
            self._download = Download(self._state, view, pending.fence if pending else None)
        except OutOfMemory:
            raise
        except RuntimeError as error:
            # If its program failed, the error is raised where the value is read.
            if pending is None or pending.failure() is None:
                raise execution_error("the value cannot be read", error, self._state) from error

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Wait for the value and return a read-only copy of it, always the same one.

        Raises:
          ExecutionError: the program that computes it failed.
          OutOfMemory: there is no memory for a copy.
          BufferDeletedError: the buffer was deleted or donated.
        """
        host = self._host
        if host is None:
            with self._moving:
                host = self._host
                if host is None:
                    host = self._host = self._read()
        return host

    def _read(self) -> np.ndarray[Any, Any]:
        self.copy_to_host_async()
        download = self._download
        self.wait()
        if download is None:
            host = np.empty(self.shape, self.dtype)
            assert host.nbytes == 0
        else:
            try:
                host = download.finish(self.shape, self.dtype)
            except RuntimeError as error:
                raise execution_error("the value cannot be read", error, self._state) from error
        host.flags.writeable = False
        self._download = None
        return host

    def delete(self, reason: str = "delete() was called on it") -> None:
        """Release the memory; any later use raises. Arrays from `to_numpy` stay valid."""
        self._state.activate()
        super().delete(reason)
        self._download = None
        self._uncount()

    def view_for(self, state: DriverState) -> Any:
        """IREE's view of the buffer; if its device is gone, of the copy that was read before."""
        if self._view is None:
            with self._moving:
                if self._view is None:
                    self._check_alive()
                    assert self._array is not None
                    again = put(self._array, self.device, state)
                    # The view comes last: another thread that sees it takes the rest with it.
                    self._state, self._counted, again._counted = state, again._counted, 0
                    self._pending = again._pending
                    self._view, self._array = again._view, None
        return self._view

    def is_lost(self) -> bool:
        """Whether the value was lost with its device."""
        return isinstance(self._pending, _Lost)

    def abandon(self, reason: str) -> None:
        """Note that the device is gone; the value is lost unless it was read before.

        Its memory is not freed, since that would need the device.
        """
        if self._deleted is None:
            self._state.memory.leak((self._view, self._pending, self._download))
            self._view = self._pending = self._download = None
            self._array = self._host
            if self._array is None:
                self._pending = _Lost(reason)

    def _uncount(self) -> None:
        counted, self._counted = self._counted, 0
        if counted:
            self._state.memory.remove(counted)

    def __del__(self) -> None:
        # The memory is freed after this, in any thread.
        self._state.activate()
        self._uncount()


def put(array: np.ndarray[Any, Any], device: Device, state: DriverState) -> RemoteBuffer:
    """Copy an array to a device, without waiting for the end of the copy.

    Args:
      array: an array of any layout, of a dtype that IREE supports; it may be changed afterwards.
      device: the device.
      state: the state of IREE's device.

    Raises:
      TypeError: the dtype is not supported.
      OutOfMemory: the device has no room for it.
    """
    dtype = array.dtype.newbyteorder("=") if array.dtype.byteorder == ">" else array.dtype
    element = element_type(dtype)
    upload = Upload(state, array.astype(dtype, copy=False))
    view = rt.HalBufferView(upload.memory, array.shape, element)
    pending = None
    if upload.semaphore is not None:
        fence = rt.HalFence.create_at(upload.semaphore, 1)
        pending = Pending(upload.semaphore, fence, state)
    return RemoteBuffer(array.shape, dtype, device, state, view=view, pending=pending)


def upload_and_wait(state: DriverState, array: np.ndarray[Any, Any]) -> Any:
    """Copy an array to a device, and return IREE's view of it, which is ready."""
    element = element_type(array.dtype)
    upload = Upload(state, array)
    if upload.semaphore is not None:
        upload.semaphore.wait(1)
    return rt.HalBufferView(upload.memory, array.shape, element)


def read(
    state: DriverState, view: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Copy a value that is ready, and wait for the copy."""
    return Download(state, view, None).finish(shape, dtype)
