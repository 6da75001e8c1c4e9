"""Functions of Python that compiled programs call, with pointers to operands and results."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gnomon.backends.iree.host import resolve
from gnomon.backends.iree.host_functions import CALLBACK, HostFunction
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.host_call import evaluate_on_host
from gnomon.dialects.types import TensorType

__all__ = ["HostCalls"]


class HostCalls:
    """The functions of Python that one program calls.

    Args:
      functions: the program's table.
      callbacks: the Python functions that the table numbers.

    Attributes:
      addresses: the addresses of the functions.
    """

    def __init__(self, functions: Sequence[HostFunction], callbacks: Sequence[Callback]) -> None:
        self._local = threading.local()
        self._kept = [self._entry(f, callbacks) for f in functions]
        self.addresses = [
            int(ctypes.cast(entry, ctypes.c_void_p).value or 0) for entry in self._kept
        ]

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise after the block what a function of Python raised in it, in this thread."""
        outer = getattr(self._local, "errors", None)
        errors: list[BaseException] = []
        self._local.errors = errors
        try:
            yield
        finally:
            self._local.errors = outer
        if errors:
            raise errors[0] from None

    def _entry(self, function: HostFunction, callbacks: Sequence[Callback]) -> Any:
        """The function as C calls it: with a pointer for each operand and result."""
        op = REGISTRY[f"gnomon.{function.op}"]
        params = op.decode(resolve(function.params, callbacks))
        # A function of the user may keep its operands, whose memory the program uses again.
        copies = CALLBACK in function.params
        local, count = self._local, len(function.operands)

        def call(*pointers: int) -> bool:
            errors: list[BaseException] = local.errors
            if errors:
                return True
            try:
                operands = [
                    _array(p, t, copy=copies)
                    for p, t in zip(pointers[:count], function.operands, strict=True)
                ]
                with np.errstate(all="ignore"):
                    values = evaluate_on_host(op, params, function.results, operands)
                for pointer, type_, value in zip(
                    pointers[count:], function.results, values, strict=True
                ):
                    _view(pointer, type_)[...] = value
            except BaseException as error:
                errors.append(error)
                return True
            return False

        pointers = [ctypes.c_void_p] * (count + len(function.results))
        kind: Callable[..., Any] = ctypes.CFUNCTYPE(ctypes.c_bool, *pointers)
        return kind(call)


def _view(pointer: int, type_: TensorType) -> np.ndarray:
    """The memory of an array."""
    if type_.size == 0:
        return np.empty(type_.shape, type_.dtype)
    memory: Any = (ctypes.c_ubyte * type_.nbytes).from_address(pointer)
    return np.frombuffer(memory, type_.dtype).reshape(type_.shape)


def _array(pointer: int, type_: TensorType, *, copy: bool) -> np.ndarray:
    """A read-only array of the memory, or of a copy of it."""
    view = _view(pointer, type_)
    array = view.copy() if copy else view
    array.flags.writeable = False
    return array
