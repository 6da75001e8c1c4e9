"""Arrays that have a value.

A `ConcreteArray` is in host memory and belongs to no device in particular: nearly all arrays of a
program on the CPU. A `PlacedArray` is in the memory of another device, or was put on a device by
the user: `bind` computes with it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray
from gnomon._arrays.dlpack import export_capsule
from gnomon._arrays.printing import shown
from gnomon._arrays.stored import StoredArray
from gnomon._arrays.transfers import guard_transfer
from gnomon._config.current import Config
from gnomon._native import Readable
from gnomon._sharding.device import HOST, Device, default_device, in_host_memory, memory_of
from gnomon.backends.interface import Buffer
from gnomon.dialects.types import is_of_numpy

__all__ = [
    "ConcreteArray",
    "PlacedArray",
    "committed_device",
    "mesh_placements",
    "placed",
    "placed_buffer",
    "with_weak_flag",
    "wrap",
    "wrap_buffer",
    "wrap_like",
    "wrap_unspread",
]

_ndarray = np.ndarray


class ConcreteArray(StoredArray, Readable):
    """An array with a value in host memory, computed or being computed there.

    NumPy reads it by the buffer protocol, and calls ``__array__`` for the dtypes that the protocol
    does not have.
    """

    __slots__ = ()

    # ------------------------------------------------------------------------------ other libraries

    def __array__(
        self, dtype: Any = None, copy: bool | None = None
    ) -> np.ndarray[Any, np.dtype[Any]]:
        value = self._value
        if value is None:
            value = self.numpy_value()
        if copy:
            return np.array(value, dtype=dtype, copy=True)
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise ValueError(
                    f"an array of {value.dtype} cannot become {np.dtype(dtype)} without a copy"
                )
            return value.astype(dtype)
        if is_of_numpy(value.dtype):
            return np.asarray(memoryview(self))
        if not value.dtype.itemsize:
            return value.view()
        bits = value.view(f"u{value.dtype.itemsize}")
        return np.asarray(memoryview(wrap_unspread(bits))).view(value.dtype)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if stream is not None:
            raise BufferError(f"an array in host memory has no stream, got stream={stream!r}")
        return export_capsule(self.numpy_value(), max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy_value().__dlpack_device__()

    def __reduce__(self) -> Any:
        return _restore, (np.array(self.numpy_value()), self.weak_type)

    def __copy__(self) -> ConcreteArray:
        return wrap_like(self.numpy_value().copy(), self, self.weak_type)

    def __deepcopy__(self, memo: dict[int, Any]) -> ConcreteArray:
        return self.__copy__()

    def copy(self) -> ConcreteArray:
        """A new array of the same value in separate memory."""
        return self.__copy__()

    def item(self, *args: int) -> Any:
        """One element as a Python scalar: the only one, or the one at a flat or full index."""
        return self.numpy_value().item(*args)

    def tolist(self) -> Any:
        """Nested lists of Python scalars."""
        return self.numpy_value().tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The elements' bytes."""
        return self.numpy_value().tobytes(order)

    # ---------------------------------------------------------------------------- Python's protocol

    def __repr__(self) -> str:
        if self.is_deleted():
            return f"Array(<deleted>, shape={self.shape}, dtype={self.dtype.name})"
        value = self.numpy_value()
        return shown(value, self.weak_type)

    def __str__(self) -> str:
        return str(self.numpy_value())

    def __format__(self, spec: str) -> str:
        value = self.numpy_value()
        if value.ndim == 0:
            return format(value[()], spec)
        return format(value, spec)

    def __bool__(self) -> bool:
        value = self.numpy_value()
        if value.size == 1:
            return bool(value)
        if value.size == 0:
            raise ValueError(
                "the truth value of an empty array is ambiguous: use x.size > 0 to test whether "
                "it has elements"
            )
        raise ValueError(
            "the truth value of an array with more than one element is ambiguous: use x.any() "
            "or x.all()"
        )

    def _scalar(self) -> np.ndarray[Any, Any]:
        value = self.numpy_value()
        if value.ndim:
            raise TypeError(
                "only 0-d arrays can be converted to Python scalars, but this array has shape "
                f"{value.shape}: index it, or use x.item() if it has exactly one element"
            )
        return value

    def __int__(self) -> int:
        return int(self._scalar())

    def __float__(self) -> float:
        value = self._scalar()
        if value.dtype.kind == "c":
            raise TypeError(
                f"an array of dtype {value.dtype} cannot be converted to a float; use x.real or "
                "complex(x)"
            )
        return float(value)

    def __complex__(self) -> complex:
        return complex(self._scalar()[()])

    def __index__(self) -> int:
        value = self.numpy_value()
        if value.ndim or not _is_integer(value.dtype):
            raise TypeError(
                f"only 0-d integer arrays can be used as an index or a length, got {self.aval}"
            )
        return int(value)

    def __iter__(self) -> Iterator[Any]:
        value = self.numpy_value()
        if not value.ndim:
            raise TypeError("iteration over a 0-d array: it has no dimensions")
        weak_type = self.weak_type
        # With the ellipsis, the element of a vector is an array and not a NumPy scalar.
        return (wrap(value[i, ...], weak_type) for i in range(len(value)))

    def __reversed__(self) -> Iterator[Any]:
        value = self.numpy_value()
        if not value.ndim:
            raise TypeError("iteration over a 0-d array: it has no dimensions")
        weak_type = self.weak_type
        return (wrap(value[i, ...], weak_type) for i in range(len(value) - 1, -1, -1))


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" or dtype.name in ("int2", "int4", "uint2", "uint4")


class PlacedArray(ConcreteArray):
    """An array that lives on a device other than the host, or that is committed to its device.

    ``_value`` is the copy in host memory, and ``_buffer`` the one on the device. Each is made from
    the other when it is first needed.
    """

    __slots__ = ("_committed", "_device")

    _committed: bool
    _device: Device

    @property
    def device(self) -> Device:
        """The device that holds the array."""
        return self._device

    @property
    def committed(self) -> bool:
        """Whether the array was put on its device explicitly; then operations on it run there."""
        return self._committed

    def numpy_value(self) -> np.ndarray[Any, Any]:
        """The value as the array holds it; do not write to it. Waits for the device.

        Raises:
          RuntimeError: the array was deleted or donated, or `transfer_guard` forbids reading it.
        """
        if self._value is None and Config.guards_somewhere and not in_host_memory(self._device):
            guard_transfer("device_to_host", self.aval, self._device)
        return super().numpy_value()

    def copy_to_host_async(self) -> None:
        """Start to copy the value to host memory, so that reading it need not wait."""
        if self._value is None and Config.guards_somewhere and not in_host_memory(self._device):
            guard_transfer("device_to_host", self.aval, self._device)
        super().copy_to_host_async()

    def device_buffer(self) -> Buffer:
        """The buffer on the device, to which the value is transferred if necessary."""
        buffer = self._buffer
        if (buffer is None or buffer.is_deleted()) and self._value is not None:
            memory = memory_of(self._device)
            buffer = memory.backend.put(self._value, memory)
            self._buffer = buffer
        return self._live_buffer()

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array: it has no dimensions")
        return (self[i] for i in range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array: it has no dimensions")
        return (self[i] for i in range(len(self) - 1, -1, -1))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if not in_host_memory(self._device) and (dl_device != _DLPACK_HOST or copy is False):
            raise self._not_in_host_memory()
        return super().__dlpack__(stream=stream, max_version=max_version, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        if not in_host_memory(self._device):
            raise self._not_in_host_memory()
        return super().__dlpack_device__()

    def _put_like(self, result: ConcreteArray, shape: tuple[int, ...]) -> None:
        """Put ``result``, a new array of this type and of shape ``shape``, where this array is."""
        assert isinstance(result, PlacedArray)
        result._device, result._committed = self._device, self._committed

    def _converted(self, other: PlacedArray) -> PlacedArray:
        """The value of ``other`` as an array of the type of ``self``, in the place of ``self``."""
        result = _new(type(self))
        self._put_like(result, other.shape)
        result._value, result._buffer = other._value, other._buffer
        result._aval, result.weak_type = other._aval, other.weak_type
        return result

    def _not_in_host_memory(self) -> BufferError:
        return BufferError(
            f"DLPack: the array {self.aval} lives on {self._device}, whose memory other libraries "
            "cannot read; copy it to the host first: "
            'gnomon.device_put(x, gnomon.devices("cpu")[0])'
        )


# DLPack's numbers of host memory and of the only device there.
_DLPACK_HOST = (1, 0)

_new = object.__new__

# Functions of a value and its weak-type flag that make an array over the mesh that is set, or
# return None. The module that knows whether a function is being traced adds one.
mesh_placements: list[Callable[[Any, bool], ConcreteArray | None]] = []


def wrap(value: np.ndarray[Any, Any], weak_type: bool = False) -> ConcreteArray:
    """An array of a NumPy value that must not be written to any more; nothing is copied.

    Args:
      value: an array of a dtype of the dialect, or a NumPy scalar, since ufuncs return those for
        operands without dimensions.
      weak_type: whether the dtype came from a Python scalar; see `Array.weak_type`.
    """
    if Config.placed_somewhere:
        for place in mesh_placements:
            if (spread := place(value, weak_type)) is not None:
                return spread
        return wrap_unspread(value, weak_type)
    array = _new(ConcreteArray)
    array._value = value if type(value) is _ndarray else np.asarray(value)
    array._buffer = None
    array._aval = None
    array.weak_type = weak_type
    return array


def wrap_unspread(value: np.ndarray[Any, Any], weak_type: bool = False) -> ConcreteArray:
    """`wrap` for a value that is given, not computed: it is not put on a mesh that is set."""
    if Config.placed_somewhere and (device := default_device()) is not HOST:
        return placed(value, device, weak_type=weak_type)
    array = _new(ConcreteArray)
    array._value = value if type(value) is _ndarray else np.asarray(value)
    array._buffer = None
    array._aval = None
    array.weak_type = weak_type
    return array


def wrap_buffer(buffer: Buffer, aval: ShapedArray) -> ConcreteArray:
    """An array of a buffer on the host's device; its value is read when it is first needed."""
    array = _new(ConcreteArray)
    array._value = None
    array._buffer = buffer
    array._aval = aval
    array.weak_type = aval.weak_type
    return array


def placed(
    value: np.ndarray[Any, Any], device: Device, *, committed: bool = False, weak_type: bool = False
) -> PlacedArray:
    """An array on a device, made of a NumPy value that is moved there when it is first used."""
    array = _new(PlacedArray)
    array._value = value if type(value) is _ndarray else np.asarray(value)
    array._buffer = None
    array._aval = None
    array.weak_type = weak_type
    array._device = device
    array._committed = committed
    return array


def placed_buffer(
    buffer: Buffer, aval: ShapedArray, device: Device, committed: bool
) -> PlacedArray:
    """An array of a buffer on a device."""
    array = _new(PlacedArray)
    array._value = None
    array._buffer = buffer
    array._aval = aval
    array.weak_type = aval.weak_type
    array._device = device
    array._committed = committed
    return array


def wrap_like(value: np.ndarray[Any, Any], array: Array, weak_type: bool = False) -> ConcreteArray:
    """An array of a value computed on the host, in the same place as another array."""
    if not isinstance(array, PlacedArray):
        return wrap(value, weak_type)
    result = placed(value, array._device, committed=array._committed, weak_type=weak_type)
    return result if type(array) is PlacedArray else array._converted(result)


def with_weak_flag(array: ConcreteArray, weak_type: bool) -> ConcreteArray:
    """An array of the same value in the same place, with the given weak-type flag."""
    aval = array.aval.update(weak_type=weak_type)
    value, buffer = array._value, array._buffer
    if value is None:
        buffer = array._live_buffer()
    elif type(array) is ConcreteArray:
        buffer = None  # A new one costs nothing; a shared one could be donated by either array.
    result: ConcreteArray = _new(type(array))
    if isinstance(array, PlacedArray):
        array._put_like(result, aval.shape)
    result._value, result._buffer = value, buffer
    result._aval, result.weak_type = aval, weak_type
    return result


def committed_device(arrays: Sequence[Any], describe: Callable[[int], str]) -> Device | None:
    """The device that arrays are committed to, or None if none is committed.

    Args:
      arrays: values of any type.
      describe: describes the value at an index of ``arrays`` in the error.
    Raises:
      ValueError: the arrays are committed to different devices.
    """
    first: int | None = None
    found: Device | None = None
    for i, x in enumerate(arrays):
        if isinstance(x, PlacedArray):
            device = x._device if x._committed else None
        else:
            # Descriptions of arrays (`ShapeDtypeStruct`) may be committed, too.
            device = None if isinstance(x, Array) else getattr(x, "committed_to", None)
        if device is None or device is found:
            continue
        if first is not None:
            raise ValueError(
                f"received incompatible devices: {describe(first)} of {arrays[first].aval} is "
                f"committed to {found!r}, and {describe(i)} of {x.aval} to {device!r}. Move them "
                "to one device with gnomon.device_put(x, device)"
            )
        first, found = i, device
    return found


def _restore(value: np.ndarray[Any, Any], weak_type: bool) -> ConcreteArray:
    return wrap(value, weak_type)
