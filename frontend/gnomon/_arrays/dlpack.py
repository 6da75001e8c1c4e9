"""DLPack: the exchange of arrays with other libraries without a copy.

NumPy speaks the protocol but not for bfloat16. Such an array travels as uint16 bits in a capsule
whose dtype field is rewritten: the layout of ``DLManagedTensor`` is fixed by the protocol.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from gnomon_runtime.booleans import zero_or_one

__all__ = ["export_capsule", "import_capsule"]

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_CPU = 1
_CODE_UINT, _CODE_BFLOAT = 1, 4


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype = ctypes.c_int
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _tensor(capsule: Any) -> _DLTensor:
    """The tensor that an unconsumed capsule describes."""
    if _is_valid(capsule, b"dltensor_versioned"):
        address = _get_pointer(capsule, b"dltensor_versioned")
        managed = _DLManagedTensorVersioned.from_address(address)
        tensor: _DLTensor = managed.tensor
        return tensor
    if _is_valid(capsule, b"dltensor"):
        return _DLTensor.from_address(_get_pointer(capsule, b"dltensor"))
    raise BufferError("the DLPack capsule has an unknown version, or was already consumed")


def export_capsule(
    value: np.ndarray[Any, Any],
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule of an array that must not be written to.

    Consumers that know the flag for it get read-only memory. For others the memory is shared and
    writable, as DLPack had no other way before version 1; memory that is read-only already is
    copied for them.
    """
    versioned = max_version is not None and max_version[0] >= 1
    if versioned:
        value = value.view()
        value.flags.writeable = False
    elif not value.flags.writeable and copy is not False:
        value = value.copy()
    if value.dtype != _BFLOAT16:
        return value.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
    bits = value.view(np.uint16)
    capsule = bits.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
    _tensor(capsule).code = _CODE_BFLOAT
    return capsule


class _CapsuleExporter:
    """A capsule that `np.from_dlpack` may consume."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self._capsule = capsule
        self._device = device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def import_capsule(external: Any, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """The NumPy array of an object with ``__dlpack__``, in the same memory unless ``copy``.

    Raises:
      TypeError: the object does not speak DLPack.
      BufferError: its memory is not the host's, or its dtype is neither NumPy's nor bfloat16.
    """
    if not (hasattr(external, "__dlpack__") and hasattr(external, "__dlpack_device__")):
        raise TypeError(
            "from_dlpack takes an object with the methods __dlpack__ and __dlpack_device__, got "
            f"a value of type {type(external).__name__}"
        )
    device = tuple(int(part) for part in external.__dlpack_device__())
    if device[0] != _CPU:
        raise BufferError(
            f"from_dlpack: the array is on DLPack device type {device[0]}, not in host memory "
            "(type 1); copy it to the CPU first"
        )
    try:
        capsule = external.__dlpack__(max_version=(1, 0))
    except TypeError:
        # The producer implements a version of the protocol before 1.0.
        capsule = external.__dlpack__()
    tensor = _tensor(capsule)
    is_bfloat16 = tensor.code == _CODE_BFLOAT and tensor.bits == 16
    if is_bfloat16:
        tensor.code = _CODE_UINT
    value = np.from_dlpack(_CapsuleExporter(capsule, (device[0], device[1])))
    if is_bfloat16:
        value = value.view(_BFLOAT16)
    value = zero_or_one(value)
    return value.copy() if copy else value
