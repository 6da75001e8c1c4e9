"""IREE's drivers and devices, which live as long as this process.

The end of a process needs care. IREE's buffers do not keep their device alive, and freeing a buffer
after its device crashes; and we cannot choose the order in which the ending interpreter clears the
user's modules. So a device object, once made, is never destroyed. At exit we wait for the work that
is still in flight, and leave the rest to the operating system.
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
import sys
import threading
import weakref
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from gnomon._native import __file__ as native_file
from gnomon.backends.errors import BackendUnavailable
from gnomon.backends.iree.vulkan_loader import our_loader
from gnomon.dialects.deferred import Deferred

__all__ = [
    "DeviceInfo",
    "DriverState",
    "ProcessState",
    "available_devices",
    "driver_state",
    "forks",
    "runtime_generation",
    "wait_for",
]

rt: Any = Deferred("iree.runtime")
_binding: Any = Deferred("iree.runtime._binding")

# The drivers that compute in Python's memory.
_HOST_DRIVERS = ("local-sync", "local-task")

# What a driver needs on the machine, for the error that says that it is missing.
_NEEDS = {
    "cuda": "NVIDIA's driver (libcuda.so.1) and a GPU that `nvidia-smi` lists",
    "hip": "AMD's ROCm runtime (libamdhip64.so) and a GPU that `rocminfo` lists",
    "metal": "macOS and an iree-base-runtime for it",
    "vulkan": (
        "the Vulkan loader (libvulkan.so.1) and a driver of version 1.3 that `vulkaninfo` lists; "
        "on Debian `apt-get install libvulkan1 mesa-vulkan-drivers` brings both, and with lavapipe "
        "a device that is the CPU"
    ),
}

# How drivers say that a device is gone: after a hang, a fault, or when it was unplugged. Semaphores
# know no more than the kind of the error.
_LOST = ("DEVICE_LOST", "semaphore: DATA_LOSS")

_drivers: dict[tuple[str, Any], DriverState] = {}


class ProcessState:
    """State of this process that a forked child does not share."""

    lock: ClassVar[Any] = threading.RLock()
    generation: ClassVar[int] = 0
    forks: ClassVar[int] = 0


def _make_immortal(value: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def runtime_generation() -> int:
    """Returns a number that changes when programs must be loaded anew.

    That is so in a forked child, and after a device was lost.
    """
    return ProcessState.generation


def forks() -> int:
    """Returns how many forks led to this process since IREE was first used."""
    return ProcessState.forks


# Python handles an interrupt only between two waits.
_WAIT_SLICE_NS = 100_000_000


def wait_for(semaphore: Any) -> None:
    """Waits until a semaphore reaches 1, and heeds an interrupt meanwhile.

    Raises:
        RuntimeError: what was to raise it failed.
    """
    while semaphore.query() < 1:
        try:
            semaphore.wait(1, timeout=_WAIT_SLICE_NS)
        except (TimeoutError, RuntimeError) as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise


class _InFlight:
    """The inputs of programs that still run, so that nobody frees the memory that they read.

    IREE counts references to its own buffers, but not to NumPy's memory that imported ones use.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: collections.deque[tuple[Any, object, int]] = collections.deque()
        self._nbytes = 0

    def add(self, semaphore: Any, keep_alive: object, nbytes: int = 0) -> None:
        """Holds `keep_alive` until `semaphore` reaches 1, and lets go of what is done.

        Args:
            semaphore: the program's.
            keep_alive: its inputs.
            nbytes: the memory that it allocates, for `hold_back`.
        """
        with self._lock:
            self._prune()
            self._entries.append((semaphore, keep_alive, nbytes))
            self._nbytes += nbytes

    def release_finished(self) -> None:
        """Lets go of the inputs of finished programs."""
        with self._lock:
            self._prune()

    def hold_back(self, limit: int, nbytes: int = 0, limit_nbytes: float = math.inf) -> None:
        """Waits until another program may be started.

        Args:
            limit: fewer programs run then.
            nbytes: the memory that it will allocate.
            limit_nbytes: the most that it and the running programs may allocate, unless none runs.
        """
        while entries := self._entries:
            if len(entries) < limit and self._nbytes + nbytes <= limit_nbytes:
                return
            # The error of a program belongs to whoever reads its results.
            with contextlib.suppress(IndexError, RuntimeError):
                wait_for(entries[0][0])
            self.release_finished()

    def wait_all(self) -> None:
        """Waits for every program; their errors belong to whoever reads the results."""
        while self._entries:
            with contextlib.suppress(IndexError, RuntimeError):
                wait_for(self._entries[0][0])
            self.release_finished()

    def _prune(self) -> None:
        # A long program must not keep the inputs of the short ones after it.
        for _ in range(len(self._entries)):
            entry = self._entries.popleft()
            if _reached(entry[0]):
                self._nbytes -= entry[2]
            else:
                self._entries.append(entry)


def _reached(semaphore: Any) -> bool:
    try:
        return bool(semaphore.query() >= 1)
    except RuntimeError:
        return True


class Abandonable(Protocol):
    """An object that is notified of forks and of lost devices."""

    def abandon(self, reason: str) -> None:
        """Its device belongs to another process from now on, or to none."""


class MemoryUse:
    """The part of a device's own memory that gnomon's arrays use, counted here.

    IREE 3.13 counts what its Vulkan device allocates and never what it frees.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: weakref.WeakSet[Any] = weakref.WeakSet()
        self._in_use = self._peak = self._allocations = self._largest = 0

    def add(self, holder: Abandonable, nbytes: int) -> None:
        """Counts an array that begins to live; `remove` is to be called when it ends."""
        with self._lock:
            self._live.add(holder)
            self._in_use += nbytes
            self._allocations += 1
            self._peak = max(self._peak, self._in_use)
            self._largest = max(self._largest, nbytes)

    def remove(self, nbytes: int) -> None:
        """Counts an array that has ended."""
        # Without the lock: a garbage collection may call this in the middle of `add`.
        self._in_use -= nbytes

    def figures(self) -> dict[str, int]:
        """The figures by the names that JAX gives them."""
        return {
            "bytes_in_use": self._in_use,
            "peak_bytes_in_use": self._peak,
            "largest_alloc_size": self._largest,
            "num_allocs": self._allocations,
        }

    def abandon(self, reason: str) -> None:
        """Tells every array that its device is not there any more."""
        self._lock = threading.Lock()
        for holder in list(self._live):
            holder.abandon(reason)

    @staticmethod
    def leak(value: object) -> None:
        """Keeps a value for ever, because destroying it needs a device that is gone."""
        _make_immortal(value)


class DriverState:
    """One of IREE's devices with what is needed to load and run programs on it.

    Attributes:
        name: for messages.
        shares_memory: it computes in the memory of Python.
        memory: what arrays take of its own memory.
        idle_staging: memory for copies that is not in use; it belongs to `transfer`.
    """

    _instance: ClassVar[Any] = None

    def __init__(self, driver: str, device: int | None = None) -> None:
        if DriverState._instance is None:
            _load_libraries()
            _keep_freed_memory()
            DriverState._instance = rt.VmInstance()
            _make_immortal(DriverState._instance)
        self.driver = driver
        self.name = driver if device is None else f"{driver}, device {device}"
        self.shares_memory = driver in _HOST_DRIVERS
        self.instance = DriverState._instance
        self.device = _create_device(driver, device)
        self.allocator = self.device.allocator
        self.module = rt.create_hal_module(self.instance, self.device)
        self.in_flight = _InFlight()
        self.memory = MemoryUse()
        self.idle_staging: dict[int, collections.deque[tuple[Any, Any]]] = {}
        self._key = driver, device
        for value in (self, self.device, self.allocator, self.module):
            _make_immortal(value)

    def lost_with(self, error: BaseException) -> str | None:
        """The message for an error that lost the device with all its contents, or None.

        The next use of the device starts it anew: arrays that were read before are copied to it,
        and programs are loaded again.
        """
        if self.shares_memory or not any(sign in str(error) for sign in _LOST):
            return None
        with ProcessState.lock:
            if _drivers.get(self._key) is self:
                del _drivers[self._key]
                ProcessState.generation += 1
                self.memory.abandon(
                    f"the value was on {self.name}, which was lost before it was read, by {error}; "
                    "compute it again: the next use of the device starts it anew"
                )
        return (
            f"{self.name} was lost, with all values on it that were not read before: its next use "
            "starts it anew, and other devices go on; compute what you need again"
        )

    def allocated_bytes(self) -> int:
        """Returns how many bytes were ever allocated on it."""
        return int(self.allocator.statistics["device_bytes_allocated"])

    def make_room(self) -> None:
        """Frees what can be freed: waits for every program, and collects garbage."""
        self.in_flight.wait_all()
        self.idle_staging.clear()
        gc.collect()
        self.allocator.trim()
        if _glibc is not None:
            _glibc.malloc_trim(0)


def _load_libraries() -> None:
    """Makes the functions that compiled programs call by name visible to them.

    Their libraries name `sin` and its like without naming libm, which Python's own executable
    nearly always brings, but a statically linked one does not; and `__truncsfbf2`, which is in none
    of the system's libraries but in our native module.
    """
    if os.name != "posix":
        return
    for name in (ctypes.util.find_library("m"), native_file):
        if name is not None:
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)


# Of glibc, for `mallopt`.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# Freed memory that the process keeps at most at the end of its heap.
_KEPT_BYTES = 1 << 30
# By these the user has chosen.
_MALLOC_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def _find_glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") else None


_glibc: Any = _find_glibc()


def _keep_freed_memory() -> None:
    """Has the process keep the memory of freed arrays for the next ones.

    glibc gives arrays beyond 32 MB back to the system when they are freed. The next result of that
    size is then written to pages that the system first has to find and clear, which takes three
    times as long as an elementwise kernel takes to write it. IREE's caching allocator does not
    keep results.
    """
    if _glibc is not None and not any(name in os.environ for name in _MALLOC_VARIABLES):
        _glibc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        _glibc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


@dataclass(frozen=True)
class DeviceInfo:
    """A device that a driver has found.

    Attributes:
        number: what the driver knows it by, in this process.
        kind: its name.
        is_processor: the driver computes on the CPU.
        memory: bytes of its own memory, where the driver says.
    """

    number: int
    kind: str
    is_processor: bool
    memory: int | None


def available_devices(driver: str) -> list[DeviceInfo]:
    """Asks a driver for its devices: those that are no processors first, at least one.

    Raises:
        BackendUnavailable: the driver is not there, or finds no device.
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
    # Vulkan's heaps: those with the lowest flag are the device's own.
    heaps = re.findall(r"\[\d+\] size=(\d+) flags=0x0*[13579bdf]\b", text)
    return DeviceInfo(
        number,
        entry["name"],
        re.search(r"^type: cpu$", text, re.MULTILINE) is not None,
        max(map(int, heaps)) if heaps else None,
    )


_own_drivers: dict[str, Any] = {}


def _driver(name: str) -> Any:
    # nanobind reports, at exit, every object that a global variable of the user still holds.
    _binding.disable_leak_checker()
    try:
        if name in _HOST_DRIVERS:
            return rt.get_driver(name)
        # Of our own, not those that IREE keeps: somebody else may have made them, in this process
        # without our library, or in the one that it was forked from, where their threads are.
        with ProcessState.lock:
            if name not in _own_drivers:
                with our_loader() if name == "vulkan" else nullcontext():
                    _own_drivers[name] = _binding.create_hal_driver(name)
                _make_immortal(_own_drivers[name])
            return _own_drivers[name]
    except (OSError, RuntimeError, ValueError) as error:
        raise _unavailable(name, str(error)) from error


def _create_device(driver: str, device: int | None) -> Any:
    loaded = _driver(driver)
    try:
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
    """Returns one of IREE's devices, made on first use.

    Args:
        driver: its driver.
        device: its number, or None for the driver's first.

    Raises:
        BackendUnavailable: the driver or the device is not there.
    """
    if ProcessState.forks and driver == "local-task":
        # IREE's thread pool belongs to the driver, which exists once in a process and has lost
        # its threads in the fork. Inline an asynchronous program is just as correct.
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


def _after_fork_in_child() -> None:
    """Threads do not survive a fork: the child makes devices of its own."""
    ProcessState.lock = threading.RLock()
    ProcessState.generation += 1
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
