"""IREE's devices, and arrays in their memory.

A device, once made, is never destroyed: IREE's buffers do not keep their device alive, and freeing
a buffer after its device crashes the process. A forked child makes new devices, because the threads
of the old ones do not exist there.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, ClassVar

import iree.runtime as rt
import numpy as np

from gnomon_runtime.errors import MissingModuleError, ProgramError
from gnomon_runtime.inside import silence_leak_reports
from gnomon_runtime.memory import ELEMENT_TYPES, IMPORTED_USAGE_BIT, MEMORY_TYPE, OWNED_USAGE

silence_leak_reports()

__all__ = ["Array", "DeletedArrayError", "Device", "device_of", "forks"]

_OWN_MEMORY = int(rt.MemoryType.DEVICE_LOCAL)
_OWN_USAGE = int(rt.BufferUsage.DEFAULT)
_STAGING = (
    int(rt.MemoryType.HOST_LOCAL)
    | int(rt.MemoryType.DEVICE_VISIBLE)
    | int(rt.MemoryType.HOST_CACHED)
)
_STAGING_USAGE = int(rt.BufferUsage.TRANSFER) | int(rt.BufferUsage.MAPPING)

# Copying fewer bytes than this is quicker than importing them.
_COPY_BELOW_BYTES = 16384
_ALIGNMENT = 16

_HOST_DRIVERS = ("local-sync", "local-task")


def _element_type(dtype: np.dtype[Any]) -> Any:
    found = ELEMENT_TYPES.get(dtype)
    if found is None:
        # Programs take elements narrower than a byte, and 8-bit floats, as bytes.
        bfloat16, byte = rt.HalElementType.BFLOAT_16, rt.HalElementType.UINT_8
        return bfloat16 if dtype.name == "bfloat16" else byte
    return found


def _make_immortal(value: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


class _Process:
    """Objects that a forked child must not share."""

    lock = threading.RLock()
    forks = 0
    instance: Any = None
    devices: ClassVar[dict[tuple[str, int], Device]] = {}


def forks() -> int:
    """The number of forks between the process that imported the package and this one."""
    return _Process.forks


def _after_fork_in_child() -> None:
    _Process.lock = threading.RLock()
    _Process.forks += 1
    _Process.devices = {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def device_of(driver: str, number: int = 0) -> Device:
    """The device of a driver, made on first use.

    Raises:
      MissingModuleError: the driver is missing, or has no such device.
    """
    with _Process.lock:
        key = driver, number
        if key not in _Process.devices:
            _Process.devices[key] = Device(driver, number)
        return _Process.devices[key]


class Device:
    """One of IREE's devices with what is needed to load and run programs on it.

    Attributes:
      driver: the name of its driver.
      shares_memory: whether it computes in the memory of Python.
    """

    def __init__(self, driver: str, number: int) -> None:
        if _Process.instance is None:
            _Process.instance = rt.VmInstance()
            _make_immortal(_Process.instance)
        self.driver = driver
        self.shares_memory = driver in _HOST_DRIVERS
        self.instance = _Process.instance
        try:
            opened = rt.get_driver(driver)
            if self.shares_memory:
                self.hal: Any = opened.create_default_device()
            else:
                devices = opened.query_available_devices()
                if number >= len(devices):
                    raise RuntimeError(f"it has {len(devices)} devices")
                self.hal = opened.create_device(devices[number]["device_id"])
        except (OSError, RuntimeError, ValueError) as error:
            raise MissingModuleError(
                f"IREE's driver {driver!r} has no device {number} here: {error}"
            ) from error
        self.allocator: Any = self.hal.allocator
        self.module: Any = rt.create_hal_module(self.instance, self.hal)
        for value in (self, self.hal, self.allocator, self.module):
            _make_immortal(value)

    # ------------------------------------------------------------------------------- to the device

    def view_of(self, array: np.ndarray[Any, Any]) -> tuple[Any, Any]:
        """IREE's view of an array, and an object that must outlive programs that read it, or None.

        On the CPU, large arrays are read in place if their memory allows it.
        """
        element = _element_type(array.dtype)
        if not self.shares_memory:
            return self._uploaded(array, element), None
        shape, nbytes = array.shape, array.nbytes
        address, _ = array.__array_interface__["data"]
        aligned = array.flags.c_contiguous and address % _ALIGNMENT == 0
        if nbytes < _COPY_BELOW_BYTES or not aligned:
            return self._copied(array, element), None
        # The binding asks for writable memory although programs never write their arguments, and
        # some dtypes do not take part in the buffer protocol.
        memory = (ctypes.c_ubyte * nbytes).from_address(address)
        buffer = self.allocator.import_host_allocation(
            memory, MEMORY_TYPE, OWNED_USAGE | IMPORTED_USAGE_BIT
        )
        return rt.HalBufferView(buffer, shape, element), array

    def copied(self, array: np.ndarray[Any, Any]) -> Any:
        """IREE's view of a copy of an array, in separate memory."""
        element = _element_type(array.dtype)
        return (self._copied if self.shares_memory else self._uploaded)(array, element)

    def _copied(self, array: np.ndarray[Any, Any], element: Any) -> Any:
        buffer = self.allocator.allocate_buffer(MEMORY_TYPE, OWNED_USAGE, array.nbytes)
        if array.nbytes:
            np.ndarray(array.shape, array.dtype, buffer.map())[...] = array
        return rt.HalBufferView(buffer, array.shape, element)

    def _uploaded(self, array: np.ndarray[Any, Any], element: Any) -> Any:
        nbytes = array.nbytes
        memory = self.allocator.allocate_buffer(_OWN_MEMORY, _OWN_USAGE, nbytes)
        if nbytes:
            staging = self.allocator.allocate_buffer(_STAGING, _STAGING_USAGE, nbytes)
            np.ndarray(array.shape, array.dtype, staging.map())[...] = array
            self._copy(staging, memory, nbytes)
        return rt.HalBufferView(memory, array.shape, element)

    def _copy(self, source: Any, target: Any, nbytes: int) -> None:
        """Copy, and wait for the end."""
        commands = rt.HalCommandBuffer(self.hal)
        commands.copy(source, target, 0, 0, nbytes, end=True)
        semaphore = self.hal.create_semaphore(0)
        self.hal.queue_execute(commands, [], [(semaphore, 1)])
        semaphore.wait(1)

    # ----------------------------------------------------------------------------- from the device

    def values_of(
        self, view: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> np.ndarray[Any, Any]:
        """The elements of a view that is ready, read-only; in place on the CPU."""
        if view.byte_length == 0:
            array = np.empty(shape, dtype)
        elif self.shares_memory:
            array = np.ndarray(shape, dtype, view.map())
        else:
            nbytes = view.byte_length
            staging = self.allocator.allocate_buffer(_STAGING, _STAGING_USAGE, nbytes)
            self._copy(view.get_buffer(), staging, nbytes)
            array = np.ndarray(shape, dtype, staging.map())
        array.flags.writeable = False
        return array

    def without_borrowed_memory(
        self, view: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Any:
        """The view, or a copy of it if its memory is an argument's, which belongs to NumPy."""
        if not self.shares_memory or not view.get_buffer().allowed_usage() & IMPORTED_USAGE_BIT:
            return view
        return self._copied(self.values_of(view, shape, dtype), _element_type(dtype))

    def __repr__(self) -> str:
        return f"Device({self.driver!r})"


class DeletedArrayError(ProgramError):
    """An array was used after `delete`, or after it was donated to a call."""


class Array:
    """A result of a program, in the memory of its device.

    NumPy's functions accept it; on the CPU they read its memory in place. As an argument of another
    call, it stays on its device.

    Attributes:
      shape, dtype: the shape and the dtype, as NumPy has them.
      device: the device that holds it.
    """

    __slots__ = ("__weakref__", "_forks", "_host", "_view", "device", "dtype", "shape")

    def __init__(
        self, view: Any, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device
    ) -> None:
        self._view = view
        self._host: np.ndarray[Any, Any] | None = None
        self._forks = forks()
        self.shape = shape
        self.dtype = dtype
        self.device = device

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values, read-only.

        Raises:
          DeletedArrayError: it was deleted or donated.
        """
        if self._host is None:
            self._host = self.device.values_of(self.view(), self.shape, self.dtype)
        return self._host

    def view(self) -> Any:
        """IREE's view.

        Raises:
          DeletedArrayError: it was deleted or donated.
        """
        if self._view is None:
            raise DeletedArrayError(
                f"an array of shape {self.shape} and dtype {self.dtype} was used after it was "
                "deleted or donated to a call; keep a copy (numpy.array) of what you need"
            )
        return self._view

    def is_usable_on(self, device: Device) -> bool:
        """Whether a program on a device can use it without a copy."""
        here = self.device is device or (self.device.shares_memory and device.shares_memory)
        return here and self._forks == forks()

    def delete(self) -> None:
        """Release the memory; any later use raises. NumPy arrays made of it stay valid."""
        self._view = self._host = None

    def is_deleted(self) -> bool:
        """Whether it was deleted or donated."""
        return self._view is None

    def block_until_ready(self) -> Array:
        """The array itself: programs return when they are done."""
        self.view()
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        values = self.numpy()
        if dtype is not None and np.dtype(dtype) != values.dtype:
            if copy is False:
                raise ValueError(f"a conversion to {dtype} requires a copy")
            return values.astype(dtype)
        return values.copy() if copy else values

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """The bytes that the elements take."""
        return self.size * self.dtype.itemsize

    def item(self) -> Any:
        """The one element as a Python number."""
        return self.numpy().item()

    def __getitem__(self, index: Any) -> Any:
        return self.numpy()[index]

    def __len__(self) -> int:
        return len(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __repr__(self) -> str:
        if self.is_deleted():
            return f"Array(deleted, shape={self.shape}, dtype={self.dtype})"
        return repr(self.numpy()).replace("array(", "Array(", 1)
