"""The BLAS that NumPy ships, for products of matrices in compiled programs.

NumPy's wheels contain OpenBLAS with 64-bit integers. NumPy's copy has its own threads, which
spin for up to 26 ms after each product: in a program that alternates its products with IREE's
kernels, a product of 512 rows took 17 ms of CPU time instead of 3.7. The number of threads is a
setting of the whole copy, and belongs to NumPy's users. So programs use a second copy of the
library, without threads. IREE's threads call it concurrently, each for its part of the result.

Another BLAS (MKL, Accelerate, the system's) is not used: programs keep IREE's kernels.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import logging
import os
import shutil
import sys

import numpy as np

from gnomon._native import __file__ as native_file
from gnomon.backends.errors import BackendUnavailable, ExecutionError
from gnomon.backends.iree.scratch import make_scratch_folder
from gnomon.backends.iree.targets.machine import find_linker

__all__ = ["SYMBOL", "has_products", "load_for", "shipped_library"]

logger = logging.getLogger(__name__)

SYMBOL = "gnomon_product_"
"""The prefix of the native functions that kernels call for products."""

_NAME = "libscipy_openblas64_*.so"
_SINGLE, _DOUBLE = "scipy_cblas_sgemm64_", "scipy_cblas_dgemm64_"
_SET_THREADS, _END_THREADS = "scipy_openblas_set_num_threads64_", "blas_thread_shutdown_"


def shipped_library() -> str | None:
    """The path of NumPy's OpenBLAS; None if there is none that programs could call."""
    if not sys.platform.startswith("linux"):
        return None
    folder = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    found = glob.glob(os.path.join(glob.escape(folder), _NAME))
    return found[0] if len(found) == 1 else None


@functools.cache
def has_products() -> bool:
    """Whether kernels can call the library; loads it if it is not loaded yet."""
    path = shipped_library()
    if path is None or find_linker().kind == "none":
        logger.debug("products of matrices: NumPy ships no OpenBLAS that kernels could call")
        return False
    try:
        _load(path)
    except (AttributeError, BackendUnavailable, OSError) as error:
        logger.debug("products of matrices: %s cannot be used: %s", path, error)
        return False
    return True


# The library is never unloaded.
_libraries: list[ctypes.CDLL] = []


def _load(path: str) -> None:
    folder = make_scratch_folder()
    try:
        # The dynamic loader treats a copy of the file as another library. It has another name since
        # tools that set the number of threads find libraries by name, and must not find this one.
        copy = os.path.join(folder, "gnomon_products.so")
        shutil.copyfile(path, copy)
        library = ctypes.CDLL(copy)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    single, double = getattr(library, _SINGLE), getattr(library, _DOUBLE)
    getattr(library, _SET_THREADS)(1)
    with contextlib.suppress(AttributeError):
        getattr(library, _END_THREADS)()
    pointers = (ctypes.cast(f, ctypes.c_void_p) for f in (single, double))
    ctypes.CDLL(native_file).gnomon_set_products(*pointers)
    _libraries.append(library)


def load_for(vmfb: bytes) -> None:
    """Load the library if an executable calls it.

    Raises:
      ExecutionError: it calls the library, which this NumPy does not contain.
    """
    if SYMBOL.encode() in vmfb and not has_products():
        raise ExecutionError(
            "the compiled program multiplies matrices with the OpenBLAS of a NumPy wheel, but the "
            "NumPy of this process does not have it; compile the program again here"
        )
