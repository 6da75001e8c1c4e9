"""Results of kernels without arguments: a copy of the second one must not be the first one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax


def _counted(x: Any) -> Any:
    """A loop on the host: in programs with one, the compiler computes constants at each call."""
    return lax.while_loop(lambda c: gnp.any(c < 5), lambda c: c + 1, x)


def _replaced(dtype: Any, size: int) -> Any:
    """An update of a complex splat by its own element, whose two parts are one kernel's results."""
    splat = gnp.full((size,), -1, dtype)
    return lax.fori_loop(0, 1, lambda i, p: p.at[0].set(p[0]), splat)


@pytest.mark.parametrize("size", [1, 4, 65])
def test_parts_of_a_complex_constant(size: int) -> None:
    x = np.zeros(3, np.float32)

    def f(x: Any) -> Any:
        return _replaced(np.complex64, size), _counted(x), gnp.eye(1) * gnp.full((), -1.0)

    replaced, counted, product = gn.jit(f)(x)
    np.testing.assert_array_equal(replaced, np.full(size, -1, np.complex64))
    np.testing.assert_array_equal(counted, np.full(3, 5, np.float32))
    np.testing.assert_array_equal(product, np.full((1, 1), -1, np.float32))


def test_parts_of_a_complex_constant_in_x64() -> None:
    x = np.zeros(3)
    with gn.enable_x64(True):
        replaced, _, product = gn.jit(
            lambda x: (_replaced(np.complex128, 4), _counted(x), gnp.eye(1) * gnp.full((), -1.0))
        )(x)
        np.testing.assert_array_equal(replaced, np.full(4, -1, np.complex128))
        np.testing.assert_array_equal(product, np.full((1, 1), -1.0))


@pytest.mark.parametrize("size", [60, 200_000])
def test_results_of_a_kernel_of_positions(size: int) -> None:
    def f(x: Any) -> Any:
        a = gnp.sin(lax.iota(np.float32, size) * 0.1)
        b = a + 1
        return a.reshape(2, -1), b.reshape(4, -1), b.at[3].set(x[0]), _counted(x)

    x = np.zeros(3, np.float32)
    for expected, found in zip(f(gnp.asarray(x)), gn.jit(f)(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
