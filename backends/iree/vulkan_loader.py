"""The Vulkan loader that IREE uses: it signals in order, and its waits sleep.

`backends/native/vulkan_loader.cpp` says what goes wrong otherwise.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gnomon._native import __file__ as native_file

__all__ = ["our_loader"]

# By this IREE is told of a loader, as a file or as the folder of one.
_VARIABLE = "IREE_HAL_VULKAN_LIBVULKAN_PATH"
_NAMES = ("libvulkan.so.1", "libvulkan.so")
_OURS = os.path.join(os.path.dirname(native_file), "libgnomon_vulkan.so")


def _candidates() -> Iterator[str]:
    given = os.environ.get(_VARIABLE)
    if given:
        yield from (
            (os.path.join(given, name) for name in _NAMES) if os.path.isdir(given) else (given,)
        )
    yield from _NAMES


@contextmanager
def our_loader() -> Iterator[None]:
    """Has IREE take Vulkan's functions from our library, if the block makes its driver.

    Where no loader is found, IREE looks for one itself and says what it tried.
    """
    # IREE's other platforms have a driver of their own, or were never seen.
    if not sys.platform.startswith("linux"):
        yield
        return
    open_vulkan = ctypes.CDLL(_OURS).gnomon_open_vulkan
    open_vulkan.argtypes, open_vulkan.restype = [ctypes.c_char_p], ctypes.c_char_p
    if all(open_vulkan(os.fsencode(path)) is not None for path in _candidates()):
        yield
        return
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = _OURS
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
