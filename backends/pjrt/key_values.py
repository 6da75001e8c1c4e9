"""The key-value store through which a plugin's clients in several processes find each other.

A plugin for devices of several hosts calls C functions that the creator of its client provides: to
publish a value, to wait for one, and to look one up. `KeyValueCallbacks` makes these functions from
a `KeyValueStore`. A plugin may call them in any of its threads; ctypes takes the lock of the
interpreter for each call.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

from gnomon.backends.pjrt.c_api import CODES, STRUCTS

__all__ = ["KeyValueCallbacks", "KeyValueStore"]


class KeyValueStore(Protocol):
    """Values that all processes of a program can read."""

    def put_bytes(self, key: str, value: bytes) -> None:
        """Publish a value."""

    def get_bytes(self, key: str, timeout: float) -> bytes:
        """Wait for a value, for some seconds.

        Raises:
          TimeoutError: no process published it in time.
        """

    def try_get_bytes(self, key: str) -> bytes | None:
        """The value, or None if no process has published it yet."""


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_MAKE_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)


class _NotFoundError(LookupError):
    """A key has no value yet."""


class KeyValueCallbacks:
    """C functions over a store, for the creation of a client; the client keeps this object.

    Args:
      store: the store.
      prefix: the beginning of all keys, different for each platform.

    Attributes:
      fields: the fields of the arguments of ``Client_Create``.
    """

    def __init__(self, store: KeyValueStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        # The memory of values that the plugin has not deleted yet.
        self._values: dict[int, Any] = {}
        self._deleter = _DELETER(lambda address: self._values.pop(address, None) and None)
        self._functions = {
            "kv_get": _CALLBACK(lambda address: self._called("KeyValueGet", address, self._get)),
            "kv_put": _CALLBACK(lambda address: self._called("KeyValuePut", address, self._put)),
            "kv_try_get": _CALLBACK(
                lambda address: self._called("KeyValueTryGet", address, self._try_get)
            ),
        }
        self.fields = {
            name: ctypes.cast(function, ctypes.c_void_p).value
            for name, function in self._functions.items()
        }

    def _called(self, struct: str, address: int, act: Any) -> int | None:
        """Run a callback; an exception becomes an error of the plugin."""
        arguments = STRUCTS[struct].from_address(address)
        try:
            act(
                arguments,
                self._prefix + ctypes.string_at(arguments.key, arguments.key_size).decode(),
            )
        except _NotFoundError as error:
            return self._error(arguments, "NOT_FOUND", error)
        except TimeoutError as error:
            return self._error(arguments, "DEADLINE_EXCEEDED", error)
        except Exception as error:
            return self._error(arguments, "INTERNAL", error)
        return None

    def _error(self, arguments: Any, code: str, error: Exception) -> int | None:
        message = f"{type(error).__name__}: {error}".encode()
        make = _MAKE_ERROR(ctypes.c_void_p.from_address(arguments.callback_error).value or 0)
        made: int | None = make(CODES.index(code), message, len(message))
        return made

    def _put(self, arguments: Any, key: str) -> None:
        self._store.put_bytes(key, ctypes.string_at(arguments.value, arguments.value_size))

    def _get(self, arguments: Any, key: str) -> None:
        self._give(arguments, self._store.get_bytes(key, arguments.timeout_in_ms / 1000))

    def _try_get(self, arguments: Any, key: str) -> None:
        value = self._store.try_get_bytes(key)
        if value is None:
            raise _NotFoundError(key)
        self._give(arguments, value)

    def _give(self, arguments: Any, value: bytes) -> None:
        memory = ctypes.create_string_buffer(value, len(value) + 1)
        address = ctypes.addressof(memory)
        self._values[address] = memory
        arguments.value, arguments.value_size = address, len(value)
        arguments.deleter = ctypes.cast(self._deleter, ctypes.c_void_p).value
