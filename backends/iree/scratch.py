"""Private folders for files that live for a moment: libraries that are loaded, objects to link.

IREE's runtime and its compiler take the folder of the environment's `TMPDIR` as it is: one that is
missing, full or read-only fails every program, and a name with a space or a quote reaches a shell.
They are given a folder of our own choice by a name without such characters.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import mmap
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from gnomon.backends.cache import cache_directory, is_private
from gnomon.backends.errors import BackendUnavailable

__all__ = ["loading_libraries", "make_private_folder", "make_scratch_folder", "scratch_folder"]

# A folder must have room for so much, which is more than nearly every program needs.
_PROBE_BYTES = 1 << 20
_LIBRARY_PREFIX = "iree_dylib_"

_lock = threading.RLock()


def _candidates() -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield tempfile.gettempdir()
    yield from ("/tmp", "/var/tmp", "/dev/shm")
    with contextlib.suppress(OSError, ValueError):
        folder = cache_directory()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield os.fspath(folder)
    yield os.curdir


def make_private_folder() -> str:
    """Makes a folder that only this user can use, where files can be written and run.

    Raises:
        BackendUnavailable: there is no such place.
    """
    reasons = []
    for parent in dict.fromkeys(map(os.path.abspath, _candidates())):
        try:
            folder = tempfile.mkdtemp(prefix="gnomon-", dir=parent)
        except OSError as error:
            reasons.append(f"{parent}: {error.strerror}")
            continue
        try:
            _probe(folder)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            reasons.append(f"{parent}: {error.strerror}")
        else:
            return folder
    raise BackendUnavailable(
        "compiled programs need a folder for temporary files from which code can be loaded, and "
        f"there is none: {'; '.join(reasons)}; set TMPDIR to one"
    )


def _probe(folder: str) -> None:
    path = os.path.join(folder, "probe")
    with open(path, "w+b") as file:
        file.write(bytes(_PROBE_BYTES))
        file.flush()
        if hasattr(mmap, "PROT_EXEC"):
            mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
    os.unlink(path)


@functools.cache
def scratch_folder() -> str:
    """Returns this process's folder for libraries that are being loaded; usually it is empty."""
    folder = make_private_folder()
    owner = os.getpid()

    def remove() -> None:
        # A forked child uses its parent's, and leaves it there.
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def make_scratch_folder() -> str:
    """Makes a private folder in `scratch_folder`, which whoever asks for it removes."""
    _restore(scratch_folder())
    return tempfile.mkdtemp(dir=scratch_folder())


# The C library and IREE keep pointers into it.
_assignment: Any = None
_has_loaded_a_library = False


@contextlib.contextmanager
def _redirected() -> Iterator[None]:
    """Lets IREE's runtime find `scratch_folder` as `TMPDIR`: it asks once, for its first library.

    Python's own view of the environment stays as it is.
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
    """A context in which IREE loads libraries and leaves neither files nor descriptors.

    IREE 3.13 writes a library to a file with an unused descriptor, and keeps both for ever.
    """
    global _has_loaded_a_library  # noqa: PLW0603 - IREE settles its folder once for the process
    if not sys.platform.startswith("linux"):
        yield
        return
    with _lock:
        folder = scratch_folder()
        _restore(folder)
        try:
            with _redirected():
                yield
        finally:
            for name in os.listdir(folder):
                if name.startswith(_LIBRARY_PREFIX):
                    os.unlink(os.path.join(folder, name))
                    # A program may have no library: one of a GPU, or one that returns its argument.
                    _has_loaded_a_library = True
            _close_descriptors_of(os.path.join(folder, _LIBRARY_PREFIX))


def _restore(folder: str) -> None:
    """Makes sure that the folder is there, and private: the process that made it may have ended."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    if not is_private(folder):
        raise BackendUnavailable(f"the temporary folder {folder} is not this user's alone")


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
