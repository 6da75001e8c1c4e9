"""The key-value functions that a plugin gets, called through C as a plugin calls them."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from gnomon.backends.pjrt.c_api import CODES, STRUCTS
from gnomon.backends.pjrt.key_values import KeyValueCallbacks

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_MAKE_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)


class Store:
    """A store of one process."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def put_bytes(self, key: str, value: bytes) -> None:
        if not value:
            raise ValueError("nothing to put")
        self.values[key] = value

    def get_bytes(self, key: str, timeout: float) -> bytes:
        if key not in self.values:
            raise TimeoutError(f"{timeout:g} s")
        return self.values[key]

    def try_get_bytes(self, key: str) -> bytes | None:
        return self.values.get(key)


class Plugin:
    """A stand-in for a plugin, which calls the functions and keeps their errors."""

    def __init__(self, store: Any) -> None:
        self.callbacks = KeyValueCallbacks(store, "prefix/")
        self.errors: list[tuple[str, str]] = []
        self.make_error = _MAKE_ERROR(self._made)
        # The arguments hold the address of a pointer to this function.
        self.pointer = ctypes.c_void_p(ctypes.cast(self.make_error, ctypes.c_void_p).value)

    def _made(self, code: int, message: int, size: int) -> int:
        self.errors.append((CODES[code], ctypes.string_at(message, size).decode()))
        return 1  # the address of an error

    def call(self, name: str, struct: str, key: bytes, **fields: Any) -> bytes | None:
        """The value that a function returns; None if it returns an error."""
        text = ctypes.create_string_buffer(key)
        arguments = STRUCTS[struct](
            key=ctypes.addressof(text),
            key_size=len(key),
            callback_error=ctypes.addressof(self.pointer),
            **fields,
        )
        arguments.struct_size = STRUCTS[struct].size
        if _FUNCTION(self.callbacks.fields[name])(ctypes.addressof(arguments)):
            return None
        if name == "kv_put":
            return b""
        value = ctypes.string_at(arguments.value, arguments.value_size)
        _DELETER(arguments.deleter)(arguments.value)
        return value

    def put(self, key: bytes, value: bytes) -> bytes | None:
        data = ctypes.create_string_buffer(value, len(value) + 1)
        fields = {"value": ctypes.addressof(data), "value_size": len(value)}
        return self.call("kv_put", "KeyValuePut", key, **fields)


def test_values_go_through_the_store() -> None:
    store = Store()
    plugin = Plugin(store)
    assert plugin.put(b"cuda:topology/0", b"a\0b") == b""
    assert store.values == {"prefix/cuda:topology/0": b"a\0b"}
    assert plugin.call("kv_get", "KeyValueGet", b"cuda:topology/0", timeout_in_ms=10) == b"a\0b"
    assert plugin.call("kv_try_get", "KeyValueTryGet", b"cuda:topology/0") == b"a\0b"
    assert not plugin.callbacks._values  # the plugin has deleted its copies
    assert not plugin.errors


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda p: p.call("kv_try_get", "KeyValueTryGet", b"k"), ("NOT_FOUND", "prefix/k")),
        (
            lambda p: p.call("kv_get", "KeyValueGet", b"k", timeout_in_ms=1500),
            ("DEADLINE_EXCEEDED", "TimeoutError: 1.5 s"),
        ),
        (lambda p: p.put(b"k", b""), ("INTERNAL", "ValueError: nothing to put")),
    ],
)
def test_exceptions_are_errors_of_the_plugin(call: Any, error: tuple[str, str]) -> None:
    plugin = Plugin(Store())
    assert call(plugin) is None
    ((code, message),) = plugin.errors
    assert (code, error[1] in message) == (error[0], True)
