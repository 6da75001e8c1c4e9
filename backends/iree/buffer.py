"""Buffers: arrays that live on a device, ready now or when a program has finished."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import iree.runtime as rt
import ml_dtypes
import numpy as np

from gnomon.backends import profiling
from gnomon.backends.errors import BufferDeletedError, ExecutionError, OutOfMemory
from gnomon.backends.iree.device import Device, DriverState, cpu_device, forks
from gnomon.backends.iree.waiting import Pace, wait_for
from gnomon.dialects.types import FLOAT8, SUB_BYTE, TensorType
from gnomon_runtime.inside import silence_leak_reports
from gnomon_runtime.memory import ELEMENT_TYPES, IMPORTED_USAGE_BIT, MEMORY_TYPE, OWNED_USAGE

silence_leak_reports()

__all__ = [
    "IMPORTED_USAGE_BIT",
    "Buffer",
    "Pending",
    "element_type",
    "execution_error",
    "import_array",
    "result_buffer",
]

_ELEMENT_TYPES: dict[np.dtype[Any], Any] = {
    **ELEMENT_TYPES,
    np.dtype(ml_dtypes.bfloat16): rt.HalElementType.BFLOAT_16,
    # The compiled program takes elements narrower than a byte, and 8-bit floats, as bytes.
    **{np.dtype(dtype): rt.HalElementType.UINT_8 for dtype in (*FLOAT8, *SUB_BYTE)},
}

# The buffer protocol does not support these types, but it supports integers of their width.
_STORAGE_TYPES: dict[np.dtype[Any], np.dtype[Any]] = {
    dtype: np.dtype(f"u{dtype.itemsize}")
    for dtype in _ELEMENT_TYPES
    if dtype.kind == "V" or (dtype.itemsize == 1 and dtype.kind == "f")
}

_ndarray = np.ndarray

_IMPORTED_USAGE = OWNED_USAGE | IMPORTED_USAGE_BIT

# Copying fewer bytes than this is quicker than importing them (2.5 us against 6 at 1 kB).
_COPY_BELOW_BYTES = 16384
_PLACE = re.compile(r"^[^\n]*?\.(?:c|cc|h):\d+: [A-Z_]+; ")
_NO_FILE = ("unable to open file", "failed to open", "mkstemp", "Too many open files")
_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "OUT_OF_MEMORY", "OUT_OF_DEVICE_MEMORY")


def element_type(dtype: np.dtype[Any]) -> Any:
    """IREE's element type for a NumPy dtype.

    Raises:
      TypeError: IREE has no such type.
    """
    found = _ELEMENT_TYPES.get(dtype)
    if found is None:
        supported = ", ".join(sorted(known.name for known in _ELEMENT_TYPES))
        raise TypeError(
            f"arrays of dtype {dtype} cannot be passed to a compiled program; convert to one of "
            f"{supported}"
        )
    return found


class Pending:
    """A program that may still run: the semaphore that it raises to 1, and a fence for it.

    Attributes:
      pace, started: for `wait_for`.
    """

    __slots__ = ("fence", "forks", "pace", "semaphore", "started", "state")

    def __init__(
        self,
        semaphore: Any,
        fence: Any,
        state: DriverState,
        pace: Pace | None = None,
        started: float = 0.0,
    ) -> None:
        self.forks = forks()
        self.semaphore = semaphore
        self.fence = fence
        self.state = state
        self.pace = pace
        self.started = started

    def finished(self) -> bool:
        """Whether it ended, successfully or not."""
        try:
            return bool(self.semaphore.query() >= 1) or self.forks != forks()
        except RuntimeError:
            return True

    def failure(self) -> str | None:
        """The reason of its failure; None if it has not failed."""
        try:
            self.semaphore.query()
        except RuntimeError as error:
            return _reason(error)
        return None

    def wait(self) -> None:
        """Wait for its end.

        Raises:
          ExecutionError, OutOfMemory: it failed.
        """
        try:
            if self.semaphore.query() < 1 and self.forks != forks():
                raise ExecutionError(
                    "the program that computes this value was still running when this process was "
                    "forked; wait for results before a fork"
                )
            wait_for(self.semaphore, self.pace, self.started)
        except RuntimeError as error:
            what = "the program that computes this value failed"
            raise execution_error(what, error, self.state) from error
        finally:
            self.state.in_flight.release_finished()


def _reason(error: BaseException) -> str:
    """The message of an error, without the position in IREE's sources that may precede it."""
    return _PLACE.sub("", str(error), count=1)


def execution_error(
    what: str, error: BaseException, state: DriverState
) -> ExecutionError | OutOfMemory:
    """The error to raise for an error of IREE's on a device."""
    text = str(error)
    lost = state.describe_loss(error)
    if lost is not None:
        return ExecutionError(f"{what}: {_reason(error)}; {lost}")
    if any(sign in text for sign in _NO_FILE):
        return ExecutionError(
            f"{what}: no file can be opened; the process may have reached the limit of its open "
            "files (`ulimit -n`), or the disk of its temporary folder is full"
        )
    if any(sign in text for sign in _OUT_OF_MEMORY):
        return OutOfMemory(
            f"{what} for want of memory on {state.name}; delete arrays that are no longer needed, "
            "donate the arguments of jitted functions, or use a smaller batch"
        )
    return ExecutionError(f"{what}: {_reason(error)}")


def import_array(
    state: DriverState, array: np.ndarray[Any, Any], *, copy: bool = False
) -> tuple[Any, Any]:
    """Make an array readable by IREE, in place if its memory allows.

    Args:
      state: the device.
      array: an array of any layout.
      copy: whether to copy the array in any case.

    Returns:
      IREE's buffer view, and an object to keep alive as long as the view is used: the array if it
      is used in place, otherwise None.
    """
    dtype = array.dtype
    element = _ELEMENT_TYPES.get(dtype)
    if element is None:
        array = _in_native_order(array)
        dtype = array.dtype
        element = element_type(dtype)
    shape = array.shape
    if copy or not array.flags.c_contiguous:
        return _copy_strided(state, array, element), None
    storage = _STORAGE_TYPES.get(dtype)
    plain = array if storage is None else array.view(storage)
    nbytes = array.nbytes
    if nbytes < _COPY_BELOW_BYTES and nbytes > 0:
        view = state.allocator.allocate_buffer_copy(
            memory_type=MEMORY_TYPE,
            allowed_usage=OWNED_USAGE,
            device=state.device,
            buffer=plain,
            element_type=element,
        )
        return view, None
    address, read_only = array.__array_interface__["data"]
    if address % 16:
        return _copy_strided(state, array, element), None
    memory: Any = plain
    if read_only:
        # The binding asks for writable memory although programs never write their arguments.
        memory = (ctypes.c_ubyte * nbytes).from_address(address)
    buffer = state.allocator.import_host_allocation(memory, MEMORY_TYPE, _IMPORTED_USAGE)
    return rt.HalBufferView(buffer, shape, element), array


def _in_native_order(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    native = array.dtype.newbyteorder("=")
    element_type(native)
    return array.astype(native)


def _copy_strided(state: DriverState, array: np.ndarray[Any, Any], element: Any) -> Any:
    buffer = state.allocator.allocate_buffer(MEMORY_TYPE, OWNED_USAGE, array.nbytes)
    if array.nbytes:
        np.ndarray(array.shape, array.dtype, buffer.map())[...] = array
    return rt.HalBufferView(buffer, array.shape, element)


class Buffer:
    """An array on a device, which may not be computed yet.

    A buffer wraps a NumPy array, whose memory it uses in place if possible, or is a result of an
    `Executable`. It is immutable, but changes with the NumPy array whose memory it uses.

    Attributes:
      shape: a tuple of integers.
      dtype: a NumPy dtype.
      device: its device.
    """

    __slots__ = (
        "__weakref__",
        "_array",
        "_deleted",
        "_host",
        "_pending",
        "_view",
        "device",
        "dtype",
        "shape",
    )

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: Device

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        device: Device,
        *,
        view: Any = None,
        array: np.ndarray[Any, Any] | None = None,
        pending: Pending | None = None,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self._view = view
        self._array = array
        self._pending = pending
        self._host: np.ndarray[Any, Any] | None = None
        self._deleted: str | None = None

    @classmethod
    def from_numpy(cls, array: np.ndarray[Any, Any], device: Device | None = None) -> Buffer:
        """Wrap an array without copying it, unless its byte order is not this machine's.

        A program that takes the buffer uses the array's memory in place if it has at least 16 KiB,
        is contiguous, and starts at a multiple of 16 bytes, as NumPy's own allocations do.
        Otherwise the first such program copies it.

        Args:
          array: an array of any shape, of a dtype that IREE supports.
          device: the device; the CPU by default.

        Raises:
          TypeError: the dtype is not supported.
        """
        if array.dtype not in _ELEMENT_TYPES:
            array = _in_native_order(array)
        return cls(array.shape, array.dtype, device or cpu_device(), array=array)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return TensorType(self.shape, self.dtype).nbytes

    def view_for(self, state: DriverState) -> Any:
        """IREE's view of the buffer, for a program that runs on `state`.

        Raises:
          BufferDeletedError: the buffer was deleted or donated.
        """
        view = self._view
        if view is None:
            array = self._array
            if array is None:
                # It was deleted, or another thread has made the view by now.
                self._check_alive()
                return self._view
            view, keep_alive = import_array(state, array)
            self._view = view
            if keep_alive is None:
                if array.nbytes < _COPY_BELOW_BYTES:
                    self.to_numpy()
                # A set `_array` now means that IREE reads its memory in place. A large copied array
                # is released, since one copy is enough.
                self._array = None
        return view

    @property
    def failed_to_start(self) -> bool:
        """Whether the program that should compute it never ran, so that there is only its error."""
        # In this order, since another thread may replace the array by a view.
        return self._array is None and self._view is None and self._deleted is None

    @property
    def pending(self) -> Pending | None:
        """The program that computes the value; None once the value is known to be ready."""
        return self._pending

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Wait for the value and return a read-only view of it, without a copy.

        Raises:
          ExecutionError: the program that computes it failed.
          BufferDeletedError: the buffer was deleted or donated.
        """
        host = self._host
        if host is None:
            if self._pending is not None or self._deleted is not None:
                self.wait()
            array, view = self._array, self._view
            if array is not None:
                host = array.view()
            elif view.byte_length == 0:
                host = np.empty(self.shape, self.dtype)
            else:
                # The mapping's own asarray() takes four times as long, and views of its result do
                # not keep the memory alive.
                host = _ndarray(self.shape, self.dtype, view.map())
            host.flags.writeable = False
            self._host = host
        return host

    def is_ready(self) -> bool:
        """Whether the value can be read without waiting; reading may still raise."""
        self._check_alive()
        pending = self._pending
        return pending is None or pending.finished()

    def wait(self) -> None:
        """Wait for the value.

        Raises:
          ExecutionError: the program that computes it failed.
          BufferDeletedError: the buffer was deleted or donated.
        """
        if self._deleted is not None:
            self._check_alive()
        pending = self._pending
        if pending is not None:
            pending.wait()
            self._pending = None

    def copy_to_host_async(self) -> None:
        """Do nothing: the host reads the memory itself."""
        self._check_alive()

    def delete(self, reason: str = "delete() was called on it") -> None:
        """Release the memory; any later use raises. Arrays from `to_numpy` stay valid."""
        if self._deleted is None:
            self._deleted = reason
            self._view = self._array = self._host = self._pending = None

    def is_deleted(self) -> bool:
        """Whether `delete` was called or the buffer was donated."""
        return self._deleted is not None

    def is_lost(self) -> bool:
        """Whether the value was lost with its device: never, since it is in Python's memory."""
        return False

    def _check_alive(self) -> None:
        if self._deleted is not None:
            raise BufferDeletedError.of(self, self._deleted)

    def __repr__(self) -> str:
        state = "deleted" if self._deleted else "ready" if self.is_ready() else "pending"
        return f"Buffer(shape={self.shape}, dtype={self.dtype}, device={self.device!r}, {state})"


_new = object.__new__


def result_buffer(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    device: Device,
    view: Any,
    pending: Pending | None,
) -> Buffer:
    """Make the buffer of a program's result, in half the time of ``Buffer(...)``."""
    buffer = _new(Buffer)
    buffer.shape = shape
    buffer.dtype = dtype
    buffer.device = device
    buffer._view = view
    buffer._pending = pending
    buffer._array = buffer._host = buffer._deleted = None
    return buffer


profiling.instrument(Buffer, "wait", profiling.record_wait)
