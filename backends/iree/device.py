"""Devices: what a user sees of the machine, and IREE's own device objects behind it.

The CPU is one device to the user and two to IREE: `local-sync` runs a program inline in the calling
thread, `local-task` on a pool of threads. Each is made when the first program needs it.

The end of a process needs care. IREE's buffers do not keep the device alive that made them, and
freeing one after its device crashes; the order in which an interpreter that ends clears the user's
modules is not ours to choose. So a device object, once made, is never destroyed. At exit we wait
for the work that is still in flight and leave the rest to the operating system.
"""

from __future__ import annotations

import atexit
import collections
import ctypes
import ctypes.util
import os
import threading
from typing import Any, ClassVar

import iree.runtime as rt
from iree.runtime import _binding

from gnomon import _native
from gnomon.backends.iree.targets import TARGETS, Target

__all__ = ["Device", "DriverState", "cpu_device", "devices_of", "runtime_generation"]

# nanobind reports, at exit, every object that a global variable of the user still holds.
_binding.disable_leak_checker()

_devices: dict[str, tuple[Device, ...]] = {}
_drivers: dict[str, DriverState] = {}


class _Process:
    """What belongs to this process and not to the one that it was forked from."""

    lock: ClassVar[Any] = threading.RLock()
    generation: ClassVar[int] = 0


def _make_immortal(value: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def runtime_generation() -> int:
    """Returns a number that changes when IREE's objects must be made anew: in a forked child."""
    return _Process.generation


class _InFlight:
    """The inputs of programs that still run, so that nobody frees the memory that they read.

    IREE counts references to its own buffers, but not to NumPy's memory behind imported ones.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: collections.deque[tuple[Any, object]] = collections.deque()

    def add(self, semaphore: Any, keep_alive: object) -> None:
        """Holds `keep_alive` until `semaphore` reaches 1, and lets go of what is done."""
        with self._lock:
            self._prune()
            self._entries.append((semaphore, keep_alive))

    def release_finished(self) -> None:
        """Lets go of the inputs of finished programs."""
        with self._lock:
            self._prune()

    def wait_all(self) -> None:
        """Waits for every program; their errors belong to whoever reads the results."""
        while self._entries:
            semaphore, _ = self._entries.popleft()
            try:
                semaphore.wait(1)
            except RuntimeError:
                continue

    def _prune(self) -> None:
        # A long program must not keep the inputs of the short ones behind it.
        for _ in range(len(self._entries)):
            entry = self._entries.popleft()
            if not _reached(entry[0]):
                self._entries.append(entry)


def _reached(semaphore: Any) -> bool:
    try:
        return bool(semaphore.query() >= 1)
    except RuntimeError:
        return True


class DriverState:
    """One of IREE's devices with what is needed to load and run programs on it."""

    _instance: ClassVar[Any] = None

    def __init__(self, driver: str) -> None:
        if DriverState._instance is None:
            _load_libraries()
            DriverState._instance = rt.VmInstance()
            _make_immortal(DriverState._instance)
        self.driver = driver
        self.instance = DriverState._instance
        self.device = rt.get_driver(driver).create_default_device()
        self.allocator = self.device.allocator
        self.module = rt.create_hal_module(self.instance, self.device)
        self.in_flight = _InFlight()
        for value in (self, self.device, self.allocator, self.module):
            _make_immortal(value)


def _load_libraries() -> None:
    """Makes the functions that compiled programs call by name visible to them.

    Their libraries name `sin` and its like without naming libm, which Python's own executable
    nearly always brings, but a statically linked one does not; and `__truncsfbf2`, which is in none
    of the system's libraries but in our native module.
    """
    if os.name != "posix":
        return
    for name in (ctypes.util.find_library("m"), _native.__file__):
        if name is not None:
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)


class Device:
    """A device of a platform, as users see it.

    Attributes:
        id: its number among all devices.
        target: how programs are compiled for it.
        process_index: the process that it belongs to, 0 in a program of one process.
        backend: the backend whose device it is, which sets it.

    Example:
        >>> cpu_device()
        CpuDevice(id=0)
    """

    __slots__ = ("__weakref__", "backend", "id", "process_index", "target")

    backend: Any

    def __init__(self, id: int, target: Target, process_index: int = 0) -> None:
        self.id = id
        self.target = target
        self.process_index = process_index

    @property
    def platform(self) -> str:
        """The platform's name, such as "cpu"."""
        return self.target.platform

    @property
    def device_kind(self) -> str:
        """What kind of machine it is; for a CPU just "cpu"."""
        return self.target.platform

    def memory_stats(self) -> dict[str, int] | None:
        """None: the memory is the process's own, and nobody counts it."""
        return None

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform.upper()}_{self.id}"

    def driver_state(self, execution_model: str) -> DriverState:
        """Returns IREE's device for programs of `execution_model`, made on first use."""
        name = self.target.drivers[execution_model]
        if _Process.generation and name == "local-task":
            # IREE's thread pool belongs to the driver, which exists once in a process and has lost
            # its threads in the fork. Inline an asynchronous program is just as correct.
            name = "local-sync"
        state = _drivers.get(name)
        if state is None:
            with _Process.lock:
                state = _drivers.get(name)
                if state is None:
                    state = _drivers[name] = DriverState(name)
        return state


def devices_of(target: Target) -> tuple[Device, ...]:
    """Returns the devices of a target, always the same objects."""
    with _Process.lock:
        if target.name not in _devices:
            _devices[target.name] = (Device(0, target),)
        return _devices[target.name]


def cpu_device() -> Device:
    """Returns the CPU."""
    return devices_of(TARGETS["cpu"])[0]


def _wait_for_all_work() -> None:
    for state in list(_drivers.values()):
        state.in_flight.wait_all()


def _after_fork_in_child() -> None:
    """Threads do not survive a fork: the child makes devices of its own."""
    _Process.lock = threading.RLock()
    _Process.generation += 1
    _drivers.clear()


atexit.register(_wait_for_all_work)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
