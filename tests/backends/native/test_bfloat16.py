"""The conversions to bfloat16 that kernels call, against `ml_dtypes`."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon._native as _native
import gnomon.numpy as gnp

LIBRARY = ctypes.CDLL(_native.__file__)
BITS = np.random.default_rng(0)


def _convert(name: str, values: np.ndarray) -> np.ndarray:
    """The low bits of the first vector register after the call."""
    function = getattr(LIBRARY, name)
    function.argtypes = [ctypes.c_float if values.dtype == np.float32 else ctypes.c_double]
    function.restype = ctypes.c_double
    register = np.array([function(v) for v in values], np.float64)
    return register.view(np.uint64).astype(np.uint16).view(ml_dtypes.bfloat16)


def _special(dtype: type) -> np.ndarray:
    info = np.finfo(dtype)
    ends = [0.0, 1.0, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, 3.3961775e38]
    ties = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 1 + 2**-8 - 2**-20]
    positive = np.array([*ends, *ties], dtype)
    return np.concatenate([positive, -positive])


@pytest.mark.filterwarnings("ignore:invalid value")
def test_from_float32() -> None:
    some = BITS.integers(0, 1 << 32, 20_000, np.uint32).view(np.float32)
    values = np.concatenate([some, _special(np.float32)])
    np.testing.assert_array_equal(
        _convert("__truncsfbf2", values).astype(np.float32),
        values.astype(ml_dtypes.bfloat16).astype(np.float32),
    )


def _rounded_once(values: np.ndarray) -> np.ndarray:
    """The nearest of the candidates around a double; ml_dtypes rounds twice, through float32."""
    candidates = values.astype(np.float32).astype(ml_dtypes.bfloat16)
    below = np.nextafter(candidates, ml_dtypes.bfloat16(-np.inf))
    above = np.nextafter(candidates, ml_dtypes.bfloat16(np.inf))
    table = np.stack([below, candidates, above])
    with np.errstate(invalid="ignore"):
        distance = np.abs(table.astype(np.float64) - values)
    odd = table.view(np.uint16) & 1
    order = np.lexsort((odd, distance), axis=0)[0]
    return np.take_along_axis(table.view(np.uint16), order[None], 0)[0].view(ml_dtypes.bfloat16)


def test_from_float64_rounds_once() -> None:
    some = BITS.standard_normal(20_000) * 10.0 ** BITS.integers(-30, 30, 20_000)
    # Close to a tie, by less than a float32 can represent.
    ties = (1 + 2.0**-8) * (1 + np.array([-1, 0, 1]) * 2.0**-40)
    values = np.concatenate([some, ties, -ties])
    np.testing.assert_array_equal(
        _convert("__truncdfbf2", values).astype(np.float64),
        _rounded_once(values).astype(np.float64),
    )
    ends = _special(np.float64)[:5]
    np.testing.assert_array_equal(
        _convert("__truncdfbf2", ends).astype(np.float64), [0, 1, np.inf, np.nan, np.inf]
    )


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_kernel_that_calls_it_runs() -> None:
    """A histogram in bfloat16 needs such a conversion; it used to crash the process."""
    found = gn.jit(lambda x: gnp.histogram(x.astype(gnp.bfloat16), bins=3)[0])(gnp.arange(7))
    np.testing.assert_array_equal(np.asarray(found, np.float32), [2, 2, 3])
