"""Vulkan's semaphores as IREE uses them: signals out of order, and waits for any of several."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gnomon.backends.iree import vulkan_loader

pytestmark = pytest.mark.vulkan

Pointer = ctypes.c_void_p
# Types of structures, by their numbers in Vulkan's specification.
INSTANCE, QUEUE, DEVICE, SEMAPHORE = 1, 2, 3, 9
TIMELINE_FEATURES, SEMAPHORE_TYPE, WAIT, SIGNAL = 1000207000, 1000207002, 1000207004, 1000207005
SUCCESS, TIMEOUT, INCOMPLETE, WAIT_ANY = 0, 2, 5, 1


def structure(*fields: type) -> type[ctypes.Structure]:
    """A structure with its type, the pointer to the next one, and the given fields."""
    names = [("type", ctypes.c_int32), ("next", Pointer)]
    names += [(f"field{i}", field) for i, field in enumerate(fields)]
    return type("Structure", (ctypes.Structure,), {"_fields_": names})


U32, U64 = ctypes.c_uint32, ctypes.c_uint64
InstanceInfo = structure(U32, Pointer, U32, Pointer, U32, Pointer)
QueueInfo = structure(U32, U32, U32, Pointer)
TimelineFeatures = structure(U32)
DeviceInfo = structure(U32, U32, Pointer, U32, Pointer, U32, Pointer, Pointer)
SemaphoreType = structure(ctypes.c_int32, U64)
SemaphoreInfo = structure(U32)
SignalInfo = structure(U64, U64)
WaitInfo = structure(U32, U32, Pointer, Pointer)
ApplicationInfo = structure(Pointer, U32, Pointer, U32, U32)


class Vulkan:
    """A device and two timeline semaphores at zero, through the functions that IREE gets."""

    def __init__(self) -> None:
        with vulkan_loader.interposed_loader():
            library = ctypes.CDLL(os.environ[vulkan_loader._VARIABLE])
        self._find = library.vkGetInstanceProcAddr
        self._find.argtypes, self._find.restype = [Pointer, ctypes.c_char_p], Pointer
        self._instance = Pointer()
        application = ApplicationInfo(0, None, None, 0, None, 0, (1 << 22) | (3 << 12))
        info = InstanceInfo(INSTANCE, None, 0, ctypes.addressof(application), 0, None, 0, None)
        self.call("vkCreateInstance", ctypes.byref(info), None, ctypes.byref(self._instance))
        count, physical = U32(1), Pointer()
        status = self.raw("vkEnumeratePhysicalDevices")(
            self._instance, ctypes.byref(count), ctypes.byref(physical)
        )
        assert status in (SUCCESS, INCOMPLETE)
        priority = ctypes.c_float(1)
        queue = QueueInfo(QUEUE, None, 0, 0, 1, ctypes.addressof(priority))
        features = TimelineFeatures(TIMELINE_FEATURES, None, 1)
        device_info = DeviceInfo(
            *(DEVICE, ctypes.addressof(features), 0, 1, ctypes.addressof(queue)),
            *(0, None, 0, None, None),
        )
        self.device = Pointer()
        self.call(
            "vkCreateDevice", physical, ctypes.byref(device_info), None, ctypes.byref(self.device)
        )
        kind = SemaphoreType(SEMAPHORE_TYPE, None, 1, 0)
        semaphore_info = SemaphoreInfo(SEMAPHORE, ctypes.addressof(kind), 0)
        self.semaphores = (U64 * 2)()
        for i in range(2):
            place = ctypes.byref(self.semaphores, i * ctypes.sizeof(U64))
            info = ctypes.byref(semaphore_info)
            self.call("vkCreateSemaphore", self.device, info, None, place)

    def raw(self, name: str) -> Any:
        """An instance's function."""
        address = self._find(self._instance, name.encode())
        assert address, name
        return ctypes.CFUNCTYPE(ctypes.c_int32)(address)

    def call(self, name: str, *arguments: Any) -> None:
        assert self.raw(name)(*arguments) == SUCCESS

    def of_device(self, name: str) -> Any:
        """A device's function, found as IREE does."""
        address = self._find(self._instance, b"vkGetDeviceProcAddr")
        find = ctypes.CFUNCTYPE(Pointer, Pointer, ctypes.c_char_p)(address)
        found = find(self.device, name.encode())
        assert found, name
        return ctypes.CFUNCTYPE(ctypes.c_int32)(found)

    def signal(self, value: int, which: int = 0) -> int:
        """The code that signaling a value returns."""
        info = SignalInfo(SIGNAL, None, self.semaphores[which], value)
        return int(self.of_device("vkSignalSemaphore")(self.device, ctypes.byref(info)))

    def wait(self, values: tuple[int, int], seconds: float, flags: int = WAIT_ANY) -> int:
        """The code that waiting for the semaphores returns."""
        wanted = (U64 * 2)(*values)
        pointers = ctypes.addressof(self.semaphores), ctypes.addressof(wanted)
        info = WaitInfo(WAIT, None, flags, 2, *pointers)
        wait = self.of_device("vkWaitSemaphores")
        return int(wait(self.device, ctypes.byref(info), U64(int(seconds * 1e9))))

    def value(self) -> int:
        """The first semaphore's value."""
        value = U64()
        find = self.of_device("vkGetSemaphoreCounterValue")
        assert find(self.device, U64(self.semaphores[0]), ctypes.byref(value)) == SUCCESS
        return value.value

    def close(self) -> None:
        for semaphore in self.semaphores:
            self.raw("vkDestroySemaphore")(self.device, U64(semaphore), None)
        self.raw("vkDestroyDevice")(self.device, None)
        self.raw("vkDestroyInstance")(self._instance, None)


@pytest.fixture
def vulkan() -> Iterator[Vulkan]:
    made = Vulkan()
    yield made
    made.close()


def test_a_semaphore_value_already_passed_does_not_lose_the_device(vulkan: Vulkan) -> None:
    assert vulkan.signal(2) == SUCCESS
    assert vulkan.signal(5) == SUCCESS
    assert vulkan.signal(4) == SUCCESS
    assert vulkan.value() == 5
    assert vulkan.signal(5) == SUCCESS
    assert vulkan.signal(6) == SUCCESS
    assert vulkan.value() == 6


@pytest.mark.parametrize("which", [0, 1])
def test_a_wait_ends_when_any_value_is_reached(vulkan: Vulkan, which: int) -> None:
    later = threading.Timer(0.05, vulkan.signal, (3, which))
    later.start()
    assert vulkan.wait((3, 3), 30) == SUCCESS
    later.join()
    # Only one of the two exists.
    assert vulkan.wait((3, 3), 0.01, flags=0) == TIMEOUT
    assert vulkan.signal(3, 1 - which) == SUCCESS
    assert vulkan.wait((3, 3), 30, flags=0) == SUCCESS


def test_a_wait_for_nothing_sleeps_until_its_time_is_over(vulkan: Vulkan) -> None:
    assert vulkan.wait((1, 1), 0) == TIMEOUT
    started, cpu_before = time.perf_counter(), time.thread_time()
    assert vulkan.wait((1, 1), 0.4) == TIMEOUT
    assert time.perf_counter() - started >= 0.4
    assert time.thread_time() - cpu_before < 0.2


def test_the_variable_is_restored_after_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    name = vulkan_loader._VARIABLE
    monkeypatch.delenv(name, raising=False)
    with vulkan_loader.interposed_loader():
        assert Path(os.environ[name]).name == "libgnomon_vulkan.so"
    assert name not in os.environ
    monkeypatch.setenv(name, "libvulkan.so.1")
    with pytest.raises(KeyError), vulkan_loader.interposed_loader():
        raise KeyError
    assert os.environ[name] == "libvulkan.so.1"


# In separate processes, because a process opens Vulkan's loader once.
_OPENS = """
import os, sys
from gnomon.backends.iree.vulkan_loader import interposed_loader
with interposed_loader():
    print(os.environ.get("IREE_HAL_VULKAN_LIBVULKAN_PATH"))
"""


def _opened(given: str) -> str:
    environment = os.environ | {"IREE_HAL_VULKAN_LIBVULKAN_PATH": given}
    run = [sys.executable, "-c", _OPENS]
    done = subprocess.run(
        run, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_loader_that_the_user_names_is_the_one(tmp_path: Path) -> None:
    # A folder without a loader, and a file that is not one: IREE looks further, and so do we.
    wrong = tmp_path / "libvulkan.so.1"
    wrong.write_bytes(b"no library")
    for given in (str(tmp_path), str(wrong), ""):
        assert Path(_opened(given)).name == "libgnomon_vulkan.so"
