"""A copy of the OpenBLAS that NumPy's wheels contain, without threads.

The number of threads is a setting of the whole library, and NumPy's copy keeps its number for the
user's calls of NumPy. A second copy has a setting of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import logging
import os
import shutil
import sys
import tempfile
from functools import cache

import numpy as np

__all__ = ["load_without_threads", "shipped_library"]

logger = logging.getLogger(__name__)

_NAME = "libscipy_openblas64_*.so"
# Folders to copy it into: the environment's, which may be full or forbid execution, then others.
_PARENTS = (None, "/tmp", "/var/tmp", "/dev/shm", os.curdir)
_SET_THREADS, _END_THREADS = "scipy_openblas_set_num_threads64_", "blas_thread_shutdown_"


def shipped_library() -> str | None:
    """The path of NumPy's OpenBLAS, which has 64-bit integers; None if NumPy has another BLAS."""
    if not sys.platform.startswith("linux"):
        return None
    folder = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    found = glob.glob(os.path.join(glob.escape(folder), _NAME))
    return found[0] if len(found) == 1 else None


@cache
def load_without_threads() -> ctypes.CDLL | None:
    """The copy, which is never unloaded and may be called by several threads; None without one."""
    path = shipped_library()
    if path is None:
        logger.debug("NumPy ships no OpenBLAS of which a copy could run without threads")
        return None
    try:
        library = _load_copy(path)
        getattr(library, _SET_THREADS)(1)
    except (AttributeError, OSError) as error:
        logger.debug("no copy of %s runs without threads: %s", path, error)
        return None
    with contextlib.suppress(AttributeError):
        getattr(library, _END_THREADS)()
    return library


def _load_copy(path: str) -> ctypes.CDLL:
    failed: OSError | None = None
    for parent in _PARENTS:
        try:
            with tempfile.TemporaryDirectory(prefix="gnomon-", dir=parent) as folder:
                # The dynamic loader treats a copy of the file as another library. It has another
                # name since tools that set the number of threads find libraries by name, and must
                # not find this one.
                copy = os.path.join(folder, "gnomon_products.so")
                shutil.copyfile(path, copy)
                return ctypes.CDLL(copy)
        except OSError as error:
            failed = failed or error
    assert failed is not None
    raise failed
