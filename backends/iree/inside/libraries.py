"""The files and descriptors of the libraries that IREE loads.

IREE 3.13 writes a library to a file in the folder that the environment's `TMPDIR` names when the
first one is loaded, opens it with a descriptor that nothing uses, and never releases either.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from gnomon.backends.iree.scratch import restore, scratch_folder

__all__ = ["loading_libraries"]

_LIBRARY_PREFIX = "iree_dylib_"

_lock = threading.RLock()

# The C library and IREE keep pointers into it.
_assignment: Any = None
_has_loaded_a_library = False


@contextlib.contextmanager
def _redirected() -> Iterator[None]:
    """Set `TMPDIR` to `scratch_folder` for IREE, which reads it once, for its first library.

    Python's own view of the environment does not change.
    """
    global _assignment  # noqa: PLW0603 - kept alive for ever
    if _has_loaded_a_library:
        yield
        return
    if _assignment is None:
        _assignment = ctypes.create_string_buffer(b"TMPDIR=" + os.fsencode(scratch_folder()))
    ctypes.CDLL(None).putenv(_assignment)
    try:
        yield
    finally:
        given = os.environ.get("TMPDIR")
        if given is None:
            os.unsetenv("TMPDIR")
        else:
            os.putenv("TMPDIR", given)


@contextlib.contextmanager
def loading_libraries() -> Iterator[None]:
    """A context in which IREE loads libraries without leaving files or descriptors."""
    global _has_loaded_a_library  # noqa: PLW0603 - IREE settles its folder once for the process
    if not sys.platform.startswith("linux"):
        yield
        return
    with _lock:
        folder = scratch_folder()
        restore(folder)
        try:
            with _redirected():
                yield
        finally:
            for name in os.listdir(folder):
                if name.startswith(_LIBRARY_PREFIX):
                    os.unlink(os.path.join(folder, name))
                    # Some programs have no library: those of GPUs, or that return an argument.
                    _has_loaded_a_library = True
            _close_descriptors_of(os.path.join(folder, _LIBRARY_PREFIX))


def _close_descriptors_of(prefix: str) -> None:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith(prefix):
                os.close(int(name))


def _after_fork_in_child() -> None:
    global _lock  # noqa: PLW0603 - another thread may have held it
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
