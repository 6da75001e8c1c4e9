"""Functions of small arguments keep their digits in compiled programs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
from gnomon import lax

REAL = ("expm1", "log1p", "sinh", "asinh", "tanh", "atanh", "sin", "tan")
OF_COMPLEX = (*REAL, "asin", "cos")
SMALL = np.array([1e-18, -1e-12, 1e-7, -1e-3, 0.3, -0.45, 0.6, -0.0])


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("bits", [32, 64])
def test_compiled_functions_are_the_evaluators(bits: int) -> None:
    real = np.float32 if bits == 32 else np.float64
    x = SMALL.astype(real)
    z = (SMALL[:, None] + 1j * SMALL).astype(np.complex64 if bits == 32 else np.complex128)

    def several(x: Any, z: Any) -> Any:
        found = [getattr(lax, name)(x) for name in REAL]
        found += [getattr(lax, name)(z) for name in OF_COMPLEX]
        if bits == 64:
            halves = lax.convert_element_type(x * 2.0**-20, np.float16)
            return [*found, lax.convert_element_type(halves, real)]
        return found

    with gn.enable_x64(bits == 64):
        for name, want, got in zip(
            (*REAL, *OF_COMPLEX, "float16"), several(x, z), gn.jit(several)(x, z), strict=False
        ):
            a, b = np.asarray(want), np.asarray(got)
            units = np.abs(a - b) / np.maximum(np.abs(a), ml_dtypes.finfo(real).tiny)
            assert units.max() < 16 * ml_dtypes.finfo(real).eps, name
            if not np.iscomplexobj(a):
                assert np.signbit(b[-1]), name
