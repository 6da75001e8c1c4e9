"""Copies between NumPy's memory and a device's own, in the order of the device's queue.

A copy uses *staging* memory, which both sides can access. The driver allocates it, so NumPy's
memory needs no alignment or registration. An upload returns when the array's content is in staging
memory, and a download is queued after the program that computes the value; only `Download.finish`
waits.
"""

from __future__ import annotations

import collections
from typing import Any

import iree.runtime as rt
import numpy as np

from gnomon.backends.errors import ExecutionError, OutOfMemory
from gnomon.backends.iree.driver import DriverState
from gnomon.backends.iree.waiting import wait_for

__all__ = ["Download", "Upload"]

_OWN = int(rt.MemoryType.DEVICE_LOCAL)
_OWN_USAGE = int(rt.BufferUsage.DEFAULT)
# Cached by the processor, since reading uncached memory takes a hundred times as long.
_STAGING = (
    int(rt.MemoryType.HOST_LOCAL)
    | int(rt.MemoryType.DEVICE_VISIBLE)
    | int(rt.MemoryType.HOST_CACHED)
)
_STAGING_USAGE = int(rt.BufferUsage.TRANSFER) | int(rt.BufferUsage.MAPPING)

# Staging memory up to this size is kept and reused, since a driver is slow to allocate it, and may
# wait for the device before it frees it. A larger piece is used once, for one array.
_MAX_POOLED_BYTES = 1 << 20
_MAX_POOLED_PIECES = 8
_MIN_BYTES = 1 << 12


def _take_staging(state: DriverState, nbytes: int) -> Any:
    """Staging memory of at least ``nbytes`` bytes that no copy uses."""
    if nbytes > _MAX_POOLED_BYTES:
        return _allocate(state, _STAGING, _STAGING_USAGE, nbytes)
    size = max(_MIN_BYTES, 1 << (nbytes - 1).bit_length())
    idle = state.idle_staging.setdefault(size, collections.deque())
    try:
        memory, semaphore = idle.popleft()
    except IndexError:
        return _allocate(state, _STAGING, _STAGING_USAGE, size)
    if semaphore is None or _is_over(semaphore):
        return memory
    idle.append((memory, semaphore))
    return _allocate(state, _STAGING, _STAGING_USAGE, size)


def _give_back(state: DriverState, memory: Any, semaphore: Any = None) -> None:
    """Keep staging memory for another copy, which may use it when `semaphore` reaches 1."""
    idle = state.idle_staging.get(memory.byte_length())
    if idle is not None and len(idle) < _MAX_POOLED_PIECES:
        idle.append((memory, semaphore))


def _allocate(state: DriverState, memory_type: int, usage: int, nbytes: int) -> Any:
    state.activate()
    try:
        return state.allocator.allocate_buffer(memory_type, usage, nbytes)
    except RuntimeError as error:
        lost = _if_lost(state, error)
        if lost:
            raise ExecutionError(f"{state.name} cannot allocate memory: {error}{lost}") from error
        # Ended programs and garbage may still hold memory.
        state.free_memory()
    try:
        return state.allocator.allocate_buffer(memory_type, usage, nbytes)
    except RuntimeError as error:
        raise OutOfMemory(
            f"{state.name} has no room for an array of {nbytes} bytes; delete arrays that are no "
            "longer needed, or donate the arguments of jitted functions"
        ) from error


def _if_lost(state: DriverState, error: BaseException) -> str:
    """The text to add to the message of an error that lost the device."""
    lost = state.describe_loss(error)
    return "" if lost is None else f"; {lost}"


def _is_over(semaphore: Any) -> bool:
    try:
        return bool(semaphore.query() >= 1)
    except RuntimeError:
        return True


def _queue_copy(
    state: DriverState, source: Any, target: Any, nbytes: int, wait_for: Any, keep_alive: object
) -> Any:
    """Queue a copy after a fence, and return the semaphore that it raises to 1."""
    state.activate()
    commands = rt.HalCommandBuffer(state.device)
    commands.copy(source, target, 0, 0, nbytes, end=True)
    semaphore = state.device.create_semaphore(0)
    state.in_flight.add(semaphore, (commands, source, target, keep_alive))
    try:
        state.device.queue_execute(commands, wait_for, [(semaphore, 1)])
    except RuntimeError as error:
        # Nothing will raise the semaphore, so the memory that is held until then can be released.
        semaphore.fail(str(error))
        what = f"a copy to or from {state.name} failed to start"
        raise ExecutionError(f"{what}: {error}{_if_lost(state, error)}") from error
    return semaphore


class Upload:
    """An array on its way to a device.

    Args:
      state: the device.
      array: an array of any layout; it may be changed as soon as this returns.

    Attributes:
      memory: IREE's buffer, which has the content when the copy has ended.
      semaphore: the semaphore that reaches 1 then; None if there is nothing to copy.

    Raises:
      OutOfMemory: the device has no room for it.
    """

    __slots__ = ("memory", "semaphore")

    def __init__(self, state: DriverState, array: np.ndarray[Any, Any]) -> None:
        nbytes = array.nbytes
        self.memory = _allocate(state, _OWN, _OWN_USAGE, nbytes)
        self.semaphore = None
        if nbytes:
            staging = _take_staging(state, nbytes)
            np.ndarray(array.shape, array.dtype, staging.map())[...] = array
            self.semaphore = _queue_copy(state, staging, self.memory, nbytes, [], None)
            _give_back(state, staging, self.semaphore)


class Download:
    """A value on its way from a device.

    Args:
      state: the device.
      view: IREE's buffer view, of at least one byte.
      fence: the fence of the program that computes it, or None if the value is ready.

    Raises:
      OutOfMemory: there is no room for a copy that the host can read.
      RuntimeError: the program has already failed.
    """

    __slots__ = ("_nbytes", "_semaphore", "_staging", "_state")

    def __init__(self, state: DriverState, view: Any, fence: Any) -> None:
        self._state = state
        self._nbytes = view.byte_length
        self._staging = _take_staging(state, self._nbytes)
        self._semaphore = _queue_copy(
            state, view.get_buffer(), self._staging, self._nbytes, fence or [], view
        )

    def finish(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Wait for the value; to be called once.

        Raises:
          RuntimeError: the copy, or the program before it, failed.
        """
        wait_for(self._semaphore)
        self._state.activate()
        self._state.in_flight.release_finished()
        array = np.ndarray(shape, dtype, self._staging.map())
        if self._nbytes <= _MAX_POOLED_BYTES:
            array = array.copy()
            _give_back(self._state, self._staging)
        # A larger array stays in the staging memory as long as it lives.
        return array
