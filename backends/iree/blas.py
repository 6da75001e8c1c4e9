"""The BLAS that NumPy ships, for products of matrices in compiled programs.

NumPy's wheels contain OpenBLAS with 64-bit integers. NumPy's copy has its own threads, which
spin for up to 26 ms after each product: in a program that alternates its products with IREE's
kernels, a product of 512 rows took 17 ms of CPU time instead of 3.7. The number of threads is a
setting of the whole copy, and belongs to NumPy's users. So programs use a second copy of the
library, without threads. IREE's threads call it concurrently, each for its part of the result.

Another BLAS (MKL, Accelerate, the system's) is not used: programs keep IREE's kernels.
"""

from __future__ import annotations

import ctypes
import functools
import logging

from gnomon._native import __file__ as native_file
from gnomon.backends.errors import ExecutionError
from gnomon.backends.iree.targets.machine import find_linker
from gnomon_runtime.linear_algebra.openblas import load_without_threads, shipped_library

__all__ = ["SYMBOL", "has_products", "load_for", "shipped_library"]

logger = logging.getLogger(__name__)

SYMBOL = "gnomon_product_"
"""The prefix of the native functions that kernels call for products."""

_SINGLE, _DOUBLE = "scipy_cblas_sgemm64_", "scipy_cblas_dgemm64_"


@functools.cache
def has_products() -> bool:
    """Whether kernels can call the library; loads it if it is not loaded yet."""
    if shipped_library() is None or find_linker().kind == "none":
        logger.debug("products of matrices: NumPy ships no OpenBLAS that kernels could call")
        return False
    library = load_without_threads()
    try:
        single, double = getattr(library, _SINGLE), getattr(library, _DOUBLE)
    except AttributeError as error:
        logger.debug("products of matrices: NumPy's OpenBLAS cannot be used: %s", error)
        return False
    pointers = (ctypes.cast(f, ctypes.c_void_p) for f in (single, double))
    ctypes.CDLL(native_file).gnomon_set_products(*pointers)
    return True


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
