"""IREE's drivers and devices, which live as long as this process.

IREE's buffers do not keep their device alive, and freeing a buffer after its device crashes. At
exit, we cannot choose the order in which the interpreter clears the user's modules. So a device,
once created, is never destroyed. At exit we wait for the work that is still in flight, and leave
the rest to the operating system.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import ctypes
import ctypes.util
import gc
import math
import os
import re
import threading
import time
import weakref
from contextlib import nullcontext
from typing import Any, ClassVar, NamedTuple, Protocol

from gnomon._native import __file__ as native_file
from gnomon._native import (
    next_runtime_generation,
    runtime_generation,
    stop_threads_instead_of_terminating,
)
from gnomon.backends.errors import BackendUnavailable
from gnomon.backends.iree.cuda_context import activator
from gnomon.backends.iree.vulkan_loader import interposed_loader
from gnomon.backends.iree.waiting import Pace, wait_for
from gnomon.dialects.deferred import Deferred

__all__ = [
    "DeviceInfo",
    "DriverState",
    "ProcessState",
    "available_devices",
    "driver_state",
    "forks",
    "runtime_generation",
]

rt: Any = Deferred("iree.runtime")
inside: Any = Deferred("gnomon.backends.iree.inside.runtime")
leaks: Any = Deferred("gnomon_runtime.inside")

# The drivers that compute in Python's memory.
_HOST_DRIVERS = ("local-sync", "local-task")

# The threads of the pool look for work for 20 us before they sleep, so the next kernel of a program
# need not wake them: 19 programs take 5 % less time on two cores (geometric mean), k-means 1.6 ms
# instead of 2.2, and a layer normalization 0.21 instead of 0.29. For longer, they would take the
# cores from other threads.
_HOST_FLAGS = ("--task_worker_spin_us=20",)

# IREE's allocator for the host returns the memory of arrays to the C library, which returns large
# pieces to the system, and clears all memory that it allocates. Its caching allocator keeps up to
# 256 freed arrays for later ones of the same size, uncleared, as long as they and the live ones
# have 1 GiB. An elementwise program with a result of 100 MB takes 15 ms with it, and 45 without.
_HOST_ALLOCATOR = "caching:device_local=*;1gib;256"

# The requirements of each driver, for the error that is raised if it is missing.
_NEEDS = {
    "cuda": "NVIDIA's driver (libcuda.so.1) and a GPU that `nvidia-smi` lists",
    "hip": "AMD's ROCm runtime (libamdhip64.so) and a GPU that `rocminfo` lists",
    "metal": "macOS and an iree-base-runtime for it",
    "vulkan": (
        "the Vulkan loader (libvulkan.so.1) and a driver of version 1.3 that `vulkaninfo` lists; "
        "`apt-get install libvulkan1 mesa-vulkan-drivers` on Debian installs both, and lavapipe, a "
        "device that is the CPU"
    ),
}

# Signs in error messages that a device is lost: it hung, faulted or was unplugged. Semaphores
# report only the kind of the error.
_LOST = ("DEVICE_LOST", "semaphore: DATA_LOSS")

_drivers: dict[tuple[str, Any], DriverState] = {}


class ProcessState:
    """State of this process that a forked child does not share."""

    lock: ClassVar[Any] = threading.RLock()
    forks: ClassVar[int] = 0


def _make_immortal(value: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def forks() -> int:
    """The number of forks that led to this process since IREE was first used."""
    return ProcessState.forks


class _InFlight:
    """Keeps the inputs of running programs alive.

    IREE counts references to its own buffers, but not to NumPy's memory that imported buffers use.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: collections.deque[tuple[Any, object, int]] = collections.deque()
        self._nbytes = 0
        # The time between the ends of programs while `throttle` waits, and the last end.
        self._pace, self._last_end = Pace(), 0.0

    @property
    def idle(self) -> bool:
        """Whether no program runs."""
        return not self._entries

    def add(self, semaphore: Any, keep_alive: object, nbytes: int = 0) -> None:
        """Hold `keep_alive` until `semaphore` reaches 1, and release the inputs of ended programs.

        Args:
          semaphore: the semaphore of the program.
          keep_alive: its inputs.
          nbytes: the memory that it allocates, for `throttle`.
        """
        with self._lock:
            self._prune()
            self._entries.append((semaphore, keep_alive, nbytes))
            self._nbytes += nbytes

    def release_finished(self) -> None:
        """Release the inputs of programs that have ended."""
        with self._lock:
            self._prune()

    def throttle(self, limit: int, nbytes: int = 0, limit_nbytes: float = math.inf) -> None:
        """Wait until another program may be started.

        Args:
          limit: the number of running programs must be below this.
          nbytes: the memory that the program will allocate.
          limit_nbytes: the most that it and the running programs may allocate, unless none runs.
        """
        waited = False
        while entries := self._entries:
            if len(entries) < limit and self._nbytes + nbytes <= limit_nbytes:
                break
            waited = True
            # The error of a program is raised where its results are read.
            with contextlib.suppress(IndexError, RuntimeError):
                last_end = self._last_end
                wait_for(entries[0][0], self._pace if last_end else None, last_end)
            self._last_end = time.monotonic()
            self.release_finished()
        if not waited:
            self._last_end = 0.0

    def wait_all(self) -> None:
        """Wait for all programs; their errors are raised where their results are read."""
        while self._entries:
            with contextlib.suppress(IndexError, RuntimeError):
                wait_for(self._entries[0][0])
            self.release_finished()

    def _prune(self) -> None:
        # A long program must not keep the inputs of the short ones after it.
        for _ in range(len(self._entries)):
            entry = self._entries.popleft()
            if _is_signaled(entry[0]):
                self._nbytes -= entry[2]
            else:
                self._entries.append(entry)


def _is_signaled(semaphore: Any) -> bool:
    try:
        return bool(semaphore.query() >= 1)
    except RuntimeError:
        return True


class Abandonable(Protocol):
    """An object that is notified of forks and of lost devices."""

    def abandon(self, reason: str) -> None:
        """Note that the device belongs to another process from now on, or is lost."""


class MemoryUse:
    """Counts the part of a device's own memory that arrays use.

    IREE 3.13 counts allocations of its Vulkan device, but not when they are freed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: weakref.WeakSet[Any] = weakref.WeakSet()
        self._in_use = self._peak = self._allocations = self._largest = 0

    def add(self, holder: Abandonable, nbytes: int) -> None:
        """Count a new array; `remove` is to be called when it is freed."""
        with self._lock:
            self._live.add(holder)
            self._in_use += nbytes
            self._allocations += 1
            self._peak = max(self._peak, self._in_use)
            self._largest = max(self._largest, nbytes)

    def remove(self, nbytes: int) -> None:
        """Count an array that was freed."""
        # Without the lock, since garbage collection may call this in the middle of `add`.
        self._in_use -= nbytes

    def figures(self) -> dict[str, int]:
        """The figures, under JAX's names."""
        return {
            "bytes_in_use": self._in_use,
            "peak_bytes_in_use": self._peak,
            "largest_alloc_size": self._largest,
            "num_allocs": self._allocations,
        }

    def abandon(self, reason: str) -> None:
        """Tell every array that its device is gone."""
        self._lock = threading.Lock()
        for holder in list(self._live):
            holder.abandon(reason)

    @staticmethod
    def leak(value: object) -> None:
        """Never destroy a value, since destroying it would need a device that is gone."""
        _make_immortal(value)


class DriverState:
    """One of IREE's devices, with the state for loading and running programs on it.

    Attributes:
      name: its name in messages.
      shares_memory: whether it computes in Python's memory.
      memory: the use of its own memory by arrays.
      activate: prepares the calling thread for a use of the device: to be called before IREE
        allocates or frees its memory, loads a program, or starts something on it.
      idle_staging: memory for copies that is not in use, for `transfer`.
    """

    _instance: ClassVar[Any] = None

    def __init__(self, driver: str, device: int | None = None) -> None:
        if DriverState._instance is None:
            _load_libraries()
            DriverState._instance = rt.VmInstance()
            _make_immortal(DriverState._instance)
        self.driver = driver
        self.name = driver if device is None else f"{driver}, device {device}"
        self.shares_memory = driver in _HOST_DRIVERS
        self.instance = DriverState._instance
        self.device = _create_device(driver, device)
        self.activate = activator(driver)
        self.allocator = self.device.allocator
        self.module = rt.create_hal_module(self.instance, self.device)
        self.in_flight = _InFlight()
        self.memory = MemoryUse()
        self.idle_staging: dict[int, collections.deque[tuple[Any, Any]]] = {}
        self._key = driver, device
        for value in (self, self.device, self.allocator, self.module):
            _make_immortal(value)

    def describe_loss(self, error: BaseException) -> str | None:
        """The message for an error that means that the device is lost; None for other errors.

        The next use of the device starts it again: programs are loaded again, and arrays that were
        read before are copied to it again.
        """
        if self.shares_memory or not any(sign in str(error) for sign in _LOST):
            return None
        with ProcessState.lock:
            if _drivers.get(self._key) is self:
                del _drivers[self._key]
                next_runtime_generation()
                self.memory.abandon(
                    f"the value was on {self.name}, which was lost before it was read, by {error}; "
                    "compute it again: the next use of the device restarts it"
                )
        return (
            f"{self.name} was lost, with all values on it that were not read before: its next use "
            "restarts it, and other devices keep working; compute the lost values again"
        )

    def free_memory(self) -> None:
        """Free memory: wait for all programs, and collect garbage."""
        self.activate()
        self.in_flight.wait_all()
        self.idle_staging.clear()
        gc.collect()
        self.allocator.trim()


def _load_libraries() -> None:
    """Load the libraries whose functions compiled programs call by name.

    Programs call functions such as `sin` without naming libm. Python's own executable usually loads
    it, but a statically linked one does not. They also call `__truncsfbf2`, which no library of the
    system has; our native module does.
    """
    if os.name != "posix":
        return
    try:
        ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    except OSError:
        # It has another name where the C library is not glibc. To find it takes other programs.
        if (name := ctypes.util.find_library("m")) is not None:
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    ctypes.CDLL(native_file, mode=ctypes.RTLD_GLOBAL)


class DeviceInfo(NamedTuple):
    """A device that a driver has found.

    Attributes:
      number: the driver's number for it, in this process.
      kind: its name.
      is_processor: whether it is the CPU.
      memory: the bytes of its own memory, if the driver reports them.
    """

    number: int
    kind: str
    is_processor: bool
    memory: int | None


def available_devices(driver: str) -> list[DeviceInfo]:
    """The devices of a driver, at least one; processors come last.

    Raises:
      BackendUnavailable: the driver is missing, or finds no device.
    """
    loaded = _driver(driver)
    try:
        found = loaded.query_available_devices()
    except (RuntimeError, ValueError) as error:
        raise _unavailable(driver, str(error)) from error
    if not found:
        raise _unavailable(driver, "it finds no device")
    devices = [_describe(loaded, entry) for entry in found]
    return sorted(devices, key=lambda device: device.is_processor)


def _describe(driver: Any, entry: dict[str, Any]) -> DeviceInfo:
    number = entry["device_id"]
    text = driver.dump_device_info(number)
    # Vulkan lists its heaps; those with the lowest flag set are the device's own.
    heaps = re.findall(r"\[\d+\] size=(\d+) flags=0x0*[13579bdf]\b", text)
    return DeviceInfo(
        number,
        entry["name"],
        re.search(r"^type: cpu$", text, re.MULTILINE) is not None,
        max(map(int, heaps)) if heaps else None,
    )


_own_drivers: dict[str, Any] = {}


def _driver(name: str) -> Any:
    leaks.silence_leak_reports()
    try:
        if name in _HOST_DRIVERS:
            rt.flags.parse_flags(*_HOST_FLAGS)
            return rt.get_driver(name)
        with ProcessState.lock:
            if name not in _own_drivers:
                with interposed_loader() if name == "vulkan" else nullcontext():
                    _own_drivers[name] = inside.create_driver(name)
                _make_immortal(_own_drivers[name])
            return _own_drivers[name]
    except (OSError, RuntimeError, ValueError) as error:
        raise _unavailable(name, str(error)) from error


def _create_device(driver: str, device: int | None) -> Any:
    loaded = _driver(driver)
    try:
        if driver in _HOST_DRIVERS:
            return loaded.create_default_device(allocators=[_HOST_ALLOCATOR])
        return loaded.create_default_device() if device is None else loaded.create_device(device)
    except (RuntimeError, ValueError) as error:
        raise _unavailable(driver, str(error)) from error


def _unavailable(driver: str, reason: str) -> BackendUnavailable:
    needs = _NEEDS.get(driver)
    forked = (
        "; this process was forked from another one, and some drivers cannot be used on both sides "
        "of a fork: use the 'spawn' method of multiprocessing"
        if ProcessState.forks
        else ""
    )
    return BackendUnavailable(
        f"IREE's {driver} driver cannot be used: {reason}"
        + (f"; it needs {needs}" if needs else "")
        + forked
    )


def driver_state(driver: str, device: int | None = None) -> DriverState:
    """One of IREE's devices, created on first use.

    Args:
      driver: the name of its driver.
      device: its number, or None for the driver's first.

    Raises:
      BackendUnavailable: the driver or the device is missing.
    """
    if ProcessState.forks and driver == "local-task":
        # IREE's thread pool belongs to the driver, of which a process has only one, and which has
        # lost its threads in the fork. Asynchronous programs are also correct inline.
        driver = "local-sync"
    key = driver, device
    state = _drivers.get(key)
    if state is None:
        with ProcessState.lock:
            state = _drivers.get(key)
            if state is None:
                state = _drivers[key] = DriverState(driver, device)
    return state


def _wait_for_all_work() -> None:
    for state in list(_drivers.values()):
        state.in_flight.wait_all()
    # Interrupted calls may go on, and return while the interpreter ends.
    stop_threads_instead_of_terminating()


def _after_fork_in_child() -> None:
    """Make the child create its own devices, since threads do not survive a fork."""
    ProcessState.lock = threading.RLock()
    next_runtime_generation()
    ProcessState.forks += 1
    for state in _drivers.values():
        state.memory.abandon(
            "the value is on a device of the process that this one was forked from; read it before "
            "the fork"
        )
    _drivers.clear()
    _own_drivers.clear()


atexit.register(_wait_for_all_work)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
