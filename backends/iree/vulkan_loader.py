"""The Vulkan loader that IREE uses, which signals in order and sleeps while it waits.

`backends/native/vulkan_loader.cpp` explains the faults that it avoids.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gnomon._native import __file__ as native_file

__all__ = ["interposed_loader"]

# The environment variable that names a loader for IREE, as a file or as its folder.
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
def interposed_loader() -> Iterator[None]:
    """Make IREE take Vulkan's functions from our library, if the block creates its driver.

    If no loader is found, IREE looks for one itself and reports what it tried.
    """
    # IREE's other platforms have other drivers, or are untested.
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
