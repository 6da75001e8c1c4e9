"""Calls of compiled functions whose memory lies between bytes that must not change."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gnomon.dialects.types import TensorType

__all__ = ["Result", "guarded"]

# Before and after each array; no program writes there.
_GUARD, _BYTE = 64, 0xA5


@dataclass
class Result:
    """A result, as backends return it."""

    array: np.ndarray

    def to_numpy(self) -> np.ndarray:
        return self.array


class _Guarded:
    """Memory between bytes that must not change."""

    def __init__(self, size: int) -> None:
        self.bytes = np.full(size + 2 * _GUARD, _BYTE, np.uint8)
        self.inner = self.bytes[_GUARD : _GUARD + size]
        self.pointer = ctypes.c_void_p(self.bytes.ctypes.data + _GUARD)

    def check(self) -> None:
        outside = np.concatenate([self.bytes[:_GUARD], self.bytes[len(self.bytes) - _GUARD :]])
        assert (outside == _BYTE).all(), "the program writes next to an array"


def guarded(
    run: Callable[[list[ctypes.c_void_p]], None], types: Sequence[TensorType], workspace: int
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """A function of pointers as a function of arrays.

    Args:
      run: takes pointers to the arguments, to the results, and to the workspace.
      types: the types of the results.
      workspace: the size of the workspace in bytes.
    """

    def call(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        given = [np.ascontiguousarray(a) for a in arrays]
        outputs = [_Guarded(t.size * t.dtype.itemsize) for t in types]
        memory = [*outputs, _Guarded(workspace)]
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in given]
        run([*pointers, *(each.pointer for each in memory)])
        for each in memory:
            each.check()
        return [
            np.frombuffer(output.inner.tobytes(), t.dtype).reshape(t.shape)
            for output, t in zip(outputs, types, strict=True)
        ]

    return call
