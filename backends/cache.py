"""A cache of compiled executables on disk, shared by all processes of a user.

Programs and their kernels are entries. An entry is a file named by the hash of everything that
determines its content: the portable artifact or the kernel's text, the compiler's flags and
version, and the features of the CPU. A changed program, flag, compiler or machine therefore never
finds a stale entry, and nothing has to be invalidated. Other entries lead from a traced program to
its executable (`iree/program_cache.py`).

The cache is only an optimization: if its folder cannot be written or an entry is damaged, the
program is compiled as if there were no cache.

Entries are native code, so the folder is created with access for its user alone. A folder that
belongs to another user, or that others may write to, is not used, nor are the folders in it.

A file holds the total size (`_Total`), so that a write does not look at all entries. They are
listed when the total exceeds the maximum, and once a day.

Environment:
    GNOMON_CACHE: `0`, `off`, `false` or `no` disables the cache.
    GNOMON_CACHE_DIR: the folder; by default `gnomon` in `$XDG_CACHE_HOME` or in the user's cache
        folder.
    GNOMON_CACHE_MAX_BYTES: the maximum size, 2 GiB by default.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import stat
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

if sys.platform != "win32":
    import fcntl

__all__ = [
    "IMPORTED_S",
    "CacheEntry",
    "ExecutableCache",
    "cache_directory",
    "cache_key",
    "default_cache",
    "is_private",
    "make_private",
]

logger = logging.getLogger(__name__)

# The time at which `import gnomon` ran.
IMPORTED_S = time.time()

_MAGIC = b"gnomon-cache-1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
_SUFFIX = ".bin"
_TEMPORARY_PREFIX = ".partial-"
_STALE_TEMPORARY_S = 3600.0
_DEFAULT_MAX_BYTES = 2 << 30
# Eviction frees more than needed, so that a full cache is not scanned for every new entry.
_EVICTION_GOAL = 0.9
_SCAN_INTERVAL_S = 86400.0
# The file of a `_Total`: the time of the last count, and a byte for each unit.
_HEADER = struct.Struct("<d")
_UNIT = 1024
_FALSE_WORDS = frozenset({"0", "off", "false", "no"})


def cache_key(*parts: bytes | str) -> str:
    """Returns the hexadecimal SHA-256 of `parts`, each preceded by its length.

    The lengths keep `("ab", "c")` and `("a", "bc")` apart.

    Example:
      >>> cache_key("ab", "c") == cache_key("a", "bc")
      False
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def cache_directory() -> Path:
    """Returns the folder for files that gnomon may delete and create again.

    Raises:
      ValueError: GNOMON_CACHE_DIR begins with the home of a user who does not exist.
    """
    explicit = os.environ.get("GNOMON_CACHE_DIR")
    if explicit:
        try:
            return Path(explicit).expanduser()
        except RuntimeError as error:
            raise ValueError(f"GNOMON_CACHE_DIR={explicit!r}: {error}") from None
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg:
        return Path(xdg) / "gnomon"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "gnomon" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gnomon"
    return Path.home() / ".cache" / "gnomon"


def is_private(folder: Path | str) -> bool:
    """Whether a folder exists, belongs to this user, and only this user may write to it."""
    try:
        status = os.stat(folder)
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode):
        return False
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def make_private(folder: Path) -> None:
    """Creates a folder that only this user can access, and its parents.

    Raises:
      OSError: it cannot be created, or it exists and others may write to it.
    """
    if not folder.exists():
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    if not is_private(folder):
        raise PermissionError(
            f"it belongs to another user, or others may write to it; run `chmod go-w {folder}`, or "
            "set GNOMON_CACHE_DIR to another folder"
        )


class CacheEntry(NamedTuple):
    """One cached executable: its key, its size on disk, and when it was last read or written."""

    key: str
    size_bytes: int
    last_used: float


class ExecutableCache:
    """A bounded, content-addressed store of byte strings in one folder.

    It is safe for concurrent use by several threads and processes: an entry appears by an atomic
    rename, and a reader verifies the checksum that is stored with it.

    Args:
      directory: the folder; created by the first write. It is not used if others may write to it or
        to the folder that contains it.
      max_bytes: the maximum size; beyond it, the least recently used entries are removed.
    """

    def __init__(self, directory: Path | str, *, max_bytes: int = _DEFAULT_MAX_BYTES) -> None:
        if max_bytes <= 0:
            raise ValueError(
                f"max_bytes must be positive, got {max_bytes}; to disable the cache, set "
                "GNOMON_CACHE=0"
            )
        self.directory = Path(directory)
        self.max_bytes = max_bytes
        self._total = _Total(self.directory / "size")

    def __repr__(self) -> str:
        return f"ExecutableCache({str(self.directory)!r}, max_bytes={self.max_bytes})"

    def get(self, key: str) -> bytes | None:
        """Returns the bytes stored under `key`, or None; removes a damaged entry."""
        path = self._path(key)
        try:
            content = self._read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            _warn_once(f"the cache entry {path} is not used: {error}")
            return None
        header = len(_MAGIC) + _DIGEST_BYTES
        payload = content[header:]
        if (
            not content.startswith(_MAGIC)
            or hashlib.sha256(payload).digest() != content[len(_MAGIC) : header]
        ):
            logger.warning("discarded the damaged cache entry %s", path)
            self.remove(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return payload

    def remove(self, key: str) -> None:
        """Removes the entry of `key`, if there is one."""
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def _read(self, path: Path) -> bytes:
        """Reads a regular file that only this user may write to; rejects anything else."""
        for folder in (self.directory.parent, self.directory, path.parent):
            if folder.exists() and not is_private(folder):
                raise PermissionError(f"others may write to {folder}, or another user owns it")
        # Without O_NONBLOCK, opening a pipe would wait.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError("it is not a regular file")
            if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
                raise PermissionError("it belongs to another user")
            if status.st_size > self.max_bytes:
                raise OSError(f"its {status.st_size} bytes exceed the bound of {self.max_bytes}")
            return file.read(self.max_bytes)

    def put(self, key: str, payload: bytes) -> None:
        """Stores `payload` under `key`; logs errors such as a full or read-only disk."""
        self.put_all({key: payload})

    def put_all(self, payloads: Mapping[str, bytes]) -> None:
        """Stores several entries in their order, as `put` does."""
        stored = [self._write(key, payload) for key, payload in payloads.items()]
        if any(stored):
            self._evict()

    def _write(self, key: str, payload: bytes) -> bool:
        """Writes an entry; returns False if it cannot be written."""
        size = len(payload) + len(_MAGIC) + _DIGEST_BYTES
        if size > self.max_bytes:
            logger.info("not cached: %d bytes exceed the bound of %d", size, self.max_bytes)
            return False
        path = self._path(key)
        try:
            for folder in (self.directory.parent, self.directory, path.parent):
                make_private(folder)
            self._total.add(size)
            handle, name = tempfile.mkstemp(prefix=_TEMPORARY_PREFIX, dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC)
                    file.write(hashlib.sha256(payload).digest())
                    file.write(payload)
                os.replace(name, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
        except OSError as error:
            _warn_once(f"the executable cache in {self.directory} cannot be written: {error}")
            return False
        return True

    def entries(self) -> list[CacheEntry]:
        """Returns all entries, the least recently used one first."""
        found = [
            CacheEntry(path.stem, status.st_size, status.st_mtime)
            for path, status in self._files()
            if path.suffix == _SUFFIX
        ]
        return sorted(found, key=lambda entry: (entry.last_used, entry.key))

    def is_empty(self) -> bool:
        """Returns whether there is no entry, without reading all of them."""
        return all(path.suffix != _SUFFIX for path, _ in self._files())

    def size_bytes(self) -> int:
        """Returns the total size of all entries."""
        return sum(entry.size_bytes for entry in self.entries())

    def clear(self) -> int:
        """Removes every entry and returns how many there were."""
        removed = 0
        for path, status in list(self._files()):
            # A file that another process is about to rename is not an entry yet.
            if path.suffix == _SUFFIX or _is_stale(status):
                with contextlib.suppress(OSError):
                    path.unlink()
                    removed += path.suffix == _SUFFIX
        self._total.forget()
        return removed

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / f"{key}{_SUFFIX}"

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        try:
            folders = [entry.path for entry in os.scandir(self.directory) if entry.is_dir()]
        except OSError:
            return
        for folder in folders:
            # Another process may empty or remove the folder between the two scans.
            with contextlib.suppress(OSError), os.scandir(folder) as files:
                for file in files:
                    if file.name.endswith(_SUFFIX) or file.name.startswith(_TEMPORARY_PREFIX):
                        with contextlib.suppress(OSError):
                            yield Path(file.path), file.stat()

    def _evict(self) -> None:
        """Remove the least recently used entries if there are too many."""
        # Another process may have left the eviction to this one while this one held the lock.
        while self._total.exceeds(self.max_bytes):
            with self._total.counting() as count:
                if count.is_another_process:
                    return
                kept = self._remove_oldest()
                count.record(kept)
            if count.file is None or kept > self.max_bytes:
                return

    def _remove_oldest(self) -> int:
        """List all files, remove what is too much and leftovers; return the size of the rest."""
        total = 0
        candidates: list[tuple[float, int, Path]] = []
        for path, status in self._files():
            if path.suffix == _SUFFIX:
                total += status.st_size
                candidates.append((status.st_mtime, status.st_size, path))
            elif _is_stale(status):
                with contextlib.suppress(OSError):
                    path.unlink()
        if total <= self.max_bytes:
            return total
        for _, size, path in sorted(candidates):
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
            if total <= self.max_bytes * _EVICTION_GOAL:
                break
        return total


class _Total:
    """The size of all entries of a cache, shared by processes; it may be too large.

    It is the length of a file, to which processes append a byte for each `_UNIT` that they write.
    The system makes appending atomic, so no process waits. Entries that are replaced or removed are
    not subtracted. The file begins with the time at which the entries were last counted.

    Args:
      path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, size: int) -> None:
        """Record that an entry is about to be written."""
        with contextlib.suppress(OSError), self._open(os.O_WRONLY | os.O_APPEND) as file:
            os.write(file, bytes(-(-size // _UNIT)))

    def exceeds(self, limit: int) -> bool:
        """Whether the entries may have more bytes than a limit, or were not counted for long."""
        try:
            with self._open(os.O_RDONLY) as file:
                header = os.read(file, _HEADER.size)
                size = os.fstat(file).st_size - _HEADER.size
        except OSError:
            return True
        if len(header) < _HEADER.size:
            return True
        age = time.time() - _HEADER.unpack(header)[0]
        return size * _UNIT > limit or not 0 <= age < _SCAN_INTERVAL_S

    @contextlib.contextmanager
    def counting(self) -> Iterator[_Count]:
        """A context in which the entries are counted, by one process at a time."""
        with contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context(self._open(os.O_RDWR | os.O_CREAT))
                if sys.platform != "win32":
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                count = _Count(file, os.fstat(file).st_size)
            except BlockingIOError:
                count = _Count(is_another_process=True)
            except OSError:
                count = _Count()
            yield count

    def forget(self) -> None:
        """Count the entries at the next opportunity."""
        with contextlib.suppress(OSError):
            self._path.unlink()

    @contextlib.contextmanager
    def _open(self, flags: int) -> Iterator[int]:
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        file = os.open(self._path, flags, 0o600)
        try:
            yield file
        finally:
            os.close(file)


class _Count(NamedTuple):
    """A count of the entries of a cache.

    Attributes:
      file: the descriptor of the file of a `_Total`; None if it cannot be written.
      before: the length of the file before.
      is_another_process: whether another process is counting.
    """

    file: int | None = None
    before: int = 0
    is_another_process: bool = False

    def record(self, size: int) -> None:
        """Write the size of all entries."""
        if self.file is None:
            return
        # Entries that were written meanwhile may or may not have been counted.
        meanwhile = os.fstat(self.file).st_size - self.before
        with contextlib.suppress(OSError):
            os.ftruncate(self.file, _HEADER.size + size // _UNIT + meanwhile)
            os.write(self.file, _HEADER.pack(time.time()))


@functools.lru_cache(64)
def _warn_once(message: str) -> None:
    logger.warning("%s", message)


def _is_stale(status: os.stat_result) -> bool:
    """Whether a temporary file was left over by a process that was killed while writing."""
    return time.time() - status.st_mtime > _STALE_TEMPORARY_S


def default_cache() -> ExecutableCache | None:
    """Returns the cache that the environment configures, or None if it is disabled.

    Raises:
      ValueError: GNOMON_CACHE_MAX_BYTES is not a positive integer.
    """
    if os.environ.get("GNOMON_CACHE", "1").strip().lower() in _FALSE_WORDS:
        return None
    text = os.environ.get("GNOMON_CACHE_MAX_BYTES")
    try:
        max_bytes = int(text) if text else _DEFAULT_MAX_BYTES
    except ValueError:
        raise ValueError(
            f"GNOMON_CACHE_MAX_BYTES={text!r} is not a number of bytes; give an integer such as "
            f"{_DEFAULT_MAX_BYTES}"
        ) from None
    return ExecutableCache(cache_directory() / "executables", max_bytes=max_bytes)
