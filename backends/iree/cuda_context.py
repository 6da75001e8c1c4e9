"""CUDA's current context, which belongs to a thread.

A call of CUDA's driver works in the context that is current in the calling thread. IREE 3.13 makes
a device's context current in the thread that creates the device, and nowhere else: in other threads
it can neither allocate memory nor start a program (``CUDA_ERROR_INVALID_CONTEXT``).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

__all__ = ["activator"]


def _nothing() -> None:
    """Devices without such contexts need no preparation."""


def activator(driver: str) -> Callable[[], None]:
    """A function that prepares the calling thread for the use of a device.

    It is to be called before every use. Other libraries change the current context too, so the
    function does not remember the threads that it has prepared; it takes half a microsecond.

    Args:
      driver: the name of the driver of a device that this thread has just created.
    """
    if driver != "cuda":
        return _nothing
    library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    context = ctypes.c_void_p()
    code = library.cuCtxGetCurrent(ctypes.byref(context))
    if code or not context.value:
        raise RuntimeError(f"the device has no context (cuCtxGetCurrent returned {code})")
    set_current = library.cuCtxSetCurrent
    set_current.argtypes = (ctypes.c_void_p,)
    handle = context.value

    def activate() -> None:
        # If it fails, so does the call for which it prepares, with a better message.
        set_current(handle)

    return activate
