"""Private folders for short-lived files: libraries that are loaded, objects to link.

IREE's runtime and compiler use the environment's `TMPDIR` without checks: every program fails if
that folder is missing, full or read-only, and spaces and quotes in its name reach a shell. So we
choose a folder that works, with a name without such characters.

A process locks its folder and removes it at its end. If a signal or `os._exit` ends the process
first, the lock is gone and the folder stays; the next process that needs a folder there removes it.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import mmap
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator

from gnomon._native import remove_folder_at_exit
from gnomon.backends.cache import cache_directory, is_private
from gnomon.backends.errors import BackendUnavailable

if sys.platform != "win32":
    import fcntl

__all__ = [
    "make_private_folder",
    "make_scratch_folder",
    "remove_orphans",
    "restore",
    "scratch_folder",
    "temporary_folder",
]

# A folder must have room for this much, which is more than nearly every program needs.
_PROBE_BYTES = 1 << 20
# The name of a process's folder: the id of the process, and random characters.
_OF_PROCESS = re.compile(r"gnomon-\d+-\w+")


def _candidates() -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield tempfile.gettempdir()
    yield from ("/tmp", "/var/tmp", "/dev/shm")
    with contextlib.suppress(OSError, ValueError):
        folder = cache_directory()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield os.fspath(folder)
    yield os.curdir


def make_private_folder(prefix: str = "gnomon-") -> str:
    """Make a folder that only this user can access, where files can be written and executed.

    Raises:
      BackendUnavailable: there is no such folder.
    """
    reasons = []
    for parent in dict.fromkeys(map(os.path.abspath, _candidates())):
        try:
            folder = tempfile.mkdtemp(prefix=prefix, dir=parent)
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
    """This process's folder for libraries that are being loaded; usually it is empty."""
    while True:
        folder = make_private_folder(f"gnomon-{os.getpid()}-")
        if _take(folder):
            remove_orphans(os.path.dirname(folder))
            return folder


def _take(folder: str) -> bool:
    """Lock a folder for the life of this process, and remove it at the end.

    Returns:
      False if another process took the folder for an orphan between its creation and the lock.
    """
    try:
        descriptor = _lock_folder(folder)
    except (FileNotFoundError, BlockingIOError):
        return False
    except OSError:
        # The file system has no locks, so no process removes folders of others.
        descriptor = None
    if descriptor is not None:
        # Forked children share the lock, as they share the folder.
        _descriptors.append(descriptor)
    remove_folder_at_exit(os.fsencode(folder))
    return True


_descriptors: list[int] = []


def _lock_folder(folder: str) -> int | None:
    """Lock a folder of this user; return the descriptor that holds the lock.

    Raises:
      BlockingIOError: another process holds the lock.
      OSError: it is no folder of this user, it was removed, or it cannot be locked.
    """
    if sys.platform == "win32":
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user", folder)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.lstat(folder)):
            raise FileNotFoundError(errno.ENOENT, "it was replaced", folder)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def remove_orphans(parent: str) -> None:
    """Remove the folders in a folder whose processes ended without removing them."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        names = [entry.path for entry in entries if _OF_PROCESS.fullmatch(entry.name)]
        for name in names:
            with contextlib.suppress(OSError):
                descriptor = _lock_folder(name)
                try:
                    shutil.rmtree(name, ignore_errors=True)
                finally:
                    if descriptor is not None:
                        os.close(descriptor)


def make_scratch_folder() -> str:
    """Make a private folder in `scratch_folder`, which the caller must remove."""
    restore(scratch_folder())
    return tempfile.mkdtemp(dir=scratch_folder())


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """A private folder in `scratch_folder`, which is removed at the end of the context."""
    folder = make_scratch_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def restore(folder: str) -> None:
    """Make sure that the folder exists and is private; the process that made it may have ended."""
    while not os.path.exists(folder):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
            _take(folder)
    if not is_private(folder):
        raise BackendUnavailable(f"the temporary folder {folder} is accessible to other users")
