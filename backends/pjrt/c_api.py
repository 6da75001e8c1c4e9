"""The PJRT C API as a table of functions, and calls of them.

A plugin is a shared library with one function, ``GetPjrtApi``, which returns a struct of function
pointers. Every function takes a pointer to a struct of its own, which begins with its size, and
returns a pointer to an error or null. The interface only grows: functions are added at the end of
the table and fields at the end of the structs, and the sizes tell each side which of them the other
side knows.

This module therefore describes the interface as data. `FUNCTIONS` lists the functions in the order
of the table, with the fields of their structs, or None for those that are never called. `Api.call`
fills a struct, calls the function, and raises `PjrtError`.

All of this follows the header ``xla/pjrt/c/pjrt_c_api.h`` of the OpenXLA project.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

__all__ = ["FUNCTIONS", "STRUCTS", "Api", "ApiVersionError", "PjrtError", "address_of", "text_at"]

# The type codes of fields: p pointer, n size, i int, l int64, b bool, c bytes that the caller owns.
_CODES: dict[str, Any] = {
    "p": ctypes.c_void_p,
    "n": ctypes.c_size_t,
    "i": ctypes.c_int,
    "l": ctypes.c_int64,
    "b": ctypes.c_bool,
    "c": ctypes.c_char_p,
}

# The order is that of the table in the C interface: entries must not be removed or moved.
FUNCTIONS: dict[str, str | None] = {
    "Error_Destroy": "error:p",
    "Error_Message": "error:p message:p message_size:n",
    "Error_GetCode": "error:p code:i",
    "Plugin_Initialize": "",
    "Plugin_Attributes": "attributes:p num_attributes:n",
    "Event_Destroy": "event:p",
    "Event_IsReady": "event:p is_ready:b",
    "Event_Error": "event:p",
    "Event_Await": "event:p",
    "Event_OnReady": None,
    "Client_Create": "create_options:p num_options:n kv_get:p kv_get_arg:p kv_put:p kv_put_arg:p "
    "client:p kv_try_get:p kv_try_get_arg:p",
    "Client_Destroy": "client:p",
    "Client_PlatformName": "client:p text:p text_size:n",
    "Client_ProcessIndex": "client:p process_index:i",
    "Client_PlatformVersion": "client:p text:p text_size:n",
    "Client_Devices": "client:p devices:p num_devices:n",
    "Client_AddressableDevices": "client:p devices:p num_devices:n",
    "Client_LookupDevice": None,
    "Client_LookupAddressableDevice": None,
    "Client_AddressableMemories": None,
    "Client_Compile": "client:p program:p compile_options:c compile_options_size:n executable:p",
    "Client_DefaultDeviceAssignment": None,
    "Client_BufferFromHostBuffer": "client:p data:p type:i dims:p num_dims:n byte_strides:p "
    "num_byte_strides:n host_buffer_semantics:i device:p memory:p device_layout:p "
    "done_with_host_buffer:p buffer:p",
    "DeviceDescription_Id": "description:p id:i",
    "DeviceDescription_ProcessIndex": "description:p process_index:i",
    "DeviceDescription_Attributes": "description:p num_attributes:n attributes:p",
    "DeviceDescription_Kind": "description:p text:p text_size:n",
    "DeviceDescription_DebugString": None,
    "DeviceDescription_ToString": None,
    "Device_GetDescription": "device:p description:p",
    "Device_IsAddressable": None,
    "Device_LocalHardwareId": None,
    "Device_AddressableMemories": "device:p memories:p num_memories:n",
    "Device_DefaultMemory": "device:p memory:p",
    "Device_MemoryStats": "device:p bytes_in_use:l "
    "peak_bytes_in_use:l has_peak_bytes_in_use:b num_allocs:l has_num_allocs:b "
    "largest_alloc_size:l has_largest_alloc_size:b bytes_limit:l has_bytes_limit:b "
    "bytes_reserved:l has_bytes_reserved:b peak_bytes_reserved:l has_peak_bytes_reserved:b "
    "bytes_reservable_limit:l has_bytes_reservable_limit:b "
    "largest_free_block_bytes:l has_largest_free_block_bytes:b "
    "pool_bytes:l has_pool_bytes:b peak_pool_bytes:l has_peak_pool_bytes:b",
    "Memory_Id": None,
    "Memory_Kind": "memory:p text:p text_size:n",
    "Memory_DebugString": None,
    "Memory_ToString": None,
    "Memory_AddressableByDevices": None,
    "Executable_Destroy": "executable:p",
    "Executable_Name": None,
    "Executable_NumReplicas": None,
    "Executable_NumPartitions": None,
    "Executable_NumOutputs": "executable:p num_outputs:n",
    "Executable_SizeOfGeneratedCodeInBytes": None,
    "Executable_GetCostAnalysis": "executable:p num_properties:n properties:p",
    "Executable_OutputMemoryKinds": None,
    "Executable_OptimizedProgram": "executable:p program:p",
    "Executable_Serialize": "executable:p bytes:p bytes_size:n serialized:p deleter:p",
    "LoadedExecutable_Destroy": "executable:p",
    "LoadedExecutable_GetExecutable": "loaded:p executable:p",
    "LoadedExecutable_AddressableDevices": None,
    "LoadedExecutable_Delete": None,
    "LoadedExecutable_IsDeleted": None,
    "LoadedExecutable_Execute": "executable:p options:p argument_lists:p num_devices:n num_args:n "
    "output_lists:p device_complete_events:p execute_device:p",
    "Executable_DeserializeAndLoad": "client:p serialized:c serialized_size:n loaded:p "
    "options:c options_size:n",
    "LoadedExecutable_Fingerprint": None,
    "Buffer_Destroy": "buffer:p",
    "Buffer_ElementType": "buffer:p type:i",
    "Buffer_Dimensions": "buffer:p dims:p num_dims:n",
    "Buffer_UnpaddedDimensions": None,
    "Buffer_DynamicDimensionIndices": None,
    "Buffer_GetMemoryLayout": None,
    "Buffer_OnDeviceSizeInBytes": "buffer:p size:n",
    "Buffer_Device": None,
    "Buffer_Memory": None,
    "Buffer_Delete": "buffer:p",
    "Buffer_IsDeleted": "buffer:p is_deleted:b",
    "Buffer_CopyToDevice": "buffer:p device:p copy:p",
    "Buffer_ToHostBuffer": "buffer:p host_layout:p data:p data_size:n event:p",
    "Buffer_IsOnCpu": "buffer:p is_on_cpu:b",
    "Buffer_ReadyEvent": "buffer:p event:p",
    "Buffer_UnsafePointer": "buffer:p pointer:p",
    "Buffer_IncreaseExternalReferenceCount": "buffer:p",
    "Buffer_DecreaseExternalReferenceCount": "buffer:p",
    "Buffer_OpaqueDeviceMemoryDataPointer": None,
    "CopyToDeviceStream_Destroy": None,
    "CopyToDeviceStream_AddChunk": None,
    "CopyToDeviceStream_TotalBytes": None,
    "CopyToDeviceStream_GranuleSize": None,
    "CopyToDeviceStream_CurrentBytes": None,
    "TopologyDescription_Create": "name:c name_size:n create_options:p num_options:n topology:p",
    "TopologyDescription_Destroy": "topology:p",
    "TopologyDescription_PlatformName": "topology:p text:p text_size:n",
    "TopologyDescription_PlatformVersion": "topology:p text:p text_size:n",
    "TopologyDescription_GetDeviceDescriptions": "topology:p descriptions:p num_descriptions:n",
    "TopologyDescription_Serialize": None,
    "TopologyDescription_Attributes": None,
    "Compile": "topology:p program:p compile_options:c compile_options_size:n client:p "
    "executable:p",
    "Executable_OutputElementTypes": None,
    "Executable_OutputDimensions": None,
    "Buffer_CopyToMemory": None,
    "Client_CreateViewOfDeviceBuffer": None,
    "Executable_Fingerprint": None,
    "Client_TopologyDescription": "client:p topology:p",
    "Executable_GetCompiledMemoryStats": "executable:p generated_code_size_in_bytes:l "
    "argument_size_in_bytes:l output_size_in_bytes:l alias_size_in_bytes:l temp_size_in_bytes:l "
    "host_generated_code_size_in_bytes:l host_argument_size_in_bytes:l host_output_size_in_bytes:l "
    "host_alias_size_in_bytes:l host_temp_size_in_bytes:l peak_memory_in_bytes:l",
}

# Structs that are nested in others or passed by pointer.
_OTHERS = {
    "Program": "code:p code_size:n format:c format_size:n",
    "ExecuteOptions": "send_callbacks:p recv_callbacks:p num_send_ops:n num_recv_ops:n launch_id:i "
    "non_donatable:p num_non_donatable:n context:p call_location:p num_tasks:n task_ids:p "
    "incarnation_ids:p",
    "KeyValueGet": "key:p key_size:n timeout_in_ms:i callback_error:p user_arg:p value:p "
    "value_size:n deleter:p",
    "KeyValueTryGet": "key:p key_size:n callback_error:p user_arg:p value:p value_size:n deleter:p",
    "KeyValuePut": "key:p key_size:n value:p value_size:n callback_error:p user_arg:p",
    # The union of the value has eight bytes.
    "NamedValue": "name:p name_size:n type:i value:l value_size:n",
    # A union of this struct with the shorter one of strides, followed by its tag.
    "MemoryLayout": "tiled_size:n tiled_extension:p minor_to_major:p minor_to_major_size:n "
    "tile_dims:p tile_dim_sizes:p num_tiles:n type:i",
}


def _struct(name: str, fields: str) -> Any:
    entries = [field.split(":") for field in fields.split()]
    members = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)]
    members += [(field, _CODES[code]) for field, code in entries]
    struct: Any = type(name, (ctypes.Structure,), {"_fields_": members})
    # The header's struct sizes end at the last field, without padding.
    last = getattr(struct, members[-1][0])
    struct.size = last.offset + last.size
    return struct


STRUCTS: dict[str, Any] = {
    name: _struct(name, fields)
    for name, fields in {**FUNCTIONS, **_OTHERS}.items()
    if fields is not None
}

# The names of the status codes.
CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)

MAJOR = 0
# The first version with all functions and struct fields that this binding needs (November 2023).
MINIMUM_MINOR = 40

_SLOTS = {name: slot for slot, name in enumerate(FUNCTIONS)}
_VERSION_OFFSET = 16
_TABLE_OFFSET = 40
_POINTER = ctypes.sizeof(ctypes.c_void_p)
_CALL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class PjrtError(RuntimeError):
    """A plugin returned an error.

    Attributes:
      code: the name of the status code, such as ``"RESOURCE_EXHAUSTED"``.
      message: the plugin's message.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class ApiVersionError(RuntimeError):
    """The plugin uses a version of the interface that this binding does not support."""


def text_at(address: int | None, size: int) -> str:
    """The string at an address."""
    return ctypes.string_at(address, size).decode(errors="replace") if address else ""


def address_of(struct: Any) -> int:
    """The address of a struct or array; the caller must keep the object alive."""
    return ctypes.addressof(struct)


class Api:
    """The functions of a plugin.

    Args:
      address: the address that ``GetPjrtApi`` returned.

    Attributes:
      version: the version of the interface that the plugin was built with.

    Raises:
      ApiVersionError: the plugin is too old or has an incompatible version.
    """

    def __init__(self, address: int) -> None:
        size = ctypes.c_size_t.from_address(address).value
        if size < _TABLE_OFFSET + _POINTER:
            raise ApiVersionError(
                f"its table of functions has {size} bytes, which no version of the PJRT C API has"
            )
        major, minor = (ctypes.c_int * 2).from_address(address + _VERSION_OFFSET + 2 * _POINTER)
        self.version = (int(major), int(minor))
        if major != MAJOR or minor < MINIMUM_MINOR:
            raise ApiVersionError(
                f"it speaks version {major}.{minor} of the PJRT C API; this binding speaks "
                f"{MAJOR}.{MINIMUM_MINOR} and later versions that begin with {MAJOR}"
            )
        self.count = (size - _TABLE_OFFSET) // _POINTER
        self._table = (ctypes.c_void_p * self.count).from_address(address + _TABLE_OFFSET)
        self._functions: dict[str, Callable[[int], int | None]] = {}

    def has(self, name: str) -> bool:
        """Whether the plugin has a function; those of later versions may be missing."""
        slot = _SLOTS[name]
        return slot < self.count and bool(self._table[slot])

    def function(self, name: str) -> Callable[[int], int | None]:
        """A function of the table, which maps the address of its struct to that of an error.

        Raises:
          PjrtError: the plugin does not have it.
        """
        found = self._functions.get(name)
        if found is None:
            if not self.has(name):
                raise PjrtError(
                    "UNIMPLEMENTED",
                    f"the plugin, of version {self.version[0]}.{self.version[1]} of the PJRT C "
                    f"API, has no function PJRT_{name}",
                )
            found = self._functions[name] = _CALL(self._table[_SLOTS[name]] or 0)
        return found

    def call(self, name: str, /, **fields: Any) -> Any:
        """Calls a function.

        Args:
          name: the name in `FUNCTIONS`.
          fields: the fields of its struct to set.

        Returns:
          The struct, with the fields that the function has written.

        Raises:
          PjrtError: the function returned an error.
        """
        struct = STRUCTS[name]
        arguments = struct(**fields)
        arguments.struct_size = struct.size
        error = self.function(name)(ctypes.addressof(arguments))
        if error:
            raise self.error(error)
        return arguments

    def error(self, error: int) -> PjrtError:
        """Converts and frees an error of the plugin."""
        message, code = STRUCTS["Error_Message"](), STRUCTS["Error_GetCode"]()
        for arguments in (message, code):
            arguments.struct_size, arguments.error = type(arguments).size, error
        self.function("Error_Message")(ctypes.addressof(message))
        text = text_at(message.message, message.message_size)
        self.function("Error_GetCode")(ctypes.addressof(code))
        name = CODES[code.code] if 0 <= code.code < len(CODES) else str(code.code)
        destroy = STRUCTS["Error_Destroy"](error=error)
        destroy.struct_size = type(destroy).size
        self.function("Error_Destroy")(ctypes.addressof(destroy))
        return PjrtError(name, text.removeprefix(f"{name}: "))

    def text(self, name: str, /, **fields: Any) -> str:
        """Calls a function that returns a string."""
        arguments = self.call(name, **fields)
        return text_at(arguments.text, arguments.text_size)

    def named_values(self, address: int | None, count: int) -> dict[str, Any]:
        """Reads an array of named values."""
        if not count:
            return {}
        struct = STRUCTS["NamedValue"]
        return {
            text_at(entry.name, entry.name_size): _value(entry)
            for entry in (struct * count).from_address(address)
        }

    def wait(self, event: int | None) -> None:
        """Waits for an event and frees it.

        Raises:
          PjrtError: the operation of the event failed.
        """
        if not event:
            return
        try:
            self.call("Event_Await", event=event)
        finally:
            self.call("Event_Destroy", event=event)

    def is_ready(self, event: int) -> bool:
        """Whether waiting for an event would return at once."""
        return bool(self.call("Event_IsReady", event=event).is_ready)


_STRING, _INT, _INTS, _FLOAT, _BOOL = range(5)


def _value(entry: Any) -> Any:
    raw = ctypes.c_int64(entry.value)
    if entry.type == _STRING:
        return text_at(raw.value, entry.value_size)
    if entry.type == _INTS:
        return tuple((ctypes.c_int64 * entry.value_size).from_address(raw.value))
    if entry.type == _FLOAT:
        return ctypes.c_float.from_buffer(raw).value
    if entry.type == _BOOL:
        return bool(ctypes.c_bool.from_buffer(raw).value)
    return raw.value


def named_values_of(options: dict[str, Any]) -> tuple[Any, list[Any]]:
    """An array of named values for a plugin, and the objects to keep alive along with it."""
    struct = STRUCTS["NamedValue"]
    array = (struct * max(len(options), 1))()
    kept: list[Any] = []
    for entry, (name, value) in zip(array, options.items(), strict=False):
        text = ctypes.create_string_buffer(name.encode())
        kept.append(text)
        entry.struct_size, entry.name, entry.name_size = (
            struct.size,
            address_of(text),
            len(text) - 1,
        )
        entry.value_size = 1
        if isinstance(value, bool):
            entry.type, entry.value = _BOOL, int(value)
        elif isinstance(value, int):
            entry.type, entry.value = _INT, value
        elif isinstance(value, float):
            entry.type = _FLOAT
            entry.value = ctypes.c_uint32.from_buffer(ctypes.c_float(value)).value
        else:
            given = ctypes.create_string_buffer(str(value).encode())
            kept.append(given)
            entry.type, entry.value, entry.value_size = _STRING, address_of(given), len(given) - 1
    return array, kept
